"""What a verb is given is checked before it works: where it writes, and of which kind its files are."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import specs

from leakbench.base.artefacts import write_json, write_table, write_tensors, write_text
from leakbench.base.errors import UserError
from leakbench.jobs.arguments import check, damaged
from leakbench.jobs.cli import main

COMPARE = {"old": Path("x"), "new": [Path("x")]}
# A table without cells takes no files.
SPECS = {
    "fetch": specs.FETCH, "train": specs.SPECS["victim"],
    "capture": specs.SPECS["capture"], "score": specs.SPECS["score"],
    "table": specs.altered("table", ("cells", []), ("experiment.exhibit", None)),
}  # fmt: skip
SHOWN = dict.fromkeys(("scores", "guesses", "truths", "victims"), 1)
OUTPUTS = ("out", "digest", "record", "oracle", "truth", "exhibit", "trials")
INPUTS = (
    "data", "further", "victim", "victims", "judges", "truths", "guesses", "backbones", "scores", "costs",
    "attack_records",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "says"),
    [*((name, "not a regular file") for name in ("folder", "link", "broken", "pipe")),
     *((f"{name}/below", f"{name} is no folder") for name in ("file", "broken")),
     ("n" * 256, "more than 220 bytes")],
)  # fmt: skip
def test_an_output_that_is_no_place_of_a_file_is_refused(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    # An output may be new or a file, and nothing is made for it or done to it.
    before = sorted(tmp_path.rglob("*"))
    for free in (tmp_path / "file", tmp_path / "new", tmp_path / "a/b/new", None):
        check("compare", COMPARE | {"out": free})
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "x"
    line = rf"^{tmp_path / name}: .*{says}.* \(give --out the path of a file\)$"
    with pytest.raises(UserError, match=line):
        check("compare", COMPARE | {"out": tmp_path / name})


def arguments(verb: str, folder: Path, **files: Path | None) -> dict[str, Path | None]:
    """Return the arguments of a verb with a sound spec; `files` are given besides."""
    write_json(folder / "spec.json", SPECS[verb])
    empty = dict.fromkeys((*OUTPUTS, *INPUTS, "from_flower"))
    return {**empty, "spec": folder / "spec.json", **files}


@pytest.mark.parametrize("verb", SPECS)
def test_a_spec_is_of_the_verb(verb: str, tmp_path: Path) -> None:
    for name, spec in (SPECS | {"nothing": {}}).items():
        given = arguments(verb, tmp_path)
        write_json(tmp_path / "spec.json", spec)
        if name == verb:
            check(verb, given)
            continue
        with pytest.raises(UserError, match=r"spec\.json: [\w.]+: is (missing|no key of it) \(.*\)$"):
            check(verb, given)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"name": []}, "name: "), ({"name": "../x"}, "name: "), ({"sources": "x"}, "sources: "),
     ({"sources": [{"drawn": "by leakbench"}]}, r"sources\.0\.folders: is missing "),
     ({"module": ""}, "module: '' is no part of src/leakbench/datasets "),
     ({"counts": {"train": "1"}}, r"counts\.train: "), ({"parameters": {"samples": -1}}, r"parameters\.")],
    ids=str,
)  # fmt: skip
def test_a_spec_of_fetch_is_checked(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    given = arguments("fetch", tmp_path)
    write_json(tmp_path / "spec.json", specs.FETCH | changes)
    with pytest.raises(UserError, match=rf"spec\.json: {says}.*\)$"):
        check("fetch", given)


@pytest.mark.parametrize("kind", specs.SPECS)
def test_a_mistake_within_a_spec_is_one_line_and_nothing_is_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "spec.json", specs.altered(kind, ("sede", 3)))
    verb = specs.verb_of(kind)
    wanted = {
        "train": ("data", "out"), "capture": ("data", "victim", "out", "oracle", "truth"),
        "attack": ("capture", "out"), "score": ("guesses", "truth", "data", "victim", "out"),
        "table": ("scores", "out", "exhibit", "trials"),
    }  # fmt: skip
    words = [word for name in wanted[verb] for word in (f"--{name}", "x")]
    assert main([verb, "--spec", "spec.json", *words]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"leakbench {verb}: spec.json: sede: is no key of it ("), printed
    assert len(printed.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]


@pytest.mark.parametrize(
    ("kind", "files", "says"),
    [("score", {"guesses": 0}, "attacks: needs 1 of --guesses, and 0 are there "),
     ("score", {"attack_records": 2}, "attacks: needs 1 of --attack-records, and 2 are there "),
     ("score", {"judges": 2}, "judges: needs 1 of --judges, and 2 are there "),
     ("table", {}, "cells: needs 1 of --scores, and 0 are there "),
     ("table", SHOWN, "cells: needs 1 of --data, and 0 are there "),
     ("study table", {"scores": 2, "costs": 1}, "studies: needs 2 of --costs, and 1 are there "),
     ("generator", {}, r"generator\.reads: is features, and --victim is missing ")],
)  # fmt: skip
def test_files_are_as_many_as_asked_for(kind: str, files: dict[str, int], says: str, tmp_path: Path) -> None:
    verb = specs.verb_of(kind.split()[-1])
    given = arguments(verb, tmp_path) | {name: [Path("x")] * count for name, count in files.items()}
    studies = [f"made/mlp/boosted/prune/{seed}" for seed in (0, 1)]
    of_studies = specs.altered(
        "table", ("cells", []), ("studies", studies), ("experiment.metrics", None), ("experiment.success", [])
    )
    write_json(tmp_path / "spec.json", of_studies if kind == "study table" else specs.SPECS[kind])
    with pytest.raises(UserError, match=rf"spec\.json: {says}\(.*\)$"):
        check(verb, given)


@pytest.mark.parametrize(
    ("verb", "name", "fact"),
    [("train", "data", "dataset"), ("capture", "victim", "checkpoints"), ("table", "guesses", "target"),
     ("score", "data", "dataset"), ("score", "truth", "split"), ("score", "victim", "checkpoints")],
)  # fmt: skip
def test_a_file_is_of_its_kind_or_absent(verb: str, name: str, fact: str, tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    given = arguments(verb, tmp_path, **{name: path})
    for sound in (fact, "absent"):
        write_tensors(path, {}, {sound: "x"})
        check(verb, given)
    if name == "data":
        write_tensors(path, {}, {})
        check(verb, given)
    write_tensors(path, {}, {"other": "x"})
    with pytest.raises(UserError, match=rf"^{path}: is no .* \(give --{name} the file of one\)$"):
        check(verb, given)


def made(folder: Path) -> dict[str, Path]:
    paths = {name: folder / f"x.{name}" for name in ("safetensors", "parquet", "json", "csv", "png")}
    write_tensors(paths["safetensors"], {"x": np.arange(100.0)}, {"dataset": "x"})
    write_table(paths["parquet"], pd.DataFrame({"x": np.arange(100.0)}), {})
    write_json(paths["json"], {"x": 1})
    write_text(paths["csv"], "x\n1\n")
    paths["png"].write_bytes(b"\x89PNG")
    return paths


def test_a_file_is_damaged_by_the_check_of_its_own_kind(tmp_path: Path) -> None:
    paths = made(tmp_path)
    assert not any(map(damaged, paths.values()))
    for path in paths.values():
        path.write_bytes(path.read_bytes()[:-1])
    found = [name for name, path in paths.items() if damaged(path)]
    assert found == ["safetensors", "parquet", "json", "csv"]
    assert not damaged(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    "words",
    [["compare", "x.png", "x.csv"], ["fetch", "--spec", "x.safetensors", "--out", "y"],
     ["train", "--spec", "x.parquet", "--data", "x.safetensors", "--out", "y"],
     ["train", "--spec", "spec.json", "--data", "x.csv", "--out", "y"],
     ["attack", "--spec", "x.safetensors", "--capture", "x.safetensors", "--out", "y"]],
)  # fmt: skip
def test_a_sound_file_of_another_kind_stays_in_its_place(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    made(folder)
    write_json(folder / "spec.json", SPECS["train"])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.chdir(folder)
    assert main([*words, "--root", ".."]) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1, printed
    assert "(name a file of the right kind)" in printed
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_damaged_file_is_still_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    data = made(folder)["safetensors"]
    shutil.copy(data, tmp_path / "y.safetensors")
    data.write_bytes(data.read_bytes()[:-1])
    write_json(folder / "spec.json", SPECS["train"])
    words = ["train", "--spec", str(folder / "spec.json"), "--data", str(data), "--out", str(folder / "y")]
    assert main([*words, "--root", str(tmp_path)]) == 2
    assert "set aside as x.safetensors.damaged" in capsys.readouterr().err
    assert not data.exists()
