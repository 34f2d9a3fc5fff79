"""An attack that fails, or returns what cannot be scored, marks its own cell; the capture is scored."""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from played import ROUNDS, captured

from leakbench import attacks
from leakbench.base.artefacts import read_facts, read_table, read_tensors, write_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.base.processes.process import Stopped
from leakbench.catalogue.jobs import ScoreSpec
from leakbench.catalogue.spec import opened
from leakbench.jobs.attack import attack
from leakbench.jobs.cli import main
from leakbench.jobs.score import score
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

Attack = Callable[[Observation], Reconstruction]
# Candidates of each client of the small federation; images have one channel of 4 × 4 pixels.
N = 3


def grey(seen: Observation, *shape: int, n: int = N, **fields: Any) -> Reconstruction:
    lead = seen.rounds, len(seen.clients), n
    images = torch.full((*lead, *(shape or (1, 4, 4))), 0.5)
    return Reconstruction(images, torch.ones(lead, dtype=torch.bool), **fields)


def taken(seen: Observation, snapshots: int, moments: int, size: int = 4) -> Reconstruction:
    """Return images with as many snapshots, and as many iterations after which they were taken."""
    images = torch.zeros(snapshots, seen.rounds, len(seen.clients), N, 1, size, size)
    return grey(seen, snapshots=images, snapshot_iterations=torch.arange(moments))


def ranked(seen: Observation, n: int) -> Reconstruction:
    distance = torch.zeros(seen.rounds, len(seen.clients), n, dtype=torch.float64)
    return grey(seen, 0, n=n, target="candidates", span_distance=distance)


def changed(seen: Observation) -> Reconstruction:
    found = grey(seen)
    found.diverged = torch.zeros(seen.rounds, len(seen.clients))
    return found


def raised(problem: BaseException) -> Attack:
    def run(seen: Observation) -> Reconstruction:
        raise problem

    return run


def on_noise(seen: Observation) -> Reconstruction:
    """Return images of the capture, but labels of noise, which has fewer rounds."""
    labels = torch.zeros(seen.rounds, len(seen.clients), N, dtype=torch.int64)
    return grey(seen) if seen.rounds == ROUNDS else grey(seen, 0, target="labels", labels=labels)


BROKEN: dict[str, tuple[Attack, str]] = {
    "no labels": (lambda seen: grey(seen, 0, target="labels"), "labels is missing"),
    "no distance": (lambda seen: grey(seen, 0, target="candidates"), "span_distance is missing"),
    "no candidates": (lambda seen: ranked(seen, 7), "are (7, 0), and must be (0, 0)"),
    "size": (lambda seen: grey(seen, 1, 3, 3), "are (3, 1, 3, 3), and must be (3, 1, 4, 4)"),
    "channels": (lambda seen: grey(seen, 3, 4, 4), "are (3, 3, 4, 4), and must be (3, 1, 4, 4)"),
    "flattened": (lambda seen: grey(seen, 16), "are (3, 16), and must be (3, 1, 4, 4)"),
    "features": (lambda seen: grey(seen, 5, target="features"), "are (3, 5), and must be (3, 1, 4, 4)"),
    "snapshots": (lambda seen: taken(seen, 2, 2, 5), "snapshots is float32 (2, 3, 2, 3, 1, 5, 5)"),
    "few snapshots": (lambda seen: taken(seen, 1, 2), "snapshots is float32 (1, 3, 2, 3, 1, 4, 4)"),
    "nothing": (lambda seen: grey(seen, n=0), "n of at least 1"),
    "iterations": (lambda seen: grey(seen, iterations="many"), "iterations is 'many'"),
    "changed afterwards": (changed, "diverged is float32 (3, 2), and must be bool (3, 2)"),
    "on noise": (on_noise, "target is images, and labels on noise"),
    "no file": (raised(FileNotFoundError(2, "no such file", "odd")), "(FileNotFoundError: [Errno 2] no such"),
}


class Unsayable(Exception):
    def __str__(self) -> str:
        raise self


def sparse(seen: Observation) -> Reconstruction:
    """Leave a file that takes no room on the disk, and in memory more than there is."""
    with open(forged(), "wb") as file:
        file.truncate(1 << 40)
    os._exit(0)


def forged() -> Path:
    """Return the place of the reconstruction, as an attack finds it that looks for it."""
    frame = sys._getframe()
    while not isinstance(frame.f_locals.get("own"), Path):
        assert frame.f_back is not None
        frame = frame.f_back
    return Path(frame.f_locals["own"], "found.safetensors")


def by_hand(*parts: tuple[str, int]) -> Attack:
    """Return an attack that writes the file itself, with as many rounds of each part."""

    def write(seen: Observation) -> Reconstruction:
        arrays = {
            f"{9 - tensor.element_size()}{prefix}{name}": tensor[:rounds].numpy()
            for prefix, rounds in parts
            for name, tensor in grey(seen).tensors().items()
        }
        write_tensors(forged(), arrays, {"target": "images", "iterations": 0, "knows": {"blinding": "by me"}})
        os._exit(0)

    return write


