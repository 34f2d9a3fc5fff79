"""Updates reach the server encrypted, under a key that all clients share (FedBoosting, thesis, section
4.2.2)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field

from leakbench.defences import Defence, Update, View, dense
from leakbench.encryption import quantise


def encrypted(
    *,
    observer: Literal["server", "colluding"] = "server",
    bits: Annotated[int, Field(gt=0)] = 2048,
    value_bits: Annotated[int, Field(gt=0)] = 40,
    scale_bits: Annotated[int, Field(gt=0)] = 32,
    pieces: Annotated[int, Field(gt=0)] = 100,
) -> Defence:
    """Show a server without the key ciphertexts, and one that has it from a client what they open to,
    quantised.

    Ciphertexts are drawn, not made: without the key they cannot be told from uniform bits, and keys and
    blinding may not be seeded, so that real ones would be others at each run; tests hold those of
    `leakbench.encryption` to the same statistics. Read as numbers they lie in [-1, 1). A value takes
    `value_bits` of a plaintext of `bits`, a ciphertext twice the plaintext.
    """

    keyless = observer == "server"

    def view(clients: Sequence[int]) -> View:
        def seen(updates: Update, rng: torch.Generator) -> Update:
            if keyless:
                return {
                    name: torch.rand(value.shape, generator=rng) * 2 - 1 for name, value in updates.items()
                }
            scale = 1 << scale_bits
            return {
                name: torch.from_numpy(
                    quantise.values(
                        [
                            each * pieces
                            for each in quantise.integers(value.double().flatten().numpy(), scale, pieces)
                        ],
                        scale,
                    )
                )
                .float()
                .view_as(value)
                for name, value in updates.items()
            }

        return View(
            [[i] for i in range(len(clients))],
            seen,
            {
                "observer": observer,
                "shared": "ciphertexts of each client's update, each round"
                + ("" if keyless else ", and the key"),
            },
        )

    per_value = -(-2 * bits // max(1, (bits - 1) // value_bits))
    return Defence(bits=lambda value: dense(value, per_value), view=view)
