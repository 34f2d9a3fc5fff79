"""What a reconstruction must be when it is made, and what a fault in an attack's own code does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matching_observations import small
from test_gradient_matching_verb import attacked

from leakbench import attacks
from leakbench.base.artefacts import read_facts
from leakbench.base.errors import Altered, Unfit, Unwritable, UserError
from leakbench.base.processes.process import Stopped
from leakbench.observations.reconstruction import Reconstruction


def made(**changes: Any) -> Reconstruction:
    fields: dict[str, Any] = {
        "images": torch.zeros(2, 1, 3, 1, 4, 4), "usable": torch.ones(2, 1, 3, dtype=torch.bool)
    }  # fmt: skip
    return Reconstruction(**fields | changes)


def snapshots(count: int, moments: int) -> dict[str, Any]:
    return {
        "snapshots": torch.zeros(count, 2, 1, 3, 1, 4, 4), "snapshot_iterations": torch.arange(moments)
    }  # fmt: skip


NOBODY = torch.full((2, 1, 3), -1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"usable": torch.ones(2, 1, 3)}, "usable is float32 (2, 1, 3), and must be bool (2, 1, 3)"),
        ({"usable": torch.ones(2, 1)}, "usable must be bool [rounds, clients, n]"),
        ({"usable": None}, "usable is missing"),
        ({"usable": torch.ones(2, 1, 0, dtype=torch.bool)}, "n of at least 1, not (2, 1, 0)"),
        ({"images": None}, "images is missing"),
        ({"images": np.zeros((2, 1, 3, 1, 4, 4))}, "images is ndarray, and must be float (2, 1, 3, 1, 4, 4)"),
        ({"images": torch.zeros(2, 1, 4, 1, 4, 4)}, "images is float32 (2, 1, 4, 1, 4, 4), and must be"),
        ({"images": torch.zeros(2, 1, 3, 4, dtype=torch.int64)}, "images is int64 (2, 1, 3, 4), and must be"),
        ({"images": torch.full((2, 1, 3, 1, 4, 4), torch.nan)}, "NaN or Inf"),
        ({"images": torch.full((2, 1, 3, 4), torch.inf).bfloat16()}, "NaN or Inf"),
        ({"target": "pictures"}, "target is 'pictures', and must be one of images, features, labels, cand"),
        ({"target": "labels"}, "labels is missing (the target labels needs it)"),
        ({"target": "candidates"}, "span_distance is missing (the target candidates needs it)"),
        ({"iterations": "many"}, "iterations is 'many', and must be a whole number of at least 0"),
        ({"iterations": 2.0}, "iterations is 2.0"), ({"iterations": True}, "iterations is True"),
        ({"iterations": -1}, "iterations is -1"),
        ({"iterations": torch.tensor(3)}, "iterations is tensor(3)"),
        ({"labels": torch.zeros(2, 1)}, "labels is float32 (2, 1), and must be whole numbers (2, 1, 3)"),
        ({"labels": torch.full((2, 1, 3), torch.nan)}, "labels is float32 (2, 1, 3), and must be whole"),
        ({"diverged": torch.zeros(2)}, "diverged is float32 (2,), and must be bool (2, 1)"),
        ({"span_distance": [[[0.0]]]}, "span_distance is list, and must be float (2, 1, 3)"),
        ({"gap": torch.zeros(2)}, "gap is float32 (2,), and must be float (2, 1)"),
        ({"agreement": torch.zeros(2)}, "agreement is float32 (2,), and must be float (2, 1)"),
        ({"partners": {"partner": torch.zeros(2)}}, "partner is float32 (2,), and must be whole numbers"),
        ({"partners": {"labels": NOBODY}}, "the name labels must begin with partner"),
        ({"partners": {"partner": NOBODY + 7}}, "partner names candidate 6 of 6, counted from 0"),
        ({"losses": torch.zeros(2, 1, 5)}, "losses and traced go together"),
        ({"losses": torch.zeros(2, 1, 5), "traced": torch.arange(4)},
         "losses is float32 (2, 1, 5), and must"),
        ({"losses": torch.zeros(2, 1, 1), "traced": torch.tensor(4)}, "traced is int64 (), and must"),
        ({"snapshots": torch.zeros(2, 2, 1, 3, 1, 4, 4)}, "snapshots and snapshot_iterations go together"),
        (snapshots(2, 3),
         "snapshots is float32 (2, 2, 1, 3, 1, 4, 4), and must be float (3, 2, 1, 3, 1, 4, 4)"),
        (snapshots(2, 2) | {"images": torch.zeros(2, 1, 3, 16)},
         "snapshots is float32 (2, 2, 1, 3, 1, 4, 4)"),
        (snapshots(2, 2) | {"snapshot_iterations": torch.ones(2)}, "snapshot_iterations is float32 (2,)"),
        (snapshots(2, 2) | {"snapshot_gaps": torch.zeros(1, 2, 1)}, "snapshot_gaps is float32 (1, 2, 1)"),
        ({"snapshot_gaps": torch.zeros(1, 2, 1)}, "snapshot_gaps is float32 (1, 2, 1)"),
    ],
)  # fmt: skip
def test_what_could_not_be_scored_is_refused_when_it_is_made(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Unfit) as problem:
        made(**changes)
    assert says in str(problem.value)


def test_fields_become_what_a_file_holds_and_keep_their_values() -> None:
    """Gradients are left behind, and bfloat16, which NumPy lacks, becomes float32. Nothing else changes."""
    learned = torch.rand(2, 1, 3, 1, 4, 4, requires_grad=True)
    found = made(images=learned, gap=torch.ones(2, 1).bfloat16(), labels=NOBODY.to(torch.int16))
    assert not found.images.requires_grad
    assert found.images.data_ptr() == learned.data_ptr()
    assert (found.gap.dtype, found.labels.dtype) == (torch.float32, torch.int64)
    assert torch.equal(found.labels, NOBODY)
    exact = torch.rand(2, 1, 3, 1, 4, 4, dtype=torch.float64)
    assert made(images=exact).images.data_ptr() == exact.data_ptr()


def test_labels_without_a_word_on_divergence_mean_that_nothing_diverged() -> None:
    found = made(labels=torch.zeros(2, 1, 3, dtype=torch.int64))
    assert found.diverged.shape == (2, 1)
    assert not found.diverged.any()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Path]:
    """What runs a job whose attack is a function, and returns its output."""
    own = attacks.part

    def run(function: Any) -> Path:
        monkeypatch.setattr(
            attacks, "part", lambda room, name: function if room == "attacks" else own(room, name)
        )
        return attacked(tmp_path, small(rounds=4))

    return run


@pytest.mark.parametrize(
    "lack",
    [MemoryError(), OSError(28, "No space left on device"), OSError(24, "Too many open files"),
     BrokenPipeError(32, "Broken pipe"), RuntimeError("DefaultCPUAllocator: can't allocate memory"),
     Altered(Path("scratch/0.safetensors"), "truncated"), Unwritable("scratch: no space left on device"),
     Stopped(143), KeyboardInterrupt()],
)  # fmt: skip
def test_what_the_machine_lacks_or_a_person_ends_is_no_fault_of_an_attack(
    lack: BaseException, tmp_path: Path, job: Callable[[Any], Path]
) -> None:
    """A later try may succeed, so nothing is written and the job fails."""

    def starved(observation: Any, rng: torch.Generator, **sections: Any) -> Reconstruction:
        raise lack

    with pytest.raises(type(lack)):
        job(starved)
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize(
    "problem", [KeyError("odd"), OSError("odd"), UserError("odd"), SystemExit("odd"), StopIteration("odd")]
)
def test_a_fault_in_an_attack_marks_its_own_cell(
    problem: BaseException, late: int, job: Callable[[Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it comes at once or in a later piece, when a part of the file is written."""
    calls = []

    @attacks.capable(rounds_at_once=1)
    def faulty(observation: Any, rng: torch.Generator, **sections: Any) -> Reconstruction:
        calls.append(observation.rounds)
        if len(calls) > late:
            raise problem
        return made(images=torch.zeros(1, 1, 3, 3, 8, 8), usable=torch.ones(1, 1, 3, dtype=torch.bool))

    reason = read_facts(job(faulty))["absent"]
    assert "module gradient-matching ended with a fault of its own (" in reason
    assert "odd" in reason or isinstance(problem, StopIteration)
    assert "\n" not in reason
    # The log shows where.
    assert "Traceback" in capsys.readouterr().err
