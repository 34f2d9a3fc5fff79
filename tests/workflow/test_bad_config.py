"""Every kind of bad configuration is one line that names the file and the key and says how to mend it; exit
code 2."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from nightly import daily
from project import Project, tiny_project

from leakbench.jobs.cli import main

DROP = object()
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


class Case(NamedTuple):
    """Lay `change` (dotted key → value, or the file's whole text) on a file; the line names that file and
    `says`."""

    name: str
    file: str
    change: dict[str, Any] | str | bytes
    says: list[str]
    named: str = ""


CELLS = "experiments/tiny"
BUDGET: dict[str, Any] = {"length": 0.5, "trials": {5: 1000}, "training": 1000, "total": 1000}
CASES = [
    Case("unknown-attack", CELLS, {"cells.0.attack": ["fidle"]}, ["attack 'fidle'", "did you mean 'fidel'?"]),
    Case("unknown-dataset", CELLS, {"cells.0.dataset": ["tinny"]},
    ["dataset 'tinny'", "did you mean 'tiny'?"]),
    Case("unknown-victim", CELLS, {"cells.0.victim": ["tiney"]}, ["victim 'tiney'", "did you mean 'tiny'?"]),
    Case("unknown-federation", CELLS, {"cells.0.federation": ["fidel-dem"]},
    ["federation 'fidel-dem'", "'fidel-demo'"]),
    Case("unknown-defence", CELLS, {"cells.0.defence": ["nonne"]},
    ["defence 'nonne'", "did you mean 'none'?"]),
    Case("unknown-with-nothing-near", CELLS, {"cells.0.defence": ["zzzz"]},
    ["defence 'zzzz'", "there are: aggregated, aggregated-client, ats"]),
    Case("unknown-metric", CELLS, {"metrics": ["pearsn"]},
    ["metrics", "'pearsn'", "did you mean 'pearson'?"]),
    Case("unknown-drawing", CELLS, {"figure.drawing": "grids"},
    ["figure.drawing", "'grids'", "did you mean 'grid'?"]),
    Case("no-drawing", CELLS, {"figure.drawing": "words"}, ["figure.drawing", "'words' is no drawing"]),
    Case("unknown-argument", CELLS, {"figure": {"drawing": "grid", "mots": 3}},
    ["figure.mots", "did you mean 'most'?"]),
    Case("wrong-argument", CELLS, {"figure": {"drawing": "grid", "most": "many"}},
    ["figure.most", "'many'"]),
    Case("missing-argument", CELLS, {"figure": {"drawing": "lines", "x": "round"}},
    ["figure.metrics", "required"]),
    Case("no-figure", CELLS, {"figure": DROP}, ["figure", "required"]),
    Case("unknown-generator", "attacks/other", {"generator": {"tiny": "fidel-mnst"}},
    ["generator.tiny", "'fidel-mnist'"]),
    Case("misspelt-key", CELLS, {"metrcs": ["mse"]}, ["metrcs", "did you mean 'metrics'?"]),
    Case("misspelt-inner-key", "victims/tiny", {"training.epoch": 3}, ["training.epoch", "config/README.md"]),
    Case("missing-key", "federations/tiny", {"local": DROP}, ["local", "required"]),
    Case("wrong-type", "victims/tiny", {"training.lr": "fast"}, ["training.lr", "'fast'"]),
    Case("word-for-list", CELLS, {"cells.0.victim": "tiny"}, ["cells.0.victim", "list", "'tiny'"]),
    Case("yes-is-no-name", CELLS, {"cells.0.attack": [True]}, ["cells.0.attack.0", "True"]),
    Case("list-for-mapping", "victims/tiny", {"training": [1, 2]}, ["training", "[1, 2]"]),
    Case("fraction-for-count", "federations/tiny", {"rounds": 2.5}, ["rounds", "2.5"]),
    Case("negative-number", "victims/tiny", {"training.lr": -0.1}, ["training.lr", "-0.1"]),
    Case("zero-rounds", "federations/tiny", {"rounds": 0}, ["rounds", "greater than 0"]),
    Case("zero-samples", "federations/tiny", {"clients": [1, 0]}, ["clients.1", "greater than 0"]),
    Case("empty-clients", "federations/tiny", {"clients": []}, ["clients", "at least 1"]),
    Case("empty-cells", CELLS, {"cells": []}, ["cells", "at least 1"]),
    Case("empty-metrics", CELLS, {"metrics": []}, ["metrics", "at least 1"]),
    Case("name-twice", CELLS, {"cells.0.victim": ["tiny", "tiny"]},
    ["cells.0.victim", "'tiny' is given twice"]),
    Case("metric-twice", CELLS, {"metrics": ["mse", "mse"]}, ["metrics", "'mse' is given twice"]),
    Case("name-with-slash", CELLS, {"cells.0.victim": ["../tiny"]}, ["cells.0.victim.0", "'../tiny'"]),
    Case("negative-seed", CELLS, {"seeds": [-1]}, ["seeds.0", "-1"]),
    Case("bad-optimiser", "victims/tiny", {"training.optimiser": "sgdd"},
    ["training.optimiser", "'sgdd'", "'sgd'"]),
    Case("bad-exhibit-rule", CELLS, {"exhibit.rule": "prettiest"},
    ["exhibit.rule", "'prettiest'", "'worst-median-best'"]),
    Case("duplicate-key", "victims/tiny", "summary: a\nmodule: fcnn\nmodule: cnn\n",
    ["line 3", "'module' is given twice"]),
    Case("syntax-error", "attacks/other", "summary: [a, b\n", ["line 2", "mend the YAML"]),
    Case("tab-indentation", "attacks/other", "summary: x\ngenerator:\n\ttiny: reader\n", ["line 3", "tab"]),
    Case("two-documents", "attacks/other", "summary: x\n---\nsummary: y\n", ["line 2", "mend the YAML"]),
    Case("python-object", "attacks/other", "summary: !!python/name:os.system\n", ["line 1", "mend the YAML"]),
    Case("list-as-key", "attacks/other", "? [a, b]\n: 1\n", ["line 1", "a key is no plain word"]),
    Case("not-a-mapping", "attacks/other", "- fidel\n", ["no mapping"]),
    Case("empty-file", "attacks/other", "", ["no mapping"]),
    Case("binary-garbage", "attacks/other", b"\x00\x01\x02summary: x\n", ["not YAML text"]),
    Case("not-utf-8", "attacks/other", b"summary: caf\xe9\n", ["not YAML text"]),
    Case("unknown-module", "victims/tiny", {"module": "fcn"}, ["module", "fcn.py", "did you mean 'fcnn'?"]),
    Case("module-outside", "attacks/other", {"module": "../victims/cnn"}, ["module", "should match pattern"]),
    Case("unknown-parameter", "victims/tiny", {"parameters.dropuot": 0.1},
    ["parameters.dropuot", "did you mean 'dropout'?"]),
    Case("parameter-out-of-range", "victims/tiny", {"parameters.dropout": 1.0},
    ["parameters.dropout", "less than 1", "1.0"]),
    Case("parameter-not-a-choice", "victims/tiny", {"parameters.activation": "gelu"},
    ["parameters.activation", "'gelu'"]),
    Case("slice-empty", "federations/tiny", {"private.stop": 200},
    ["private", "stop 200 must exceed start 200"]),
    Case("slice-backwards", "federations/tiny", {"private.start": 390, "private.stop": 380},
    ["private", "must exceed"]),
    Case("slice-beyond", "federations/tiny", {"private.stop": 401}, ["private.stop 401", "400 images"],
    CELLS),
    Case("split-unknown", "federations/tiny", {"private.split": "valid"}, ["private.split", "'valid'"]),
    Case("split-absent", "datasets/tiny", {"counts": {"train": 600}},
    ["private.split 'test'", "there are: train"], CELLS),
    Case("client-too-large", "federations/tiny", {"clients": [201]},
    ["clients", "201", "200 private images"]),
    Case("client-beyond", CELLS, {"client": 2}, ["client", "2 is beyond the 2 clients"]),
    Case("checkpoint-not-kept", "federations/tiny", {"checkpoints": [0, 3]},
    ["checkpoints", "epoch 0", "[3]"], CELLS),
    Case("checkpoint-beyond", "victims/tiny", {"training.checkpoints": [4]},
    ["checkpoints", "4 is beyond the 3 epochs"]),
    Case("moving-from-list", "federations/tiny", {"server": "fedavg", "checkpoints": [3]},
    ["checkpoints", "'last' alone"]),
    Case("evaluated-but-frozen", "federations/tiny", {"evaluate": 9},
    ["evaluate", "frozen", "set server: fedavg"]),
    Case("evaluated-beyond", "federations/tiny", {"evaluate": 201, "server": "fedavg"},
    ["evaluate: 201", "200 test images"]),
    Case("variants-a-list", "victims/tiny", {"variants": ["relu"]}, ["variants", "map each name"]),
    Case("variant-a-number", "victims/tiny", {"variants": {"relu": 3}}, ["variants", "map each name"]),
    Case("variant-clash", "victims/fcnn", {"variants.x": {}}, ["fcnn-x", "exists already"]),
    Case("variant-bad", "victims/tiny", {"variants": {"odd": {"training": {"lr": 0}}}},
    ["variants.odd", "training.lr"]),
    Case("variant-with-slash", "victims/tiny", {"variants": {"../x": {}}}, ["'tiny-../x' is no name"]),
    Case("variant-a-tag", "victims/tiny", {"variants": {"<b>": {}}}, ["'tiny-<b>' is no name"]),
    Case("variant-too-long", "victims/tiny", {"variants": {"x" * 300: {}}}, ["is no name", "at most 100"]),
    Case("brackets", "attacks/other", "summary: " + "[" * 200_000, ["more than 50 levels"]),
    Case("laughs", "attacks/other", LAUGHS, ["more than 50 levels or 100000 values"]),
    Case("long-value", "attacks/other", f"summary: [{'x, ' * 900}]", ["summary", "got ['x', 'x'", "..."]),
    Case("no-images", "datasets/tiny", {"shape": DROP}, ["'tiny' holds no images"], CELLS),
    Case("bad-sha256", "datasets/tiny", {"sha256": {"train/images": "abc"}},
    ["sha256.train/images", "'abc'"]), Case("bad-shape", "datasets/tiny", {"shape": [28, 28]}, ["shape"]),
    Case("cap-unknown-kind", "scales/quick", {"caps": {"victim": {"*": {"rounds": 1}}}},
    ["caps.victim", "'victims'"]),
    Case("cap-matches-nothing", "scales/quick", {"caps": {"victims": {"tony*": {"training.epochs": 1}}}},
    ["caps.victims", "'tony*'"]),
    Case("cap-no-number", "scales/quick", {"caps": {"victims": {"tiny": {"training.optimiser": 1}}}},
    ["'training.optimiser' is no number"]),
    Case("cap-no-key", "scales/quick", {"caps": {"victims": {"tiny": {"trainin.epochs": 1}}}},
    ["caps.victims.tiny", "'training'"]),
    Case("cap-not-a-number", "scales/quick", {"caps": {"victims": {"tiny": {"training.epochs": "few"}}}},
    ["caps.victims.tiny", "'few'"]),
    Case("cap-to-nothing", "scales/quick", {"caps": {"federations": {"tiny": {"rounds": 0}}}},
    ["caps.federations", "rounds", "raise the cap"]),
    Case("budget-unknown-key", "scales/quick", {"budget": BUDGET | {"cell": 5}},
    ["budget.cell", "no such key"]),
    Case("budget-key-missing", "scales/quick", {"budget": {"total": 5}}, ["budget.length", "required"]),
    Case("budget-negative", "scales/quick", {"budget": BUDGET | {"total": -1}},
    ["budget.total", "greater than 0", "-1"]),
    Case("budget-negative-seconds", "scales/quick", {"budget": BUDGET | {"trials": {5: -1}}},
    ["budget.trials.5", "greater than 0"]),
    Case("budget-too-few-trials", "scales/quick", {"budget": BUDGET | {"trials": {4: 9}}},
    ["budget.trials.4", "greater than or equal to 5"]),
    Case("budget-no-trials", "scales/quick", {"budget": BUDGET | {"trials": {}}},
    ["budget.trials", "1 item"]),
    Case("budget-longer-than-whole", "scales/quick", {"budget": BUDGET | {"length": 2}},
    ["budget.length", "less than or equal to 1"]),
    Case("budget-shorter-than-a-verdict-takes", "scales/quick", {"budget": BUDGET | {"length": 0.1}},
    ["budget.length", "greater than or equal to 0.5, got 0.1"]),
    Case("budget-a-number", "scales/quick", {"budget": 8}, ["budget", "got 8"]),
    Case("budget-pays-for-no-trial", "scales/quick", {"budget": BUDGET | {"trials": {5: 1e-9}}},
    ["budget.trials: pays for no cell (raise it)"]),
    Case("budget-pays-for-no-training", "scales/quick", {"budget": BUDGET | {"training": 1e-9}},
    ["budget.training: pays for no cell (raise it)"]),
    Case("budget-pays-for-no-job", "scales/quick", {"budget": BUDGET | {"total": 1e-9}},
    ["budget.total: pays for no cell (raise it)"]),
    Case("budget-pays-for-no-experiment", "scales/quick", {"budget": BUDGET | {"experiment": 1e-9}},
    ["budget.experiment: pays for no cell (raise it)"]),
    Case("yes-for-a-number", "federations/tiny", {"rounds": True}, ["rounds", "valid integer, got True"]),
    Case("text-for-a-number", "victims/tiny", {"training.lr": "0.1"}, ["training.lr", "got '0.1'"]),
    Case("too-many-epochs", "victims/tiny", {"training.epochs": 10**7 + 1},
    ["training.epochs: 10000001 is beyond 10000000"]),
    Case("too-large-a-rate", "victims/tiny", {"training.lr": 1e308}, ["training.lr: 1e+308 is beyond"]),
    Case("too-large-a-seed", CELLS, {"seeds": [10**30]}, ["seeds.0", "less than or equal to 90071992547409"]),
    Case("too-large-an-image", "datasets/tiny", {"shape": [10**6, 10**6, 3]}, ["shape", "an image of more"]),
    Case("matching-without-labels", "attacks/other",
    "{summary: x, module: gradient-matching, objective: cosine, unknowns: dummies, optimiser: adam}",
    ["labels: is none", "oracle, joint or a rule: counted, "]),
    Case("scale-without-nulls", "scales/quick", {"null_rounds": 0}, ["null_rounds", "greater than 0"]),
]  # fmt: skip
GENERATORS = [
    Case("generator-missing-for-dataset", "attacks/reader", {"generator": {"mnist": "reader"}},
    ["no generator for data set 'tiny'", "mnist"], CELLS),
    Case("auxiliary-overlaps-private", "generators/reader", {"auxiliary.stop": 201},
    ["auxiliary images overlap"], CELLS),
    Case("auxiliary-beyond", "generators/reader", {"auxiliary.split": "train", "auxiliary.stop": 601},
    ["auxiliary.stop 601"], CELLS),
    Case("auxiliary-empty", "generators/reader", {"auxiliary.stop": 0}, ["auxiliary", "greater than 0"]),
    Case("validation-all", "generators/reader", {"validation": 1.0}, ["validation", "less than 1"]),
    Case("training-missing", "generators/reader", {"training": DROP}, ["auxiliary and training"]),
]  # fmt: skip


def lay(value: Any, key: str, new: Any) -> None:
    """Set (or drop) one dotted key of nested mappings and lists."""
    *parents, last = key.split(".")
    for parent in parents:
        value = value[int(parent)] if isinstance(value, list) else value.setdefault(parent, {})
    if new is DROP:
        del value[last]
    else:
        value[last] = new


def spoil(root: Path, case: Case) -> None:
    path = Project(root, None).entry(case.file)
    if isinstance(case.change, dict):
        value = yaml.safe_load(path.read_text())
        for key, new in case.change.items():
            lay(value, key, new)
        path.write_text(yaml.safe_dump(value, sort_keys=False))
    else:
        path.write_bytes(case.change if isinstance(case.change, bytes) else case.change.encode())


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_project(tmp_path_factory.mktemp("sound")).root


@pytest.fixture
def catalogue(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a sound catalogue: config/ and papers/ to spoil, and the notebooks they name."""
    monkeypatch.delenv("LEAKBENCH_DATA", raising=False)
    for part in ("config", "papers", "notebooks"):
        shutil.copytree(sound / part, tmp_path / part)
    return tmp_path


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


def check(case: Case, line: str) -> None:
    file = Project(Path(), None).entry(case.named or case.file)
    assert f"{file}: " in line
    for part in case.says:
        assert part in line, line
    assert line.endswith(")"), f"no way to mend it: {line}"


def test_the_sound_catalogue_is_planned(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--root", str(catalogue)]) == 0
    printed = capsys.readouterr().out
    assert "1 experiments, 2 cells on 1 data sets" in printed
    # A line for each experiment, with its cells and the core-minutes of this machine and of the reference.
    (line,) = [line.split() for line in printed.splitlines() if line.startswith("tiny ")]
    assert line[1] == "2"
    assert all(float(minutes) >= 0 for minutes in line[2:4])


def test_the_plan_says_why_a_cell_is_left_out(catalogue: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budget = BUDGET | {"trials": {5: 20}}
    (catalogue / "config/attacks/long.yaml").write_text(
        "{summary: x, module: gradient-matching, labels: joint, objective: squares, unknowns: dummies, "
        "optimiser: adam}"
    )
    spoil(catalogue, Case("", CELLS, {"cells.0.attack": ["fidel", "long"]}, []))
    spoil(catalogue, Case("", "scales/quick", {"budget": budget}, []))
    assert main(["plan", "--root", str(catalogue)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tiny ")]
    assert line.split()[1:3] == ["1", "1"]
    assert "scale quick gives a cell 20 core-seconds" in line


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refusal(case: Case, catalogue: Path, complaint: Callable[..., str]) -> None:
    if case.name == "variant-clash":
        shutil.copy(catalogue / "config/victims/tiny.yaml", catalogue / "config/victims/fcnn-x.yaml")
    spoil(catalogue, case)
    check(case, complaint())


@pytest.mark.parametrize("case", GENERATORS, ids=lambda case: case.name)
def test_refusal_of_a_generator(
    case: Case, catalogue: Path, complaint: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("attacks/reader", READER), ("generators/reader", GENERATOR)):
        (catalogue / "config" / f"{name}.yaml").write_text(yaml.safe_dump(value))
    spoil(catalogue, Case("", CELLS, {"cells.0.attack": ["reader"]}, []))
    assert main(["plan", "--root", str(catalogue)]) == 0
    capsys.readouterr()
    # A spoilt file is read from another folder, since a catalogue is read once.
    moved = catalogue / "moved"
    for part in ("config", "papers", "notebooks"):
        shutil.copytree(catalogue / part, moved / part)
    spoil(moved, case)
    check(case, complaint("--root", str(moved)))


def test_unknown_scale(complaint: Callable[..., str]) -> None:
    line = complaint("--scale", "quik")
    assert line.startswith("--scale: scale 'quik'")
    assert line.endswith("(did you mean 'quick'?)")


def test_a_folder_that_is_no_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--root", str(tmp_path)]) == 2
    line = capsys.readouterr().err
    assert str(tmp_path / "config") in line
    assert line.endswith("(plan works on a checkout: run it there, or name the checkout by --root)\n")


def test_a_pipe_in_place_of_a_file(catalogue: Path, complaint: Callable[..., str]) -> None:
    os.mkfifo(catalogue / "config/attacks/pipe.yaml")
    assert "config/attacks/pipe.yaml: not a regular file" in complaint()


@pytest.mark.parametrize("name", ["x<script>y", "{x}", "a b", "it's", "-x", "ü"])
def test_the_name_of_a_file_is_checked(name: str, catalogue: Path, complaint: Callable[..., str]) -> None:
    (catalogue / f"papers/leakbench/experiments/{name}.yaml").write_text(
        (catalogue / "papers/leakbench/experiments/tiny.yaml").read_text()
    )
    assert f"{name!r} is no name" in complaint()


def test_a_folder_in_place_of_a_file(catalogue: Path, complaint: Callable[..., str]) -> None:
    (catalogue / "config/attacks/folder.yaml").mkdir()
    assert "config/attacks/folder.yaml: not a regular file" in complaint()


LIKEWISE = ("unknown-attack", "syntax-error", "binary-garbage")


@pytest.mark.parametrize("name", daily(LIKEWISE, LIKEWISE[:1]))
def test_snakemake_refuses_likewise(name: str, sound: Path, tmp_path: Path) -> None:
    project = Project(sound, None).copy(tmp_path)
    case = next(case for case in CASES if case.name == name)
    spoil(project.root, case)
    ran = project.snakemake("-n")
    assert ran.rc == 2
    lines = [line for line in ran.text.splitlines() if line.startswith("leakbench: ")]
    assert len(lines) == 1
    check(case, lines[0])
    assert "Traceback" not in ran.text


# The arguments of Snakemake, and how its one line begins. `make test` runs a few, `make nightly` all.
ANSWERS = {
    "scale=papre": r"--scale: scale 'papre' is not in .*\(did you mean 'paper'\?\)",
    "scal=paper": r"--config scal: there is no such key, got 'paper' \(did you mean 'scale'\?\)",
    "only=": "--config only: is given without a value",
    "results/quick/figures/tony.png": r"no experiment 'tony' \(did you mean 'tiny'\?\)$",
    "results/quick/reprot.html": r"results/quick/reprot\.html: ",
    "seed=x": "--config seed: ",
    "seed=-1": "--config seed: ",
    "seed=99999999999999999999999": "--config seed: ",
    "seed=": "--config seed: is given without a value",
    "device=gpu": "--config device: ",
    "confirm=perhaps": "--config confirm: ",
    "results/quick/tables/tony.csv": r"no experiment 'tony' \(did you mean 'tiny'\?\)$",
    "results/quick/notebooks/tony.ipynb": r"no experiment 'tony' \(did you mean 'tiny'\?\)$",
    "results/paper/report.html": r"results/paper/report\.html: ",
    "data/tiy.safetensors": r"data/tiy\.safetensors: ",
}


@pytest.mark.parametrize("told", daily(ANSWERS, list(ANSWERS)[:5]))
def test_snakemake_answers_in_one_line(told: str, sound: Path, tmp_path: Path) -> None:
    arguments = ["--config", told] if "=" in told else [told]
    ran = Project(sound, None).copy(tmp_path).snakemake("-n", *arguments)
    assert ran.rc == 2
    assert re.match(f"leakbench: {ANSWERS[told]}", ran.text.splitlines()[-1])
    assert "Traceback" not in ran.text


def test_a_damaged_list_of_accepted_results_is_one_line(sound: Path, tmp_path: Path) -> None:
    project = Project(sound, None).copy(tmp_path)
    record = project.path("results/quick/accepted.json")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text("[")
    ran = project.snakemake("-n")
    assert ran.rc == 2
    assert f"leakbench: {record}: not a list of accepted results: " in ran.text.splitlines()[-1]
    assert "Traceback" not in ran.text


def test_a_run_of_weeks_asks_first_and_a_dry_run_does_not(sound: Path, tmp_path: Path) -> None:
    project = Project(sound, None).copy(tmp_path)
    spoil(project.root, Case("", "victims/tiny", {"training.epochs": 10**7, "training.batch_size": 1}, []))
    ran = project.snakemake()
    assert ran.rc == 2
    said = [line for line in ran.text.splitlines() if line.startswith("leakbench: ")]
    assert len(said) == 1
    assert re.search(r"about [0-9,]{3,} core-hours \(.*confirm=yes", said[0]), said
    assert not project.path("data/tiny.safetensors").exists()
    # Neither what only looks nor what is short asks, and the refusal leaves no lock.
    for harmless in (["-n"], ["--touch"], ["data/tiny.safetensors"]):
        ran = project.snakemake(*harmless)
        assert ran.rc == 0, ran.text[-2000:]
