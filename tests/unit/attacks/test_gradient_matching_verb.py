"""Gradient matching as a job: what it refuses, what it writes, and how it resumes."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matching_observations import (
    QUICK,
    entry,
    run,
    small,
)

from leakbench import attacks
from leakbench.attacks import gradient_matching
from leakbench.attacks.matching import loop
from leakbench.attacks.matching.objective import Objective
from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.errors import UserError
from leakbench.base.processes.workers import Work
from leakbench.catalogue.spec import opened
from leakbench.jobs.attack import attack
from leakbench.jobs.cli import main
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation


def write(path: Path, observation: Observation) -> None:
    """Write the observation as `capture` does."""
    tensors = {f"global/{name}": value for name, value in observation.weights.items()}
    tensors |= {f"updates/{name}": value for name, value in observation.updates.items()}
    facts = {
        "network": observation.network,
        "clients": observation.clients,
        "kind": observation.kind,
        "local": observation.local,
        "knows": {"defence": observation.knows.defence},
        # Every output tells what made it.
        "spec": "of the capture",
        "code": "of the capture",
        "seed": 0,
    }
    write_tensors(path, tensors | {"origin": observation.origin}, facts)


def no_number() -> Observation:
    seen = small()
    seen.updates["conv1.bias"][0, 0, 0] = np.nan
    return seen


# An observation, changes of the attack, and what is said; test_observation has what else a file may lack.
BAD: dict[str, tuple[Callable[[], Observation], dict[str, Any], list[str]]] = {
    "nan": (no_number, {}, ["updates/conv1.bias holds NaN or Inf"]),
    "no labels": (
        small,
        {"labels": "oracle"},
        ["labels: oracle", "gives no labels/0", "set labels: counted"],
    ),
    "classes": (
        lambda: small(k=4, classes=3),
        {"labels": "row-minimum"},
        ["row-minimum", "4 images", "not 3", "use counted"],
    ),
    "idlg": (lambda: small(k=2), {"labels": "idlg"}, ["idlg reads one label", "2 images"]),
}


def spec(path: Path, **changes: Any) -> Any:
    base = entry(**QUICK) | {"generator": None, "labels": "counted", "matching": "hungarian"}
    value = {"attack": base | changes, "attack_name": "made", "null_rounds": 2, "seed": 0}
    path.write_text(json.dumps(value))
    return opened("attack", path)


def attacked(folder: Path, made: Any, out: str = "out.safetensors", **more: Any) -> Path:
    """Run the job on the capture of a folder, and return its output."""
    capture, labels, scratch = folder / "capture.safetensors", more.pop("labels", None), folder / "scratch"
    attack(capture, made, folder / out, None, labels, None, scratch, **more)
    return folder / out


class Killed(BaseException):
    pass


@pytest.mark.parametrize("case", sorted(BAD))
def test_what_does_not_fit_is_one_line_that_names_it_and_marks_the_cell(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, changes, says = BAD[case]
    write(tmp_path / "capture.safetensors", seen())
    tensors, facts = read_tensors(attacked(tmp_path, spec(tmp_path / "spec.json", **changes)))
    assert tensors == {}
    for part in says:
        assert part in facts["absent"], facts["absent"]
    assert "\n" not in facts["absent"]
    assert capsys.readouterr().err == f"leakbench attack: {facts['absent']}\n"
    assert not (tmp_path / "scratch").exists() or list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({}, "labels/0 must be whole numbers (2, 1)"),
        ({"labels/0": np.zeros((2, 2), np.int64)}, "labels/0 must be whole numbers (2, 1)"),
        ({"labels/0": np.zeros((2, 1), np.float32)}, "labels/0 must be whole numbers (2, 1)"),
        ({"labels/0": np.full((2, 1), 10)}, "beyond the victim's classes"),
        ({"labels/0": np.full((2, 1), -1)}, "beyond the victim's classes"),
    ],
)
def test_an_oracle_that_does_not_fit_is_a_mistake(
    labels: dict[str, np.ndarray], says: str, tmp_path: Path
) -> None:
    write(tmp_path / "capture.safetensors", small())
    write_tensors(tmp_path / "oracle.safetensors", labels, {})
    with pytest.raises(UserError) as problem:
        read_observation(tmp_path / "capture.safetensors", labels=tmp_path / "oracle.safetensors")
    assert says in str(problem.value)
    assert str(tmp_path / "oracle.safetensors") in str(problem.value)
    assert "\n" not in str(problem.value)


WORDS = {"oracle": "given", "counted": "inferred", "joint": "joint"}


@pytest.mark.parametrize("labelling", sorted(WORDS))
def test_the_verb_writes_what_was_found_and_the_null_beside_it(labelling: str, tmp_path: Path) -> None:
    seen = small(rounds=5)
    write(tmp_path / "capture.safetensors", seen)
    write_tensors(tmp_path / "oracle.safetensors", {"labels/0": seen.labels[0]}, {})
    labels = tmp_path / "oracle.safetensors" if labelling == "oracle" else None
    made = spec(tmp_path / "spec.json", labels=labelling)
    one, two = (attacked(tmp_path, made, name, labels=labels) for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    tensors, facts = read_tensors(two)
    assert facts["knows"]["labels"] == WORDS[labelling]
    assert tensors["images"].shape == (5, 1, 1, 3, 8, 8)
    assert tensors["labels"].tolist() == [[[n]] for n in range(5)] or labelling == "joint"
    # At most a quarter of the rounds are played on noise.
    assert tensors["null/images"].shape == (2, 1, 1, 3, 8, 8)
    assert not np.array_equal(tensors["null/images"], tensors["images"][:2])


@pytest.mark.parametrize(("adaptive", "told"), [(True, "gaussian"), (False, "none")])
def test_only_an_attack_that_adapts_knows_the_defence(adaptive: bool, told: str, tmp_path: Path) -> None:
    seen = small()
    write(tmp_path / "capture.safetensors", replace(seen, knows=replace(seen.knows, defence="gaussian")))
    out = attacked(tmp_path, spec(tmp_path / "spec.json", adaptive=adaptive))
    assert read_facts(out)["knows"]["defence"] == told


def test_a_killed_attack_resumes_each_model_and_client_from_its_own_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two models of one size: the second's work must not be taken for the first's."""
    monkeypatch.setattr(loop, "track", lambda items, label: ((item, True) for item in items))
    one = small(rounds=4)
    seen = replace(
        one,
        weights={n: np.concatenate([v, 0.5 * v]) for n, v in one.weights.items()},
        origin=np.array([0, 0, 1, 1]),
    )
    whole = run(seen, **QUICK)
    seen = replace(seen, work=Work(scratch=tmp_path))
    begun: list[str] = []

    def track(items: Sequence[int], label: str) -> Iterator[tuple[int, bool]]:
        begun.append(label)
        for item in items:
            if len(begun) == 2 and item == 3:
                raise Killed
            yield item, True

    with monkeypatch.context() as patch:
        patch.setattr(loop, "track", track)
        with pytest.raises(Killed):
            run(seen, **QUICK)
    left = {path.parent.name: read_facts(path)["iteration"] for path in tmp_path.glob("*/0.safetensors")}
    assert left == {"match-client-0-model-0": 4, "match-client-0-model-1": 2}
    assert torch.equal(run(seen, **QUICK).images, whole.images)