# Ways in which an attack may end in the sealed process, and the words of the end. None of them ends the job.
ENDS: dict[str, tuple[Attack, str]] = {
    "exit": (lambda seen: sys.exit(128 + signal.SIGTERM), "(SystemExit: 143; mend it)"),
    "no text": (raised(Unsayable()), "Unsayable: its text cannot be read"),
    "base": (raised(BaseException("odd")), "BaseException: odd"),
    "interrupt": (raised(KeyboardInterrupt()), "KeyboardInterrupt"),
    "group": (raised(BaseExceptionGroup("odd", [KeyboardInterrupt()])), "BaseExceptionGroup: odd"),
    "at once": (lambda seen: os._exit(3), "(exit code 3; mend it)"),
    "at once, well": (lambda seen: os._exit(0), "ended without a reconstruction"),
    "fault": (lambda seen: ctypes.string_at(0) and grey(seen), "(Segmentation fault; mend it)"),
    "kill": (lambda seen: os.kill(os.getpid(), signal.SIGKILL) or grey(seen), "is no blind attack"),
    "memory": (raised(MemoryError("allocate memory")), "MemoryError: allocate memory"),
    "disk": (raised(OSError(28, "No space left on device")), "OSError: [Errno 28]"),
    "stopped": (raised(Stopped(143)), "Stopped: 143"),
    "altered": (raised(Altered(Path("x"), "odd")), "Altered: x: odd"),
    "terminal": (raised(ValueError("\x1b]0;odd\x07")), "ValueError"),
    "sparse": (sparse, "no file of its own of a likely size"),
    "no null run": (by_hand(("", ROUNDS)), "images or usable is missing"),
    "fewer rounds": (by_hand(("", ROUNDS - 1), ("null/", 1)), "(2, 2) rounds and clients of (3, 2)"),
}


NONE = {"module": "none", "parameters": {}}


def attacked(root: Path, module: str, **changes: Any) -> Path:
    """Run an attack on the capture below `root`, and return the file of its guesses."""
    out, made = root / f"{module}.safetensors", root / f"{module}.json"
    entry = {"module": module, "labels": "none", "matching": "best", "parameters": {}, "generator": None}
    value = {"attack": entry | changes, "attack_name": module, "null_rounds": 1, "seed": 0}
    made.write_text(json.dumps(value))
    attack(root / "capture.safetensors", opened("attack", made), out, None, None, None, root / "scratch")
    return out


