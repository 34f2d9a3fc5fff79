"""The Makefile: which interpreter it takes, and what it leaves alone."""

import os
import subprocess
import sys
import venv
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("CI", "SYSTEM", "PYTHON", "MAKEFLAGS", "MAKELEVEL")


def make(*words: str, **variables: str) -> str:
    """Return what `make` prints; `variables` are laid upon this process's own."""
    own = {name: value for name, value in os.environ.items() if name not in OURS} | variables
    command = ["/usr/bin/make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True).stdout


def test_an_active_environment_without_pip_is_not_the_interpreter(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    path = f"{tmp_path / 'bare/bin'}{os.pathsep}{os.environ['PATH']}"
    planned = make("--dry-run", "--always-make", "env", PATH=path)
    installs = next(line for line in planned.splitlines() if " -m pip install" in line)
    assert os.path.realpath(installs.split()[0]) == os.path.realpath(sys._base_executable)
    assert str(tmp_path) not in planned


@pytest.mark.parametrize(
    ("asked", "installs"), [({}, False), ({"SYSTEM": "yes"}, True), ({"CI": "true"}, True)], ids=str
)
def test_packages_are_installed_only_where_that_is_asked_for(
    asked: dict[str, str], installs: bool, tmp_path: Path
) -> None:
    """On a machine that has neither, as root."""
    log = tmp_path / "log"
    log.touch()
    for name, text in (("id", "echo 0"), ("apt-get", f'echo "$*" >> "{log}"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    said = make("browser", "slurm", f"PYTHON={sys.executable}", PATH=str(tmp_path), **asked).splitlines()
    if installs:
        wanted = [line.split()[-1] for line in log.read_text().splitlines() if line.startswith("install")]
        assert wanted == ["chromium", "munge"]
        assert said == []
    else:
        assert log.read_text() == ""
        assert ["skipped" in line for line in said] == [True, True]


def test_the_path_of_the_checkout_is_never_executed(tmp_path: Path) -> None:
    root = tmp_path / "x$(touch executed)`touch executed`'it"
    mark = root / "executed"
    root.mkdir()
    (root / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    (root / "results/quick").mkdir(parents=True)
    (root / "results/quick/report.html").touch()
    for words in (["help"], ["--touch", "env"], ["kills"]):
        command = ["/usr/bin/make", *words, "VENV=.", "PYTHON=true", "MAKE=true"]
        subprocess.run(command, cwd=root, capture_output=True, check=False)
    assert not mark.exists()
    # That it would be seen:
    subprocess.run(f'echo "{root}"', shell=True, cwd=root, check=False, capture_output=True)
    assert mark.exists()


def test_another_slurms_configuration_keeps_the_test_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either file alone, whoever asks."""
    place = spec_from_file_location("cluster", ROOT / "tests/slurm/cluster.py")
    assert place is not None
    assert place.loader is not None
    cluster = module_from_spec(place)
    place.loader.exec_module(cluster)
    monkeypatch.setenv("SYSTEM", "yes")
    monkeypatch.setattr(cluster, "ETC", tmp_path)
    monkeypatch.setattr(cluster, "_programme", lambda name: name)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert cluster.why_not() == ""
    for name in ("slurm.conf", "gres.conf"):
        (tmp_path / name).write_text("ClusterName=ours\n")
        assert cluster.why_not() == f"{tmp_path / name}: another Slurm's"
        (tmp_path / name).unlink()
