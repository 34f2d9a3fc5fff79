"""Additively homomorphic encryption: a server weights and adds what it cannot read; one file per scheme,
found by its name.

A scheme's file holds a function of its own name that returns a `Scheme`. What a client sends is `Sealed`;
keys never leave `Keys`, which shows, copies and pickles none of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from leakbench.errors import UserError
from leakbench.parts import part


@dataclass(frozen=True, repr=False)
class Keys:
    """A key pair, or its public half alone (`private` None). `name` is drawn at random and tells pairs
    apart."""

    name: str
    public: Any
    private: Any = field(default=None)

    def __repr__(self) -> str:
        return f"<keys {self.name}, {'a pair' if self.private is not None else 'public half'}>"

    def __reduce__(self) -> Any:
        raise TypeError("keys are neither pickled nor copied")

    def secret(self) -> Any:
        """Return the private key. Raises UserError where there is none."""
        if self.private is None:
            raise UserError("the public half of a key pair opens nothing (ask a client)")
        return self.private

    def without_private(self) -> "Keys":
        """Return the public half, which is all that a server is given."""
        return Keys(self.name, self.public)


class Sealed(NamedTuple):
    """Encrypted values. key: the `name` of the pair; number: how many values; blocks: ciphertexts, as they
    are sent.

    weight: the sum of the integer weights that these values have been multiplied by, 1 when fresh.
    """

    key: str
    number: int
    blocks: tuple[bytes, ...]
    weight: int = 1


class Scheme(NamedTuple):
    """A way to add up what is encrypted.

    `keys()` draws a pair. `seal(keys, values)` encrypts float64 [n] as one of `pieces`. `combine(public,
    parts, weights)` is the encrypted sum of parts times integer weights. `opened(keys, sealed)` is Σ
    weight/pieces · values, float64 [n]. `bound(weights)`: what each opened value may differ by from Σ
    weight/pieces · values. Opened values do not depend on keys, nor on what encryption draws. `about`: facts
    for results; its `bytes_per_ciphertext` is without what a file format adds. All raise UserError, in one
    line, for what does not belong together.
    """

    keys: Callable[[], Keys]
    seal: Callable[[Keys, np.ndarray], Sealed]
    combine: Callable[[Keys, Sequence[Sealed], Sequence[int]], Sealed]
    opened: Callable[[Keys, Sealed], np.ndarray]
    bound: Callable[[Sequence[int]], float]
    check: Callable[[Keys, Sealed, int], None]
    pieces: int
    about: dict[str, Any]


def build(module: str, parameters: dict[str, Any]) -> Scheme:
    """Build the scheme whose file is `module`."""
    scheme: Scheme = part("encryption", module)(**parameters)
    return scheme


def belongs(keys: Keys, sealed: Sealed, count: int, blocks: int) -> None:
    """Refuse an upload of another key pair, of another number of values, or with ciphertexts missing."""
    if sealed.key != keys.name:
        raise UserError("the update is encrypted with another key pair (give all clients the same one)")
    if sealed.number != count or len(sealed.blocks) != blocks:
        raise UserError(
            f"the update has {sealed.number} values in {len(sealed.blocks)} ciphertexts, not {count} in "
            f"{blocks} (send the whole update)"
        )


def chosen(parts: Sequence[Sealed], weights: Sequence[int]) -> list[tuple[Sealed, int]]:
    """Return the parts that weigh something. Raises UserError where none does, or a weight is negative."""
    if min(weights) < 0:
        raise UserError(f"the weight {min(weights)} is negative (weights are shares of the pieces)")
    found = [(each, weight) for each, weight in zip(parts, weights, strict=True) if weight]
    if not found:
        raise UserError("all weights round to nothing (raise the encryption's pieces)")
    return found
