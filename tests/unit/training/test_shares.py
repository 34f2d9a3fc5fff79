"""How images are divided: nothing lost, nothing twice, and as unlike as asked."""

import numpy as np
import pytest

from leakbench.base.errors import UserError
from leakbench.federation.training.shares import divide, hold_out

LABELS = np.repeat(np.arange(5), 60)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_what_is_held_out_is_not_trained_on() -> None:
    kept, held = hold_out(200, 0.1, rng())
    assert (len(kept), len(held)) == (180, 20)
    assert sorted([*kept, *held]) == list(range(200))


@pytest.mark.parametrize(("split", "alpha"), [("iid", None), ("dirichlet", 0.5)])
def test_every_image_is_some_clients_once(split: str, alpha: float | None) -> None:
    shares = divide(LABELS, 3, split, alpha, rng())
    assert sorted(np.concatenate(shares)) == list(range(len(LABELS)))


def skew(alpha: float) -> float:
    """Mean over clients and draws of the share of a client's commonest class."""
    found = [
        np.bincount(LABELS[share], minlength=5).max() / len(share)
        for seed in range(20)
        for share in divide(LABELS, 3, "dirichlet", alpha, rng(seed))
    ]
    return float(np.mean(found))


def test_a_smaller_concentration_makes_clients_less_alike() -> None:
    assert skew(0.1) > skew(1.0) + 0.1 > skew(1000.0) + 0.1
    assert skew(1000.0) == pytest.approx(0.2, abs=0.03)


def test_shares_alike_have_one_size() -> None:
    assert {len(share) for share in divide(LABELS, 3, "iid", None, rng())} == {100}


def test_a_concentration_that_starves_a_client_is_refused() -> None:
    with pytest.raises(UserError, match="alpha 1e-06 leaves one of 50 clients without images"):
        divide(LABELS, 50, "dirichlet", 1e-6, rng())


def test_a_split_by_client_is_the_data_sets_own() -> None:
    owners = np.array([1, 0, 1, 1, 0])
    shares = divide(LABELS[:5], 2, "by-client", None, rng(), owners)
    assert [share.tolist() for share in shares] == [[1, 4], [0, 2, 3]]
    for clients in (1, 3):
        with pytest.raises(UserError, match="are of 2 clients"):
            divide(LABELS[:5], clients, "by-client", None, rng(), owners)
    with pytest.raises(UserError, match="does not say whose"):
        divide(LABELS, 2, "by-client", None, rng())
