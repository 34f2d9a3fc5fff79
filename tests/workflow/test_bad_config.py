"""Every bad configuration (bad_config.yaml) is one line that says where and how to mend it, exit code 2."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import Project

from leakbench.catalogue.costs import REFERENCE
from leakbench.jobs.cli import main

Case = dict[str, Any]
TABLE: dict[str, list[Case]] = yaml.safe_load(Path(__file__).with_name("bad_config.yaml").read_text())
GENERATOR = {
    "summary": "a tiny generator",
    "module": "fidel-mnist",
    "auxiliary": {"split": "test", "start": 0, "stop": 100},
    "training": {"optimiser": "adam", "lr": 0.001, "batch_size": 16, "epochs": 1},
}
READER = {"summary": "needs a generator", "module": "fidel", "generator": {"tiny": "reader"}}
# Ten lines that stand for ten thousand million words.
LAUGHS = "summary: x\na0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 11)
)
# What YAML cannot hold, or only at length.
MADE: list[Case] = [
    {"name": name, "file": "attacks/other", "text": text, "says": says}
    for name, text, says in (
        ("binary-garbage", b"\x00\x01\x02summary: x\n", ["not YAML text"]),
        ("not-utf-8", b"summary: caf\xe9\n", ["not YAML text"]),
        ("brackets", "summary: " + "[" * 200_000, ["more than 50 levels"]),
        ("laughs", LAUGHS, ["more than 50 levels or 100000 values"]),
        ("long-value", f"summary: [{'x, ' * 900}]", ["summary", "got ['x', 'x'", "..."]),
    )
]
MADE.append(
    {"name": "variant-too-long", "file": "victims/tiny", "lay": {"variants": {"x" * 300: {}}},
     "says": ["is no name", "at most 100"]}
)  # fmt: skip
CASES = [*TABLE["cases"], *MADE]
CELLS = "experiments/tiny"
BUDGET: dict[str, Any] = {"length": 0.5, "trials": {5: 20}, "training": 1000, "total": 1000}


def inside(value: Any, key: str) -> tuple[Any, str]:
    """Return what holds the last of a dotted key's names, and that name."""
    *parents, last = key.split(".")
    for parent in parents:
        value = value[int(parent)] if isinstance(value, list) else value.setdefault(parent, {})
    return value, last


def spoil(root: Path, case: Case) -> None:
    path = Project(root, None).entry(case["file"])
    if "text" in case:
        text = case["text"]
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return
    value = yaml.safe_load(path.read_text())
    for key, new in case.get("lay", {}).items():
        holder, last = inside(value, key)
        holder[last] = new
    for key in case.get("drop", ()):
        holder, last = inside(value, key)
        del holder[last]
    path.write_text(yaml.safe_dump(value, sort_keys=False))


def check(case: Case, line: str) -> None:
    file = Project(Path(), None).entry(case.get("named", case["file"]))
    assert f"{file}: " in line
    for part in case["says"]:
        assert part in line, line
    assert line.endswith(")"), f"no way to mend it: {line}"


