"""`leakbench new` writes a part, and dvc.lock holds what lies here."""

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from leakbench.base.artefacts import read_csv, write_listed, write_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.jobs import new as module
from leakbench.jobs.check import check
from leakbench.jobs.new import kinds, new

ROOT = Path(__file__).parents[3]
# An attack with a variant own-longer. The room of victims has a function of its own.
OWN = "summary: x\nmodule: fidel\nvariants: {longer: {}}\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return an empty checkout with a folder for every file of a part."""
    for kind in kinds():
        for file in (module.TEMPLATES / kind).rglob("*.txt"):
            top, *rest = file.relative_to(module.TEMPLATES / kind).parts
            room = tmp_path / ("src/leakbench" if top == "src" else top)
            room.joinpath(*rest).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "config/attacks/own.yaml").write_text(OWN)
    (tmp_path / "src/leakbench/networks/victims/__init__.py").write_text("def build(): return sorted(())\n")
    return tmp_path


def files(root: Path) -> list[Path]:
    there = ("own.yaml", "__init__.py")
    return [path for path in root.rglob("*") if path.is_file() and path.name not in there]


@pytest.mark.parametrize("kind", kinds())
def test_all_files_are_written_or_none_and_it_is_told_which_experiments_have_the_part(
    kind: str, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = module.write_text

    def once(path: Path, text: str) -> None:
        if files(checkout):
            raise UserError(f"{path}: permission denied")
        write(path, text)

    monkeypatch.setattr(module, "write_text", once)
    with pytest.raises(UserError, match="permission denied"):
        new(checkout, kind, "my-part")
    assert files(checkout) == []
    monkeypatch.setattr(module, "write_text", write)
    new(checkout, kind, "my-part")
    assert len(files(checkout)) >= 2
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: "))
    # An objective and an optimiser come with an attack that names them.
    had = "Experiments that say `all` have it already. Name it in others."
    assert line.endswith("Name it in an experiment." if kind in ("dataset", "victim") else had)


def test_what_is_written_passes_lint(checkout: Path) -> None:
    for kind in kinds():
        new(checkout, kind, f"my-{kind}")
    sources = [str(path) for path in files(checkout) if path.suffix == ".py"]
    assert len(sources) >= len(kinds())
    ruff, own = ["--config", str(ROOT / "pyproject.toml")], f"--config-file={ROOT / 'pyproject.toml'}"
    for told in (
        ["ruff", "check", *ruff, "--config", "lint.isort.known-first-party=['leakbench']", *sources],
        ["ruff", "format", "--check", *ruff, *sources],
        ["mypy", own, "--follow-imports=skip", "--explicit-package-bases", "--cache-dir=types",
         "--disable-error-code=import-untyped", *sources],
    ):  # fmt: skip
        done = subprocess.run(told, capture_output=True, text=True, cwd=checkout, check=False)
        assert done.returncode == 0, done.stdout


# Names that the code around a part uses: the part's function would take the place of what is meant there.
TAKEN = (
    ("attack", "torch", "torch"), ("attack", "len", "len"), ("defence", "per-tensor", "per_tensor"),
    ("victim", "nn", "nn"), ("victim", "build", "__init__"), ("victim", "sorted", "__init__"),
    ("dataset", "np", "np"), ("dataset", "reading", "reading"), ("optimiser", "float", "float"),
)  # fmt: skip
# Kind and name → what the refusal says.
NO_NAMES = {
    **{("attack", word): f"^'{word}' is a Python keyword" for word in ("class", "lambda", "import")},
    ("attack", 101 * "a"): r"^'a{101}' is no name of a part \(.* at most 100",
    ("atack", "x"): r"^no kind of part is called 'atack' \(did you mean 'attack'",
    **{("attack", name): rf"^'{name}' is no name of a part" for name in ("My_Part", "../x")},
    ("attack", "own"): "exists already",
    ("attack", "all"): r"^'all' stands for every part in an experiment \(",
    **dict.fromkeys(
        [("attack", "own-longer"), ("objective", "own-longer"), ("optimiser", "own-longer")],
        r"own\.yaml: has a variant 'own-longer' already \(",
    ),
    **{(kind, name): f"/{file}.py: '{file if file != '__init__' else name}' means something else there"
       for kind, name, file in TAKEN},
}  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), NO_NAMES)
def test_a_name_that_a_part_cannot_have_is_refused(kind: str, name: str, checkout: Path) -> None:
    with pytest.raises(UserError, match=NO_NAMES[kind, name]):
        new(checkout, kind, name)
    assert files(checkout) == []


