"""The attack and its null baseline as one work: what is found is what either finds by itself."""

from dataclasses import replace

import numpy as np
import torch
from matching_observations import QUICK, entry, run, small

from leakbench import attacks


def rng(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_attack_finds_what_it_finds_alone() -> None:
    seen, values = small(), QUICK | {"snapshots": 2}
    ((rounds, found),), ((null_rounds, none),) = attacks.with_null(
        entry(**values), seen, seen.randomised(1, rng(9)), (rng(0), rng(1))
    )
    assert rounds is null_rounds is ...
    alone = run(small(), **values)
    for name, value in alone.tensors().items():
        torch.testing.assert_close(found.tensors()[name], value, rtol=1e-4, atol=1e-5, equal_nan=True)
    assert none.images.shape[0] == 1
    assert none.snapshots.shape[:2] == (2, 1)
    assert torch.equal(none.traced, alone.traced)


def test_rounds_are_read_from_where_they_are() -> None:
    seen = small()
    noise = seen.randomised(1, rng(9))
    joined = seen.beside(noise)
    assert joined.rounds == seen.rounds + 1
    for name, value in seen.updates.items():
        whole = np.concatenate([value, noise.updates[name]])
        found = joined.updates[name]
        assert found.shape == whole.shape
        assert found.dtype == whole.dtype
        every = np.arange(len(whole))
        for index in (slice(None), slice(1, None), every[::-1], (every[1:], 0), (every, 0, ...)):
            assert np.array_equal(found[index], whole[index])
        assert np.array_equal(found[len(whole) - 1], whole[-1])
        assert np.array_equal(found[0], whole[0])
    assert np.array_equal(joined.labels[0][: seen.rounds], seen.labels[0])
    assert replace(seen, labels=None).beside(replace(noise, labels=None)).labels is None


def test_an_attack_whose_rounds_see_each_other_is_run_on_noise_alone() -> None:
    seen = replace(small(), labels=None, labelling="counted")
    joint = entry(**QUICK | {"iterations": 2, "epochs": {"joint": {"pre_iterations": 2}}})
    own, null = attacks.with_null(joint, seen, seen.randomised(1, rng(9)), (rng(0), rng(1)))
    assert next(own)[1].images.shape[0] == seen.rounds
    assert next(null)[1].images.shape[0] == 1


def test_what_an_attack_is_capable_of_is_found_by_its_name() -> None:
    assert attacks.capabilities("fidel") == attacks.Capabilities(rounds_at_once=40)
    assert attacks.capabilities("gradient-matching") == attacks.Capabilities(together=True)
    assert attacks.capabilities("membership") == attacks.Capabilities()
