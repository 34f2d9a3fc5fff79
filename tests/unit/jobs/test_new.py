"""`leakbench new` writes a part, and dvc.lock holds what lies here."""

import os
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
    """Return the files that are new."""
    there = ("own.yaml", "__init__.py")
    return [path for path in root.rglob("*") if path.is_file() and path.name not in there]


@pytest.mark.parametrize("kind", kinds())
def test_nothing_stays_where_one_file_cannot_be_written(
    kind: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize("name", ["class", "lambda", "import"])
def test_a_word_of_python_is_no_name_of_a_part(name: str, checkout: Path) -> None:
    with pytest.raises(UserError, match=rf"^'{name}' is a Python keyword"):
        new(checkout, "attack", name)
    assert files(checkout) == []


def test_a_name_that_experiments_or_folders_could_not_hold_is_refused(checkout: Path) -> None:
    with pytest.raises(UserError, match=r"^'a{101}' is no name of a part \(.* at most 100"):
        new(checkout, "attack", 101 * "a")
    with pytest.raises(UserError, match=r"^'all' stands for every part in an experiment \("):
        new(checkout, "attack", "all")
    assert files(checkout) == []


@pytest.mark.parametrize("kind", ["attack", "objective", "optimiser"])
def test_a_variant_has_its_name_already(kind: str, checkout: Path) -> None:
    with pytest.raises(UserError, match=r"own\.yaml: has a variant 'own-longer' already \("):
        new(checkout, kind, "own-longer")
    assert files(checkout) == []
    new(checkout, kind, "own-shorter")


@pytest.mark.parametrize(
    ("kind", "name", "file"),
    [
        ("attack", "torch", "torch.py"),
        ("attack", "len", "len.py"),
        ("defence", "per-tensor", "per_tensor.py"),
        ("victim", "nn", "nn.py"),
        ("victim", "build", "__init__.py"),
        ("victim", "sorted", "__init__.py"),
        ("dataset", "np", "np.py"),
        ("dataset", "reading", "reading.py"),
        ("optimiser", "float", "float.py"),
    ],
)
def test_a_name_that_the_code_around_it_uses_is_refused(
    kind: str, name: str, file: str, checkout: Path
) -> None:
    """The part's function would take the place of what is meant there."""
    with pytest.raises(UserError, match=rf"/{file}: '{name.replace('-', '_')}' means something else there"):
        new(checkout, kind, name)
    assert files(checkout) == []


@pytest.mark.parametrize(("kind", "name"), [("victim", "shape"), ("optimiser", "step"), ("attack", "rows")])
def test_a_name_that_is_only_local_there_is_free(kind: str, name: str, checkout: Path) -> None:
    new(checkout, kind, name)
    (source,) = (path for path in files(checkout) if path.suffix == ".py")
    assert compile(source.read_text(), str(source), "exec")


@pytest.mark.parametrize("kind", kinds())
def test_it_is_told_which_experiments_have_the_part(
    kind: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new(checkout, kind, "my-part")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("Next: "))
    # An objective and an optimiser come with an attack that names them.
    alone = kind in ("dataset", "victim")
    assert line.endswith(
        "Name it in an experiment."
        if alone
        else "Experiments that say `all` have it already. Name it in others."
    )


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
    [
        ({}, "stages: Field required"),
        ({"stages": None}, "stages: Input should be a valid dictionary, got None"),
        ({"stages": [1]}, "stages: Input should be a valid dictionary"),
        ({"stages": {"data": None}}, r"stages\.data: Input should be"),
        ({"stages": {"data": {}}}, r"stages\.data\.outs: Field required"),
        ({"stages": {"data": {"outs": [{"path": "a"}]}}}, r"stages\.data\.outs\.0\.md5: Field required"),
        ({"stages": {"data": {"outs": [{"path": "a", "md5": 5}]}}}, r"stages\.data\.outs\.0\.md5: "),
        ({"stages": {"data": {"outs": [{"path": "a", "md5": "../x"}]}}}, r"stages\.data\.outs\.0\.md5: "),
        ({"stages": {"data": {"outs": [{"path": "../a", "md5": MD5}]}}}, r"stages\.data\.outs\.0\.path: "),
        ({"stages": {"data": {"outs": [{"path": "/a", "md5": MD5}]}}}, r"stages\.data\.outs\.0\.path: "),
    ],
)
def test_a_lock_of_another_form_is_one_line(tmp_path: Path, value: Any, words: str) -> None:
    with pytest.raises(UserError, match=rf"dvc\.lock: {words}"):
        check(locked(tmp_path, value))


def test_nobody_waits_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.bin")
    locked(tmp_path, {"stages": {"data": {"outs": [{"path": "a.bin", "md5": MD5}]}}})
    with pytest.raises(UserError, match=r"a\.bin: not a regular file"):
        check(tmp_path)


def test_every_result_is_held_to_the_digest_in_or_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
