"""AGIC over several epochs: two passes of a small LeNet from updates to images, partners and labels."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deaths import Death
from matching_observations import BOXED
from matching_observations import run as once
from observations import observe_passes
from torch import Tensor

from leakbench.attacks.matching.epochs.joint import MATCHINGS
from leakbench.base.errors import Unfit
from leakbench.base.processes.workers import Crew
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

VALUES: dict[str, Any] = {
    "objective": "cosine", "unknowns": BOXED, "optimiser": {"adam": {"lr": 0.1, "decay": True}},
    "iterations": 150,
}  # fmt: skip
EPOCHS = ("steps", "pooling", "label_filter", "pre_iterations", "later")
DISTINCT = torch.randperm(10, generator=torch.Generator().manual_seed(4))


def run(observation: Observation, **changes: Any) -> Reconstruction:
    joint = {"pre_iterations": 40} | {key: changes.pop(key) for key in EPOCHS if key in changes}
    return once(observation, **VALUES | {"epochs": {"joint": joint}} | changes)


def true_partners(index: Tensor, passes: int) -> list[list[int]]:
    """Return for each image of a round the place of the same sample in the pass before, -1 in the first."""
    rounds, k = index.shape
    updates = rounds // passes
    out = []
    for turn in range(rounds):
        before = (turn // updates - 1) * updates
        row = []
        for image in index[turn].tolist():
            place = (index[before : before + updates] == image).nonzero()
            row.append(-1 if before < 0 else int((before + place[0, 0]) * k + place[0, 1]))
        out.append(row)
    return out


def errors(found: Reconstruction, images: Tensor, index: Tensor) -> Tensor:
    return (found.images[:, 0] - images[index]).square().flatten(2).mean(2)


@pytest.mark.parametrize(("k", "updates", "passes"), [(1, 3, 3), (2, 3, 2)])
def test_samples_are_matched_and_reconstructed_from_all_passes(k: int, updates: int, passes: int) -> None:
    observation, images, index = observe_passes(
        k=k, updates=updates, passes=passes, labels=DISTINCT[: k * updates]
    )
    found = run(observation)
    rounds = passes * updates
    assert found.images.shape == (rounds, 1, k, 1, 8, 8)
    assert found.usable.all()
    assert set(found.partners) == set(MATCHINGS)
    for name in MATCHINGS:
        assert found.partners[name].dtype == torch.int64
        assert found.partners[name][:, 0].tolist() == true_partners(index, passes), name
    assert errors(found, images, index).max() < 1e-2
    # One image of a sample, wherever it was seen.
    for sample in range(updates * k):
        seen = found.images[:, 0][index == sample]
        assert len(seen) == passes
        assert all(torch.equal(seen[0], other) for other in seen)
    assert found.labels[:, 0].tolist() == DISTINCT[index].tolist()
    assert found.iterations == 40 + 150
    assert found.losses.shape == (rounds, 1, len(found.traced))
    assert (found.losses[..., -1] < found.losses[..., 0] / 10).all()
    assert not found.diverged.any()


def test_an_update_without_a_partner_is_reconstructed_alone() -> None:
    observation, images, index = observe_passes(labels=DISTINCT[:3])
    labels = observation.labels[0].copy()
    # The label of sample 1 is taken for another one in the second pass.
    wrong = 3 + int((index[3:, 0] == 1).nonzero())
    labels[wrong] = DISTINCT[5]
    found = run(replace(observation, labels=[labels]))
    expected = true_partners(index, 2)
    assert found.partners["partner_no_labels"][:, 0].tolist() == expected
    expected[wrong] = [-1]
    assert found.partners["partner"][:, 0].tolist() == expected
    assert not torch.equal(found.images[wrong], found.images[1])
    assert errors(found, images, index)[1] < 1e-2
    # The filter can be left off, and then the two are one again.
    joined = run(replace(observation, labels=[labels]), label_filter=False, iterations=1)
    assert torch.equal(joined.images[wrong], joined.images[1])


def test_without_the_joint_step_images_stay_those_of_the_first_look() -> None:
    observation, _, index = observe_passes()
    found = run(observation, steps="matching")
    alone = once(observation, **VALUES | {"iterations": 40})
    assert torch.equal(found.images, alone.images)
    assert found.iterations == 40
    assert found.partners["partner"][:, 0].tolist() == true_partners(index, 2)


@pytest.mark.parametrize("labelling", ["oracle", "counted"])
def test_batches_assumed_the_same_are_one_problem(labelling: str) -> None:
    observation, images, index = observe_passes(
        k=2, updates=2, shuffled=False, labels=DISTINCT[:4].sort().values
    )
    found = run(replace(observation, labelling=labelling), steps="joint", iterations=200)
    assert set(found.partners) == {"partner"}
    assert found.partners["partner"][:, 0].tolist() == true_partners(index, 2)
    assert errors(found, images, index).max() < 1e-2
    assert torch.equal(found.images[:2], found.images[2:])
    assert found.labels[:, 0].tolist() == DISTINCT[:4].sort().values[index].tolist()
    assert found.iterations == 200


def test_assumed_batches_need_passes_of_one_length_and_labels() -> None:
    observation, _, _ = observe_passes()
    with pytest.raises(Unfit, match="steps: joint needs the same batches"):
        run(replace(observation, origin=np.array([0, 0, 0, 0, 1, 1])), steps="joint")
    with pytest.raises(Unfit, match="labels: joint, but steps: joint has no first look"):
        run(replace(observation, labelling="joint", labels=None), steps="joint")


def test_labels_may_be_optimised_in_the_first_look() -> None:
    observation, _, _ = observe_passes()
    found = run(replace(observation, labelling="joint", labels=None), iterations=1)
    assert found.labels.min() >= 0
    assert found.images.shape == (6, 1, 1, 1, 8, 8)


def test_a_single_pass_has_no_partners_and_is_reconstructed_update_by_update() -> None:
    observation, images, index = observe_passes(updates=3, passes=1)
    found = run(observation)
    assert (found.partners["partner"] == -1).all()
    assert errors(found, images, index).max() < 1e-2
    assert found.iterations == 150
    null = observe_passes()[0].randomised(2, torch.Generator().manual_seed(1))
    assert run(null, iterations=2).images.shape == (2, 1, 1, 1, 8, 8)


def test_clients_are_matched_apart() -> None:
    one, _, index = observe_passes(k=1, labels=DISTINCT[:3])
    two, _, _ = observe_passes(k=2, labels=DISTINCT[3:9])
    # Both went out with the same models; only what came back is each client's own.
    both = replace(
        one,
        updates={name: np.concatenate([one.updates[name], two.updates[name]], 1) for name in one.updates},
        clients=[1, 2],
        labels=[one.labels[0], two.labels[0]],
    )
    found = run(both, iterations=2)
    width = 2
    first = [[-1 if p < 0 else p * width] for (p,) in true_partners(index, 2)]
    assert found.partners["partner"][:, 0, :1].tolist() == first
    assert (found.partners["partner"][:, 0, 1:] == -1).all()
    assert not found.usable[:, 0, 1:].any()
    assert found.partners["partner"][:3, 1].eq(-1).all()
    assert sorted(found.partners["partner"][3:, 1].flatten().tolist()) == list(range(6))


def test_a_killed_attack_resumes_to_the_same_result(tmp_path: Path, death: Death) -> None:
    """Killed in the first look at the first pass, in that at the second, and in the joint step."""
    observation, _, _ = observe_passes()
    values = {"pre_iterations": 20, "iterations": 30}
    expected = run(observation, **values).tensors()
    resuming = replace(observation, work=Crew(scratch=tmp_path))
    # A look that is finished takes no step when it is met again.
    for when in ((1, 10), (2, 10), (2, 20)):
        with death.meets(*when):
            run(resuming, **values)
        assert list(tmp_path.iterdir())
    found = run(resuming, **values).tensors()
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=0, equal_nan=True)