FREE = [("victim", "shape"), ("optimiser", "step"), ("attack", "rows"), ("attack", "own-shorter")]


@pytest.mark.parametrize(("kind", "name"), FREE)
def test_a_name_that_is_only_local_there_is_free(kind: str, name: str, checkout: Path) -> None:
    new(checkout, kind, name)
    (source,) = (path for path in files(checkout) if path.suffix == ".py")
    assert compile(source.read_text(), str(source), "exec")


MD5 = "d41d8cd98f00b204e9800998ecf8427e"


def locked(root: Path, value: Any) -> Path:
    (root / "dvc.lock").write_text(yaml.safe_dump(value))
    return root


def test_an_output_that_is_as_recorded_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outs = [{"path": "data/a.bin", "md5": MD5, "size": 0}, {"path": "data/b.bin", "md5": MD5}]
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.bin").touch()
    check(locked(tmp_path, {"schema": "2.0", "stages": {"data": {"cmd": "x", "outs": outs}}}))
    assert capsys.readouterr().out == "1 of the 2 outputs of dvc.lock are here, each as recorded\n"


@pytest.mark.parametrize(
    ("value", "words"),
    [({}, "stages: Field required"),
     ({"stages": None}, "stages: Input should be a valid dictionary, got None"),
     ({"stages": [1]}, "stages: Input should be a valid dictionary"),
     ({"stages": {"data": None}}, r"stages\.data: Input should be"),
     ({"stages": {"data": {}}}, r"stages\.data\.outs: Field required"),
     ({"stages": {"data": {"outs": [{"path": "a"}]}}}, r"stages\.data\.outs\.0\.md5: Field required"),
     ({"stages": {"data": {"outs": [{"path": "a", "md5": 5}]}}}, r"stages\.data\.outs\.0\.md5: "),
     ({"stages": {"data": {"outs": [{"path": "a", "md5": "../x"}]}}}, r"stages\.data\.outs\.0\.md5: "),
     ({"stages": {"data": {"outs": [{"path": "../a", "md5": MD5}]}}}, r"stages\.data\.outs\.0\.path: "),
     ({"stages": {"data": {"outs": [{"path": "/a", "md5": MD5}]}}}, r"stages\.data\.outs\.0\.path: ")],
)  # fmt: skip
def test_a_lock_of_another_form_is_one_line(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(UserError, match=rf"dvc\.lock: {words}"):
        check(locked(tmp_path, value))


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.bin")
    locked(tmp_path, {"stages": {"data": {"outs": [{"path": "a.bin", "md5": MD5}]}}})
    with pytest.raises(UserError, match=r"a\.bin: not a regular file"):
        check(tmp_path)


def test_every_result_is_held_to_its_digest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked(tmp_path, {"stages": {"data": {"outs": [{"path": "data/b.bin", "md5": MD5}]}}})
    table, facts = tmp_path / "results/quick/tables/a.csv", tmp_path / "results/quick/a.safetensors"
    write_listed(table, "a,b\n1,2\n")
    write_tensors(facts, {"a": np.zeros(3)}, {})
    (tmp_path / "results/quick/free.csv").write_text("a\n1\n")
    check(tmp_path, deep=True)
    assert "3 files of data and results are as written" in capsys.readouterr().out
    table.write_text("a,b\n1,3\n")
    facts.write_bytes(facts.read_bytes()[:-1] + b"\1")
    (tmp_path / "results/quick/link.csv").symlink_to(table)
    with pytest.raises(UserError, match="one of 3 files that are not as written"):
        check(tmp_path, deep=True)
    assert capsys.readouterr().out.splitlines() == [
        "results/quick/a.safetensors: other bytes than written",
        "results/quick/link.csv: a link",
        "results/quick/tables/a.csv: other bytes than written",
    ]
    with pytest.raises(Altered, match="as written"):
        read_csv(table)
    write_listed(table, "a,b\n1,3\n")
    assert read_csv(table)["b"].tolist() == [3]
