"""Ciphertexts are to the eye what `defences/encrypted.py` draws in their place: uniform bits, whatever they
hide."""

import numpy as np
import pytest
from scipy.stats import chisquare

from leakbench.defences import encryption


@pytest.mark.parametrize("hidden", [np.zeros(1600), np.linspace(-1, 1, 1600)], ids=["zeros", "ramp"])
def test_the_bytes_of_paillier_are_uniform_whatever_they_hide(hidden: np.ndarray) -> None:
    scheme = encryption.build("paillier", {})
    sealed = scheme.seal(scheme.keys(), hidden)
    # Residues of n², which is no power of two: the first bytes are those of n² and less.
    seen = np.concatenate([np.frombuffer(block, np.uint8)[8:] for block in sealed.blocks])
    assert seen.size > 10_000
    # Of one in a million draws it would be said that they are not.
    assert chisquare(np.bincount(seen, minlength=256)).pvalue > 1e-6
    assert abs(np.corrcoef(seen[:-1], seen[1:])[0, 1]) < 5 / np.sqrt(seen.size)