def test_a_job_killed_on_noise_does_not_repeat_the_attack_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def track(items: Sequence[int], label: str) -> Iterator[tuple[int, bool]]:
        begun.append(label)
        for item in items:
            if dying and len(begun) == 2 and item == 2:
                raise Killed
            yield item, True

    monkeypatch.setattr(loop, "track", track)
    # As an attack whose rounds see each other, which is run on noise by itself.
    monkeypatch.delitem(attacks._CAPABILITIES, gradient_matching.gradient_matching)
    write(tmp_path / "capture.safetensors", replace(small(), labels=None))
    made, scratch, dying = spec(tmp_path / "spec.json"), tmp_path / "scratch", False
    out = attacked(tmp_path, made)
    whole = out.read_bytes()
    out.unlink()
    assert list(scratch.iterdir()) == []
    dying = True
    begun.clear()
    with pytest.raises(Killed):
        attacked(tmp_path, made)
    assert not out.exists()
    begun.clear()
    dying = False
    # Only the run on noise goes on; the attack itself is read from what it left.
    assert attacked(tmp_path, made).read_bytes() == whole
    assert len(begun) == 1
    assert list(scratch.iterdir()) == []


def test_a_flipped_bit_in_what_a_killed_attack_left_is_set_aside_and_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the sealed process that finds it."""

    def track(items: Sequence[int], label: str) -> Iterator[tuple[int, bool]]:
        for item in items:
            if item == 2:
                raise Killed
            yield item, True

    capture, out = tmp_path / "capture.safetensors", tmp_path / "out.safetensors"
    write(capture, replace(small(), labels=None))
    made = spec(tmp_path / "spec.json")
    words = [
        "attack", "--capture", str(capture), "--spec", str(tmp_path / "spec.json"), "--out", str(out),
        "--root", str(tmp_path),
    ]  # fmt: skip
    assert main(words) == 0
    whole = out.read_bytes()
    out.unlink()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "track", track)
        with pytest.raises(Killed):
            attack(capture, made, out, None, None, None, tmp_path / "scratch/attack")
    (left,) = tmp_path.glob("scratch/attack/*/**/*.safetensors")
    data = bytearray(left.read_bytes())
    data[-1] ^= 1
    left.write_bytes(data)
    capfd.readouterr()
    assert main(words) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{left}: its bytes have sha256" in line
    assert f"set aside as {left.name}.damaged" in line
    assert not out.exists()
    assert main(words) == 0
    assert out.read_bytes() == whole
    assert list((tmp_path / "scratch/attack").iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_device_that_is_absent_is_refused_before_any_work(tmp_path: Path) -> None:
    write(tmp_path / "capture.safetensors", replace(small(), labels=None))
    with pytest.raises(UserError, match="--device cuda:1: torch finds no CUDA device"):
        attacked(tmp_path, spec(tmp_path / "spec.json"), device="cuda:1")
    assert not (tmp_path / "out.safetensors").exists()


def test_two_attacks_and_attacks_on_two_victims_resume_from_their_own_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture's facts are named as the attack's, and are the same for victims that differ in training
    alone."""
    from leakbench.jobs import attack as verb

    resuming = verb.resuming

    one = replace(small(), labels=None)
    other = replace(one, weights={name: 2 * value for name, value in one.weights.items()})
    folders = []

    def noted(*args: Any, **options: Any) -> Any:
        folders.append(resuming(*args, **options))
        return folders[-1]

    monkeypatch.setattr(verb, "resuming", noted)
    for lr, seen in ((0.1, one), (0.2, one), (0.1, one), (0.1, other)):
        # Written anew: what counts is what is in it.
        write(tmp_path / "capture.safetensors", seen)
        attacked(tmp_path, spec(tmp_path / "spec.json", optimiser={"adam": {"lr": lr}}))
    assert folders[0] == folders[2]
    assert len({*folders}) == 3


def test_workers_change_no_byte_of_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Objective, "chunk", lambda self, optimiser, unknowns: 2)
    write(tmp_path / "capture.safetensors", replace(small(rounds=5), labels=None))
    made = spec(tmp_path / "spec.json")
    one, two, three = (
        attacked(tmp_path, made, str(workers), workers=workers).read_bytes() for workers in (1, 2, 3)
    )
    assert list((tmp_path / "scratch").iterdir()) == []
    assert one == two == three
