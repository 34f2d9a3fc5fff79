"""Runs of one plan share a folder; one of another plan is refused until they have ended."""

import errno
import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.run import write
from leakbench.catalogue.workflow import Workflow
from tests.unit.catalogue.conftest import ENTRIES

FOLDER = "results/quick/specs"
ONE, OTHER = {f"{FOLDER}/a.json": "1\n"}, {f"{FOLDER}/a.json": "2\n", f"{FOLDER}/b.json": "3\n"}


def test_specs_that_a_run_goes_by_are_not_changed(tmp_path: Path) -> None:
    lock = write(tmp_path, FOLDER, ONE)
    assert lock
    with pytest.raises(UserError, match=rf"^{FOLDER}: a run with other settings goes on here \(wait"):
        write(tmp_path, FOLDER, OTHER)
    assert (tmp_path / FOLDER / "a.json").read_text() == "1\n"
    assert not (tmp_path / FOLDER / "b.json").exists()
    lock.close()
    assert write(tmp_path, FOLDER, OTHER)
    assert {name: (tmp_path / name).read_text() for name in OTHER} == OTHER


def test_specs_of_data_sets_are_shared_by_all(tmp_path: Path) -> None:
    lock, fetched = write(tmp_path, FOLDER, ONE), "data/specs/d.json"
    assert write(tmp_path, FOLDER, ONE | {fetched: "1\n"})
    assert (tmp_path / fetched).read_text() == "1\n"
    assert lock


def test_runs_of_one_plan_share_its_specs(tmp_path: Path) -> None:
    first, second = write(tmp_path, FOLDER, ONE), write(tmp_path, FOLDER, ONE)
    assert first
    assert second
    first.close()
    with pytest.raises(UserError):
        write(tmp_path, FOLDER, OTHER)
    second.close()
    assert write(tmp_path, FOLDER, OTHER)


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        lock = write(tmp_path, FOLDER, ONE)
        os.write(writing, b"x" if lock else b"-")
        signal.pause()
    try:
        assert os.read(reading, 1) == b"x"
        with pytest.raises(UserError):
            write(tmp_path, FOLDER, OTHER)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert write(tmp_path, FOLDER, OTHER)


def test_a_file_system_without_locks_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    assert write(tmp_path, FOLDER, ONE) is None
    assert write(tmp_path, FOLDER, OTHER) is None
    assert (tmp_path / FOLDER / "a.json").read_text() == "2\n"


def test_planning_with_other_settings_leaves_a_run_alone(root: Callable[..., Path]) -> None:
    other = ENTRIES["experiments/e"] | {"seeds": [7]}
    place = root({"experiments/other": other})
    run = Workflow(place, "quick")
    specs = {path: path.read_text() for path in (place / FOLDER).rglob("*.json")}
    assert specs
    with pytest.raises(UserError, match="other settings"):
        Workflow(place, "quick", only="other")
    assert {path: path.read_text() for path in (place / FOLDER).rglob("*.json")} == specs
    del run
    assert Workflow(place, "quick", only="other").plan.experiments["other"]
    assert {path: path.read_text() for path in (place / FOLDER).rglob("*.json")} != specs