@pytest.fixture
def complaint(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return a function that plans, and gives back the one line of the refusal."""

    def plan(*arguments: str) -> str:
        code = main(["plan", "--root", str(catalogue), *arguments])
        printed = capsys.readouterr()
        assert code == 2, printed.out
        assert printed.out == ""
        lines = printed.err.splitlines()
        assert len(lines) == 1, printed.err
        return lines[0].removeprefix("leakbench plan: ")

    return plan


def lines_of(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what the plan of a sound catalogue prints."""
    assert main(["plan", "--root", str(catalogue)]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_sound_catalogue_is_planned(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = lines_of(catalogue, capsys)
    assert any("1 experiments, 2 cells on 1 data sets" in line for line in printed)
    # A line for each experiment, with its cells and the core-minutes of this machine and of the reference.
    (line,) = [line.split() for line in printed if line.startswith("tiny ")]
    assert line[1] == "2"
    assert all(float(minutes) >= 0 for minutes in line[2:4])


def test_the_plan_says_why_a_cell_is_left_out(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (catalogue / "config/attacks/long.yaml").write_text(
        "{summary: x, module: gradient-matching, labels: joint, objective: squares, unknowns: dummies, "
        "optimiser: adam}"
    )
    spoil(catalogue, {"file": CELLS, "lay": {"cells.0.attack": ["fidel", "long"]}})
    spoil(catalogue, {"file": "scales/quick", "lay": {"budget": BUDGET}})
    (line,) = [line for line in lines_of(catalogue, capsys) if line.startswith("tiny ")]
    assert line.split()[1:3] == ["1", "1"]
    assert "scale quick gives a cell 20 core-seconds" in line


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_refusal(case: Case, catalogue: Path, complaint: Callable[..., str]) -> None:
    if case["name"] == "variant-clash":
        shutil.copy(catalogue / "config/victims/tiny.yaml", catalogue / "config/victims/fcnn-x.yaml")
    spoil(catalogue, case)
    check(case, complaint())


@pytest.mark.parametrize("case", TABLE["generators"], ids=lambda case: case["name"])
def test_refusal_of_a_generator(
    case: Case, catalogue: Path, complaint: Callable[..., str], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("leakbench.jobs.plan.measured", lambda: REFERENCE)
    for name, value in (("attacks/reader", READER), ("generators/reader", GENERATOR)):
        (catalogue / "config" / f"{name}.yaml").write_text(yaml.safe_dump(value))
    spoil(catalogue, {"file": CELLS, "lay": {"cells.0.attack": ["reader"]}})
    lines_of(catalogue, capsys)
    # A spoilt file is read from another folder, since a catalogue is read once.
    moved = catalogue / "moved"
    for part in ("config", "papers", "notebooks"):
        shutil.copytree(catalogue / part, moved / part)
    spoil(moved, case)
    check(case, complaint("--root", str(moved)))


@pytest.mark.parametrize("name", ["x<script>y", "{x}", "a b", "it's", "-x", "ü"])
def test_the_name_of_a_file_is_checked(name: str, catalogue: Path, complaint: Callable[..., str]) -> None:
    (catalogue / f"papers/leakbench/experiments/{name}.yaml").write_text(
        (catalogue / "papers/leakbench/experiments/tiny.yaml").read_text()
    )
    assert f"{name!r} is no name" in complaint()


def refused(project: Project, *words: str) -> str:
    """Return the one line in which Snakemake refuses a command."""
    ran = project.snakemake(*words)
    assert ran.rc == 2
    assert "Traceback" not in ran.text
    (line,) = [line for line in ran.text.splitlines() if line.startswith("leakbench: ")]
    return line


def test_snakemake_refuses_likewise(sound: Path, tmp_path: Path) -> None:
    project = Project(sound, None).copy(tmp_path)
    line = refused(project, "-n", "--config", "scale=papre")
    assert re.match(r"leakbench: --scale: scale 'papre' is not in .*\(did you mean 'paper'\?\)", line)
    accepted = project.path("results/quick/accepted.json")
    accepted.parent.mkdir(parents=True, exist_ok=True)
    accepted.write_text("[")
    assert f"leakbench: {accepted}: not a list of accepted results: " in refused(project, "-n")


def test_a_run_of_weeks_asks_first_and_a_dry_run_does_not(sound: Path, tmp_path: Path) -> None:
    project = Project(sound, None).copy(tmp_path)
    spoil(project.root, {"file": "victims/tiny", "lay": {"training.epochs": 10**7, "training.batch_size": 1}})
    assert re.search(r"about [0-9,]{3,} core-hours \(.*confirm=yes", refused(project))
    assert not project.path("data/tiny.safetensors").exists()
    # Neither what only looks nor what is short asks, and the refusal leaves no lock.
    for harmless in (["-n"], ["--touch"], ["data/tiny.safetensors"]):
        ran = project.snakemake(*harmless)
        assert ran.rc == 0, ran.text[-2000:]
