"""Two programs that run the same attack: the same bytes if they compute the same, and other bytes if not."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from played import captured

from leakbench.catalogue import program
from leakbench.catalogue.code import PACKAGE
from leakbench.errors import UserError
from leakbench.verbs import both_programs
from leakbench.verbs.both_programs import same_bytes

SPEC: dict[str, Any] = {
    "attack": {
        "module": "gradient-matching", "objective": {"cosine": {}}, "unknowns": {"dummies": {}},
        "optimiser": {"adam": {"lr": 0.1}}, "parameters": {"iterations": 5000}, "adaptive": False,
        "epochs": {}, "generator": None, "labels": "row-minimum", "matching": "hungarian",
    },
    "attack_name": "a", "seed": 0, "null_rounds": 20,
}  # fmt: skip


def git(folder: Path, *words: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the package in a git repository of its own, committed as it is."""
    folder = tmp_path / "checkout/leakbench"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    git(tmp_path, "init", "--quiet", "checkout")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a")
    for module in (both_programs, program):
        monkeypatch.setattr(module, "PACKAGE", folder)
    captured(tmp_path, clients=(1,))
    return folder


def change(package: Path, before: str, after: str) -> None:
    file = package / "optimisers/adam.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def test_a_change_of_code_that_changes_no_bit_is_told_from_one_that_does(
    tmp_path: Path, package: Path
) -> None:
    inputs = {"capture": "capture.safetensors"}
    # The learning rate is the same number.
    change(package, "lr = self.lr * 0.1 **", "lr = 1.0 * self.lr * 0.1 **")
    assert same_bytes(tmp_path, SPEC, inputs, "HEAD", 3)
    change(package, "lr = 1.0 *", "lr = 1.001 *")
    assert not same_bytes(tmp_path, SPEC, inputs, "HEAD", 3)


def test_what_is_missing_or_fails_is_one_line(tmp_path: Path, package: Path) -> None:
    with pytest.raises(UserError, match=r"nosuch\.safetensors: missing"):
        same_bytes(tmp_path, SPEC, {"capture": "nosuch.safetensors"}, "HEAD", 3)
    (package / "verbs/attack.py").write_text("import no_such")
    with pytest.raises(UserError, match=r"ended with an error by the code below .*no_such"):
        same_bytes(tmp_path, SPEC, {"capture": "capture.safetensors"}, "HEAD", 3)


def test_an_attack_runs_for_no_longer_than_it_would() -> None:
    assert both_programs._shortened(SPEC, 3)["attack"]["parameters"]["iterations"] == 3
    assert both_programs._shortened(SPEC, 9000)["attack"]["parameters"]["iterations"] == 5000
    whole = SPEC | {"attack": {"parameters": {"delta": 1}}}
    assert both_programs._shortened(whole, 3)["attack"] == whole["attack"]
