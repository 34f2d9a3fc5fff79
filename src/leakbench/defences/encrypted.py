"""Encrypted updates, under a key that all clients share (FedBoosting, thesis, section 4.2.2)."""

import operator
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, Update, View, dense, each_update, needs
from leakbench.defences.encryption import quantise


def encrypted(
    *,
    observer: Literal["server", "colluding", "sum"] = "server",
    bits: Annotated[int, Field(gt=0)] = 2048,
    value_bits: Annotated[int, Field(gt=0)] = 40,
    scale_bits: Annotated[int, Field(gt=0)] = 32,
    pieces: Annotated[int, Field(gt=0)] = 100,
) -> Defence:
    """Show what an observer of encrypted updates sees, which depends on the keys that it has.

    Ciphertexts are drawn at random instead of being made. Without the key they cannot be distinguished from
    uniform bits. Keys and blinding may not be seeded, so real ciphertexts would differ from run to run. Tests
    hold those of `leakbench.defences.encryption` to the same statistics. Read as numbers the ciphertexts lie
    in [-1, 1).

    observer: a `server` without the key sees ciphertexts. A `colluding` server has the key and sees the
    quantised values of each update. With `sum` clients decrypt the weighted sum of a round for the server,
    and it sees that sum.
    bits: bits of a plaintext; a ciphertext takes twice as many.
    value_bits: bits of a plaintext that one value takes.
    scale_bits: values are rounded to multiples of `pieces` / 2^scale_bits.
    pieces: clients' weights in a sum are multiples of 1 / `pieces`.

    With `sum`, raises Unfit if fewer than two clients take part.
    """

    keyless, scale = observer == "server", 1 << scale_bits

    def integers(value: Tensor) -> list[int]:
        return quantise.integers(value.double().flatten().numpy(), scale, pieces)

    def opened(sums: Sequence[int], like: Tensor) -> Tensor:
        return torch.from_numpy(quantise.values(sums, scale)).float().view_as(like)

    def view(clients: Sequence[int]) -> View:
        if observer == "sum":
            return _summed(clients)

        def seen(updates: Update, rng: torch.Generator) -> Update:
            if keyless:
                return {n: torch.rand(value.shape, generator=rng) * 2 - 1 for n, value in updates.items()}
            return {n: opened([each * pieces for each in integers(v)], v) for n, v in updates.items()}

        told = f"ciphertexts of each client's update, each round{'' if keyless else ', and the key'}"
        return each_update(clients)._replace(seen=seen, knows={"observer": observer, "shared": told})

    def _summed(clients: Sequence[int]) -> View:
        needs(clients, 2, "encrypted")
        shares = quantise.weights([count / sum(clients) for count in clients], pieces)

        def seen(updates: Update, rng: torch.Generator) -> Update:
            found = {}
            for name, value in updates.items():
                parts = zip(*(integers(each) for each in value), strict=True)
                sums = [sum(map(operator.mul, shares, part)) for part in parts]
                found[name] = opened(sums, value[:1])
            return found

        told = f"what the encrypted sum of {len(clients)} clients' updates opens to, each round"
        return View([list(range(len(clients)))], seen, {"shared": told})

    per_value = -(-2 * bits // max(1, (bits - 1) // value_bits))
    return Defence(bits=lambda value: dense(value, per_value), view=view)
