"""Additively homomorphic encryption: a server weights and adds up updates that it cannot read.

Each scheme has a file of its own, which is found by its name and holds a function of this name that returns a
`Scheme`. A client sends a `Sealed`. Keys never leave `Keys`, which never shows, copies or pickles them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from leakbench.base.artefacts import Facts
from leakbench.base.errors import UserError
from leakbench.base.parts import part


@dataclass(frozen=True, repr=False)
class Keys:
    """A key pair, or only its public half.

    name: a random name, which tells pairs apart.
    public: the public key.
    private: the private key, or None in the public half.
    """

    name: str
    public: Any
    private: Any = field(default=None)

    def __repr__(self) -> str:
        return f"<keys {self.name}, {'a pair' if self.private is not None else 'public half'}>"

    def __reduce__(self) -> Any:
        raise TypeError("keys are neither pickled nor copied")

    def secret(self) -> Any:
        """Return the private key. Raises UserError if there is none."""
        if self.private is None:
            raise UserError("the public half of a key pair opens nothing (ask a client)")
        return self.private

    def without_private(self) -> "Keys":
        """Return the public half, the only half that a server receives."""
        return Keys(self.name, self.public)


class Sealed(NamedTuple):
    """Encrypted values.

    key: the `name` of the key pair.
    number: how many values there are.
    blocks: the ciphertexts, as they are sent.
    weight: the sum of the integer weights that these values have been multiplied by; 1 for a fresh
    encryption.
    """

    key: str
    number: int
    blocks: tuple[bytes, ...]
    weight: int = 1


class Scheme(NamedTuple):
    """A way to add up encrypted values.

    Opened values depend neither on the keys nor on what encryption draws. All functions raise UserError, in
    one line, for arguments that do not belong together.

    keys: called as `keys()`; draws a key pair.
    seal: called as `seal(keys, values)`; encrypts values float64 [n], each as one of `pieces`, so that it
    opens to 1/pieces of the value until it is weighted.
    combine: called as `combine(public, parts, weights)`; returns the encrypted sum of the parts times integer
    weights.
    opened: called as `opened(keys, sealed)`; returns Σ weight/pieces · values, float64 [n].
    bound: called as `bound(weights)`; returns how far each opened value may be from Σ weight/pieces · values.
    check: called as `check(keys, sealed, count)`; raises UserError for an upload that does not hold `count`
    well-formed values under these keys.
    pieces: the integer weight that stands for a share of 1.
    about: facts for results. Its `bytes_per_ciphertext` is without what a file format adds.
    """

    keys: Callable[[], Keys]
    seal: Callable[[Keys, np.ndarray], Sealed]
    combine: Callable[[Keys, Sequence[Sealed], Sequence[int]], Sealed]
    opened: Callable[[Keys, Sealed], np.ndarray]
    bound: Callable[[Sequence[int]], float]
    check: Callable[[Keys, Sealed, int], None]
    pieces: int
    about: Facts


def build(module: str, parameters: Mapping[str, Any]) -> Scheme:
    scheme: Scheme = part("encryption", module)(**parameters)
    return scheme


def belongs(keys: Keys, sealed: Sealed, count: int, blocks: int) -> None:
    """Raise UserError for an upload that is of another key pair or incomplete."""
    if sealed.key != keys.name:
        raise UserError("the update is encrypted with another key pair (give all clients the same one)")
    if sealed.number != count or len(sealed.blocks) != blocks:
        raise UserError(
            f"the update has {sealed.number} values in {len(sealed.blocks)} ciphertexts, not {count} in "
            f"{blocks} (send the whole update)"
        )


def chosen(parts: Sequence[Sealed], weights: Sequence[int]) -> list[tuple[Sealed, int]]:
    """Return the parts whose weight is not zero, with their weights."""
    if min(weights) < 0:
        raise UserError(f"the weight {min(weights)} is negative (weights are shares of the pieces)")
    found = [(each, weight) for each, weight in zip(parts, weights, strict=True) if weight]
    if not found:
        raise UserError("all weights round to nothing (raise the encryption's pieces)")
    return found
