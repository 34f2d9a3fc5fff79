"""Gradient matching as a job: what it refuses, what it writes beside its null, and how it resumes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from deaths import Death
from matching_observations import QUICK, entry, run, small

from leakbench import attacks
from leakbench.attacks import gradient_matching
from leakbench.attacks.matching.objective import Objective
from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.errors import UserError
from leakbench.base.processes.workers import Crew
from leakbench.catalogue.spec import opened
from leakbench.jobs import attack as verb
from leakbench.jobs.cli import main
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation


def write(path: Path, observation: Observation) -> None:
    """Write the observation as `capture` does."""
    tensors = {f"global/{name}": value for name, value in observation.weights.items()}
    tensors |= {f"updates/{name}": value for name, value in observation.updates.items()}
    facts = {key: getattr(observation, key) for key in ("network", "clients", "kind", "local")}
    # Every output tells what made it.
    facts |= {"knows": {"defence": observation.knows.defence}, "spec": "made", "code": "made", "seed": 0}
    write_tensors(path, tensors | {"origin": observation.origin}, facts)


def spec(path: Path, **changes: Any) -> Any:
    base = entry(**QUICK) | {"generator": None, "labels": "counted", "matching": "hungarian"}
    value = {"attack": base | changes, "attack_name": "made", "null_rounds": 2, "seed": 0}
    path.write_text(json.dumps(value))
    return opened("attack", path)


def attacked(
    folder: Path, seen: Observation | None = None, out: str = "out.safetensors", **more: Any
) -> Path:
    """Run the job on a capture in a folder, with changes of the attack, and return its output."""
    if seen is not None:
        write(folder / "capture.safetensors", seen)
    options = {key: more.pop(key) for key in ("workers", "device") if key in more}
    labels = more.pop("oracle", None)
    made = spec(folder / "spec.json", **more)
    verb.attack(
        folder / "capture.safetensors", made, folder / out, None, labels, None, folder / "scratch", **options
    )
    return folder / out


def no_number() -> Observation:
    seen = small()
    seen.updates["conv1.bias"][0, 0, 0] = np.nan
    return seen


# An observation, the attack's labels, and what is said; test_observation has what else a file may lack.
BAD: dict[str, tuple[Callable[[], Observation], str, list[str]]] = {
    "nan": (no_number, "counted", ["updates/conv1.bias holds NaN or Inf"]),
    "no labels": (small, "oracle", ["labels: oracle", "gives no labels/0", "set labels: counted"]),
    "classes": (
        lambda: small(k=4, classes=3), "row-minimum", ["row-minimum", "4 images", "not 3", "use counted"],
    ),
    "idlg": (lambda: small(k=2), "idlg", ["idlg reads one label", "2 images"]),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(BAD))
def test_what_does_not_fit_is_one_line_that_names_it_and_marks_the_cell(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, labels, says = BAD[case]
    tensors, facts = read_tensors(attacked(tmp_path, seen(), labels=labels))
    assert tensors == {}
    for part in says:
        assert part in facts["absent"], facts["absent"]
    assert capsys.readouterr().err == f"leakbench attack: {facts['absent']}\n"
    assert not list(tmp_path.glob("scratch/*"))


@pytest.mark.parametrize(
    ("labels", "says"),
    [({}, "labels/0 must be whole numbers (2, 1)"),
     ({"labels/0": np.zeros((2, 2), np.int64)}, "labels/0 must be whole numbers (2, 1)"),
     ({"labels/0": np.zeros((2, 1), np.float32)}, "labels/0 must be whole numbers (2, 1)"),
     ({"labels/0": np.full((2, 1), 10)}, "beyond the victim's classes"),
     ({"labels/0": np.full((2, 1), -1)}, "beyond the victim's classes")],
)  # fmt: skip
def test_an_unfit_oracle_is_a_mistake(labels: dict[str, np.ndarray], says: str, tmp_path: Path) -> None:
    capture, oracle = (tmp_path / f"{name}.safetensors" for name in ("capture", "oracle"))
    write(capture, small())
    write_tensors(oracle, labels, {})
    with pytest.raises(UserError) as problem:
        read_observation(capture, labels=oracle)
    assert says in str(problem.value)
    assert str(oracle) in str(problem.value)


@pytest.mark.parametrize(
    ("labelling", "word"), [("oracle", "given"), ("counted", "inferred"), ("joint", "joint")]
)
def test_the_verb_writes_what_was_found_and_the_null_beside_it(
    labelling: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes again, however many workers there are."""
    monkeypatch.setattr(Objective, "chunk", lambda self, optimiser, unknowns: 2)
    seen, oracle = small(rounds=5), tmp_path / "oracle.safetensors"
    write_tensors(oracle, {"labels/0": seen.labels[0]}, {})
    given = {"labels": labelling, "oracle": oracle if labelling == "oracle" else None}
    one, two = (attacked(tmp_path, seen, f"{n}", workers=n, **given) for n in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    assert list((tmp_path / "scratch").iterdir()) == []
    tensors, facts = read_tensors(two)
    assert facts["knows"]["labels"] == word
    assert tensors["images"].shape == (5, 1, 1, 3, 8, 8)
    assert tensors["labels"].tolist() == [[[n]] for n in range(5)] or labelling == "joint"
    # At most a quarter of the rounds are played on noise.
    assert tensors["null/images"].shape == (2, 1, 1, 3, 8, 8)
    assert not np.array_equal(tensors["null/images"], tensors["images"][:2])


@pytest.mark.parametrize(("adaptive", "told"), [(True, "gaussian"), (False, "none")])
def test_only_an_attack_that_adapts_knows_the_defence(adaptive: bool, told: str, tmp_path: Path) -> None:
    seen = small()
    out = attacked(tmp_path, replace(seen, knows=replace(seen.knows, defence="gaussian")), adaptive=adaptive)
    assert read_facts(out)["knows"]["defence"] == told


def test_a_killed_attack_resumes_each_model_and_client_from_its_work(tmp_path: Path, death: Death) -> None:
    """Two models of one size: the second's work must not be taken for the first's."""
    one = small(rounds=4)
    twice = {n: np.concatenate([v, 0.5 * v]) for n, v in one.weights.items()}
    seen = replace(one, weights=twice, origin=np.array([0, 0, 1, 1]))
    whole = run(seen, **QUICK)
    seen = replace(seen, work=Crew(scratch=tmp_path))
    with death.meets(2, 3):
        run(seen, **QUICK)
    left = {path.parent.name: read_facts(path)["iteration"] for path in tmp_path.glob("*/0.safetensors")}
    assert left == {"match-client-0-model-0": 4, "match-client-0-model-1": 2}
    assert torch.equal(run(seen, **QUICK).images, whole.images)


def test_a_job_killed_on_noise_does_not_repeat_the_attack_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, death: Death
) -> None:
    # As an attack whose rounds see each other, which is run on noise by itself.
    monkeypatch.delitem(attacks._CAPABILITIES, gradient_matching.gradient_matching)
    out = attacked(tmp_path, small())
    whole = out.read_bytes()
    out.unlink()
    assert list((tmp_path / "scratch").iterdir()) == []
    with death.meets(2, 2):
        attacked(tmp_path)
    assert not out.exists()
    death.begun.clear()
    # Only the run on noise goes on; the attack itself is read from what it left.
    assert attacked(tmp_path).read_bytes() == whole
    assert len(death.begun) == 1
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_flipped_bit_in_what_a_killed_attack_left_is_set_aside_and_made_anew(
    tmp_path: Path, death: Death, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the sealed process that finds it."""
    capture, out, scratch = (
        tmp_path / "capture.safetensors", tmp_path / "out.safetensors", tmp_path / "scratch",
    )  # fmt: skip
    write(capture, small())
    made = spec(tmp_path / "spec.json")
    job = f"attack --capture {capture} --spec {tmp_path}/spec.json --out {out} --root {tmp_path}".split()
    with death.meets(1, 2):
        verb.attack(capture, made, out, None, None, None, scratch / "attack")
    (left,) = tmp_path.glob("scratch/attack/*/**/*.safetensors")
    data = bytearray(left.read_bytes())
    data[-1] ^= 1
    left.write_bytes(data)
    capfd.readouterr()
    assert main(job) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{left}: its bytes have sha256" in line
    assert f"set aside as {left.name}.damaged" in line
    assert not out.exists()
    assert main(job) == 0
    assert list((scratch / "attack").iterdir()) == []
    found = out.read_bytes()
    out.unlink()
    assert main(job) == 0
    assert out.read_bytes() == found


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is there")
def test_a_device_that_is_absent_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--device cuda:1: torch finds no CUDA device"):
        attacked(tmp_path, small(), device="cuda:1")
    assert not (tmp_path / "out.safetensors").exists()


def test_attacks_on_two_victims_resume_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of captures are the same for victims that differ in training alone."""
    folders: list[Any] = []
    resuming = verb.resuming
    monkeypatch.setattr(verb, "resuming", lambda *a, **o: (folders.append(resuming(*a, **o)), folders[-1])[1])
    one = small()
    other = replace(one, weights={name: 2 * value for name, value in one.weights.items()})
    for lr, seen in ((0.1, one), (0.2, one), (0.1, one), (0.1, other)):
        # Written anew: what counts is what is in it.
        attacked(tmp_path, seen, optimiser={"adam": {"lr": lr}})
    assert folders[0] == folders[2]
    assert len({*folders}) == 3


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