def scored(root: Path, *guesses: Path, played: Path | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
    metrics = ["pearson", "mse", "membership_auc"]
    entry = {"metrics": metrics, "matching": "best", "judges": [], "decays": False}
    named = {path.stem: entry for path in guesses}
    cell = {"dataset": "made", "victim": "v", "federation": "f", "defence": "none", "seed": 0}
    spec = ScoreSpec.model_validate({"cell": cell, "attacks": named, "judges": []})
    files = [root / f"{name}.safetensors" for name in ("truth", "data", "victim")]
    score([*guesses], *files, spec, root / "scores.parquet", played=played)
    rows, facts = read_table(root / "scores.parquet")
    return rows, facts["attacks"]


def stand_in(monkeypatch: pytest.MonkeyPatch, run: Attack, at_once: int | None = None) -> None:
    """Let `run` be the attack `imprint`, on `at_once` rounds at a time, or on all."""

    @attacks.capable(rounds_at_once=at_once)
    def broken(observation: Observation, rng: torch.Generator, **parameters: Any) -> Reconstruction:
        return run(observation)

    own = attacks.part
    monkeypatch.setattr(attacks, "part", lambda room, name: broken if name == "imprint" else own(room, name))


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_attack_loses_its_cell(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, says = BROKEN[case]
    stand_in(monkeypatch, run)
    captured(tmp_path, None, defence=NONE)
    sound, broken = attacked(tmp_path, "fidel"), attacked(tmp_path, "imprint")
    alone, told_alone = scored(tmp_path, sound)
    rows, told = scored(tmp_path, sound, broken)
    assert says in read_facts(broken)["absent"]
    assert "\n" not in read_facts(broken)["absent"]
    assert told == told_alone | {"imprint": {"absent": read_facts(broken)["absent"]}}
    pd.testing.assert_frame_equal(rows, alone)


def test_an_attack_on_other_candidates_has_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = captured(tmp_path, None, defence=NONE, candidates=20)
    held = len(files["capture"]["candidates"])
    stand_in(monkeypatch, lambda seen: ranked(seen, 7))
    assert f"are (7, 0), and must be ({held}, 0)" in read_facts(attacked(tmp_path, "imprint"))["absent"]
    stand_in(monkeypatch, lambda seen: ranked(seen, held))
    rows, _ = scored(tmp_path, attacked(tmp_path, "imprint"))
    assert (rows["membership_auc"] == 0.5).all()


@pytest.mark.parametrize(
    ("field", "says"),
    [({"labels": torch.zeros(1, 2, N, dtype=torch.int64)}, "labels is of another form in later rounds"),
     ({"target": "features"}, "target is of another form in later rounds"),
     ({"n": 1}, "usable is of another form in later rounds"),
     ({"traced": torch.arange(1), "losses": torch.zeros(1, 2, 1)}, "traced and snapshots are of all")],
)  # fmt: skip
def test_pieces_of_one_attack_are_of_one_form(
    field: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def run(seen: Observation) -> Reconstruction:
        calls.append(1)
        return grey(seen, **(field if len(calls) == 3 else {}))

    stand_in(monkeypatch, run, at_once=1)
    captured(tmp_path, None, defence=NONE)
    assert says in read_facts(attacked(tmp_path, "imprint"))["absent"]


@pytest.mark.parametrize("plain", [torch.Tensor.bfloat16, torch.Tensor.requires_grad_, torch.nn.Parameter])
def test_what_only_torch_can_hold_is_written_as_numpy_holds_it(
    plain: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the attack makes its reconstruction of such a tensor or puts one into it later."""
    captured(tmp_path, None, defence=NONE)
    for late in (False, True):

        def run(seen: Observation, late: bool = late) -> Reconstruction:
            found = grey(seen)
            images = plain(found.images.clone())
            if not late:
                return Reconstruction(images, found.usable)
            found.images = images
            return found

        stand_in(monkeypatch, run)
        images = read_tensors(attacked(tmp_path, "imprint"))[0]["images"]
        assert images.dtype == np.float32
        assert (images == 0.5).all()


def test_a_signal_or_a_mistake_in_the_spec_ends_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An exit that the attack asks for does not, in the same sealed process."""
    captured(tmp_path, None, defence=NONE)
    stand_in(monkeypatch, lambda seen: grey(seen))
    attacked(tmp_path, "imprint")
    out = tmp_path / "out.safetensors"

    def code(module: str) -> int:
        files = {"capture": "capture.safetensors", "spec": f"{module}.json", "out": out.name, "root": "."}
        words = [word for name, file in files.items() for word in (f"--{name}", str(tmp_path / file))]
        try:
            return main(["attack", *words])
        except Stopped as end:
            return int(end.code or 0)

    def waits(seen: Observation) -> Reconstruction:
        Path("begun").touch()
        time.sleep(60)
        return grey(seen)

    def end() -> None:
        while not list(tmp_path.glob("scratch/attack/*/begun")):
            time.sleep(0.01)
        for child in psutil.Process().children():
            child.send_signal(signal.SIGTERM)

    stand_in(monkeypatch, waits)
    ending = threading.Thread(target=end)
    ending.start()
    assert code("imprint") == 128 + signal.SIGTERM
    ending.join()
    assert not out.exists()
    with pytest.raises(UserError):
        attacked(tmp_path, "fidel", parameters={"neurons": 0})
    assert code("fidel") == 2
    assert "neurons" in capfd.readouterr().err
    assert not out.exists()
    for end_of, (own, says) in ENDS.items():
        stand_in(monkeypatch, own)
        assert code("imprint") == 0, end_of
        reason = read_facts(out)["absent"]
        assert says in reason, (end_of, reason)
        assert reason.isprintable()
        assert not list(tmp_path.glob(".*"))
        assert not list(tmp_path.glob("scratch/attack/*"))


FUSED = {"module": "fused", "parameters": {}}


@pytest.mark.parametrize(
    "more", [{}, {"passes": 3}, {"checkpoints": [0], "server": "frozen"}, {"defence": FUSED}]
)
def test_the_scorer_draws_the_private_images_itself(more: dict[str, Any], tmp_path: Path) -> None:
    """So a defence's file, which runs without a seal, cannot have another truth written."""
    truth = captured(tmp_path, None, **({"defence": NONE} | more))["truth"]
    guesses, played = attacked(tmp_path, "fidel"), tmp_path / "spec.json"
    rows, _ = scored(tmp_path, guesses)
    pd.testing.assert_frame_equal(scored(tmp_path, guesses, played=played)[0], rows)
    path = tmp_path / "truth.safetensors"
    facts = read_facts(path)
    for name in ("images", "labels"):
        other = {f"{name}/{c}": np.roll(truth[f"{name}/{c}"], 1, 0) for c in range(len(facts["clients"]))}
        write_tensors(path, truth | other, facts)
        with pytest.raises(UserError, match="its private samples are not those"):
            scored(tmp_path, guesses, played=played)
