"""A killed training goes on only with what made its first half, and for its own output."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import specs
import torch

from leakbench.base import provenance
from leakbench.base.artefacts import read_tensors, to_json, write_tensors, write_text
from leakbench.base.provenance import resuming
from leakbench.catalogue.spec import opened, spec_of
from leakbench.jobs.attack import attack
from leakbench.jobs.cli import main
from leakbench.jobs.train import accuracy, train

fitting, verb = (import_module(f"leakbench.{name}") for name in ("federation.training.fit", "jobs.train"))
SPEC = specs.altered(
    "victim", ("victim.module", "fcnn"), ("victim.parameters", {}), ("victim.training.epochs", 4),
    ("victim.training.checkpoints", [4]), ("dataset.shape", [4, 4, 1]), ("dataset.classes", 3),
)  # fmt: skip


def write_data(path: Path, seed: int) -> Path:
    images = np.random.default_rng(seed).integers(0, 256, (30, 4, 4, 1), dtype=np.uint8)
    write_tensors(path, {"train/images": images, "train/labels": np.arange(30) % 3}, {})
    return path


def weights(folder: Path, seed: int, name: str = "out") -> dict[str, np.ndarray]:
    """Train on the data of `seed`, and return what comes out."""
    spec, out = folder / "spec.json", folder / f"{name}.safetensors"
    write_text(spec, to_json(SPEC))
    data = write_data(folder / "data.safetensors", seed)
    train(opened("train", spec), data, out, None, None, folder / "scratch/train")
    found = read_tensors(out)[0]
    assert found
    return found


class Killed(Exception):
    """Stands for kill -9, which no handler sees."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let every training end right after it has saved its work for the first time."""
    save, fit = fitting.save, verb.fit

    def saved(*values: Any) -> None:
        save(*values)
        raise Killed

    def arm() -> None:
        monkeypatch.setattr(fitting, "save", saved)
        monkeypatch.setattr(verb, "fit", lambda *values: fit(*values, save_every=0.0))

    return arm


def test_a_training_that_was_killed_does_not_go_on_with_other_data_nor_for_another_output(
    tmp_path: Path, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, scratch = weights(tmp_path, 2), tmp_path / "scratch/train"
    kill()
    for count, name in enumerate(("out", "other"), 1):
        with pytest.raises(Killed):
            weights(tmp_path, 1, name)
        assert len(list(scratch.glob("*.safetensors"))) == count
    monkeypatch.undo()
    again = weights(tmp_path, 2)
    assert all(np.array_equal(again[name], value) for name, value in fresh.items())
    # The first one's work is still there, and what goes on with it gives the same bytes and uses it up.
    resumed = weights(tmp_path, 1)
    assert len(list(scratch.glob("*.safetensors"))) == 1
    whole = weights(tmp_path, 1)
    assert all(np.array_equal(resumed[name], value) for name, value in whole.items())


def test_a_resumed_training_does_start_from_what_was_saved(
    tmp_path: Path, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the test above: other saved weights lead to other weights."""
    whole = weights(tmp_path, 1)
    kill()
    with pytest.raises(Killed):
        weights(tmp_path, 1)
    monkeypatch.undo()
    (saved,) = (tmp_path / "scratch/train").glob("*.safetensors")
    tensors, facts = read_tensors(saved)
    write_tensors(saved, {name: value * 2 for name, value in tensors.items()}, facts)
    resumed = weights(tmp_path, 1)
    assert any(not np.array_equal(resumed[name], value) for name, value in whole.items())


def test_a_flipped_bit_in_what_a_killed_training_left_is_set_aside_and_made_anew(
    tmp_path: Path, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Wherever it is: a training ends in one line, or with the bytes of an undisturbed one."""
    scratch = tmp_path / "scratch/train"
    fresh = weights(tmp_path, 1)
    kill()
    with pytest.raises(Killed):
        weights(tmp_path, 1)
    monkeypatch.undo()
    (left,) = scratch.glob("*.safetensors")
    whole = left.read_bytes()
    out = tmp_path / "out.safetensors"
    words = ["train", "--root", str(tmp_path), "--out", str(out)]
    words += ["--spec", str(tmp_path / "spec.json"), "--data", str(tmp_path / "data.safetensors")]
    places = {*range(0, 320, 20), *np.linspace(320, len(whole) - 1, 8).astype(int).tolist()}
    refused = 0
    for place in sorted(places):
        data = bytearray(whole)
        data[place] ^= 1
        left.write_bytes(data)
        out.unlink(missing_ok=True)
        code = main(words)
        if code:
            refused += 1
            line = capsys.readouterr().err.splitlines()[-1]
            assert code == 2
            assert line.startswith(f"leakbench train: {left}: ")
            assert "set aside as" in line
            assert not out.exists()
            assert main(words) == 0
        found = read_tensors(out)[0]
        assert all(np.array_equal(found[name], value) for name, value in fresh.items()), place
    # The other bits are of the name of the digest, without which a file is taken as it is.
    assert refused >= len(places) - 4


def test_what_a_name_to_resume_by_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = write_data(tmp_path / "data.safetensors", 1), tmp_path / "out"

    def name(device: str = "cpu", to: Path = out) -> str:
        return resuming(provenance.provenance(SPEC, "leakbench.jobs.train", device=device), to, data, None)

    names = [name(), name(), name("cuda"), name(to=tmp_path / "other")]
    write_data(data, 2)
    names.append(name())
    monkeypatch.setattr(provenance, "versions", lambda: {"torch": "0"})
    names.append(name())
    assert names[0] == names[1]
    assert len(set(names)) == 5


@pytest.mark.parametrize("job", ["victim", "generator", "study", "attack"])
def test_a_job_resumes_by_what_it_reads(job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two generators whose victims differ in their training alone have one spec."""
    names = ("data", "victim", "labels")
    data, victim, labels = (write_data(tmp_path / f"{name}.safetensors", 1) for name in names)
    tensors = read_tensors(data)[0]
    write_tensors(data, tensors | {name.replace("train", "test"): v for name, v in tensors.items()}, {})
    asked: list[tuple[Any, ...]] = []

    def resumed(made: dict[str, Any], out: Path, *inputs: Path | None) -> str:
        asked.append((out, *inputs))
        raise Killed

    out, spec = tmp_path / "out.safetensors", spec_of(specs.verb_of(job), specs.SPECS[job], "spec.json")
    seen = SimpleNamespace(rounds=1, clients=[1], randomised=lambda *_: None)
    monkeypatch.setattr("leakbench.jobs.attack.read_observation", lambda *_: (seen, {}))
    for module in (verb, import_module("leakbench.jobs.attack")):
        monkeypatch.setattr(module, "resuming", resumed)
    serves = victim if job == "generator" else None
    scratch = tmp_path / "scratch"
    work = {"attack": lambda: attack(data, spec, out, victim, labels, None, scratch)}
    with pytest.raises(Killed):
        work.get(job, lambda: train(spec, data, out, serves, None, scratch, "cpu", [labels]))()
    reads = {"victim": (None,), "generator": (victim,), "study": (labels,), "attack": (victim, labels)}
    assert asked == [(out, data, *reads[job])]


def test_accuracy_is_over_all_images_however_many_are_classified_at_once() -> None:
    images = torch.eye(3).repeat(700, 1)
    labels = torch.arange(3).repeat(700)
    labels[-21:] = 0
    assert accuracy(torch.nn.Identity(), images, labels) == pytest.approx(1 - 14 / 2100)
