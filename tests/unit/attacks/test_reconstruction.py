"""What a reconstruction must be when it is made, and what a fault in an attack's own code does."""

from pathlib import Path
from typing import Any

import pytest
import torch
from matching_observations import small
from test_gradient_matching_verb import spec, write

from leakbench import attacks
from leakbench.artefacts import read_facts
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.errors import Unfit
from leakbench.verbs.attack import attack


def made(**changes: Any) -> Reconstruction:
    fields: dict[str, Any] = {
        "images": torch.zeros(2, 1, 3, 1, 4, 4), "usable": torch.ones(2, 1, 3, dtype=torch.bool)
    }  # fmt: skip
    return Reconstruction(**fields | changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"usable": torch.ones(2, 1, 3)}, "usable must be bool"),
        ({"images": torch.zeros(2, 1, 4, 1, 4, 4)}, "images must be float and begin with"),
        ({"images": torch.full((2, 1, 3, 1, 4, 4), torch.nan)}, "NaN or Inf"),
        ({"labels": torch.zeros(2, 1)}, "labels is (2, 1), and must be (2, 1, 3)"),
        ({"labels": torch.full((2, 1, 3), torch.nan)}, "labels must be whole numbers"),
        ({"diverged": torch.zeros(2)}, "diverged is (2,)"),
        ({"partners": {"partner": torch.zeros(2)}}, "partner is (2,)"),
        ({"losses": torch.zeros(2, 1, 5)}, "losses and traced go together"),
    ],
)
def test_what_could_not_be_scored_is_refused_when_it_is_made(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Unfit) as problem:
        made(**changes)
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_labels_without_a_word_on_divergence_mean_that_nothing_diverged() -> None:
    found = made(labels=torch.zeros(2, 1, 3, dtype=torch.int64))
    assert found.diverged is not None
    assert found.diverged.shape == (2, 1)
    assert not found.diverged.any()


@pytest.mark.parametrize(
    "lack",
    [
        MemoryError(),
        OSError(28, "No space left on device"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_what_the_machine_lacks_is_no_fault_of_an_attack(
    lack: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later try may succeed, so nothing is written and the job fails."""

    def starved(observation: Any, rng: torch.Generator, **sections: Any) -> Reconstruction:
        raise lack

    own = attacks.part
    monkeypatch.setattr(attacks, "part", lambda room, name: starved if room == "attacks" else own(room, name))
    write(tmp_path / "capture.safetensors", small())
    out = tmp_path / "out.safetensors"
    where = tmp_path / "capture.safetensors", spec(tmp_path / "spec.json"), out
    with pytest.raises(type(lack)):
        attack(*where, None, None, None, tmp_path / "scratch")
    assert not out.exists()


@pytest.mark.parametrize("late", [False, True])
def test_a_fault_in_an_attack_marks_its_own_cell(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it comes at once or in a later piece, when a part of the file is written."""
    calls = []

    @attacks.capable(rounds_at_once=1)
    def faulty(observation: Any, rng: torch.Generator, **sections: Any) -> Reconstruction:
        calls.append(observation.rounds)
        if len(calls) > (2 if late else 0):
            raise KeyError("of its own")
        return made(images=torch.zeros(1, 1, 3, 1, 4, 4), usable=torch.ones(1, 1, 3, dtype=torch.bool))

    own = attacks.part
    monkeypatch.setattr(attacks, "part", lambda room, name: faulty if room == "attacks" else own(room, name))
    write(tmp_path / "capture.safetensors", small(rounds=4))
    out = tmp_path / "out.safetensors"
    where = tmp_path / "capture.safetensors", spec(tmp_path / "spec.json"), out
    attack(*where, None, None, None, tmp_path / "scratch")
    reason = read_facts(out)["absent"]
    assert "module gradient-matching ended with a fault of its own (KeyError: 'of its own'" in reason
    assert "\n" not in reason
    # The log shows where.
    assert "Traceback" in capsys.readouterr().err
