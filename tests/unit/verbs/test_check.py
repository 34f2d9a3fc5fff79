"""dvc.lock: what lies here is held to it, and a file that is none of DVC's is one line."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from leakbench.base.artefacts import read_csv, write_listed, write_tensors
from leakbench.base.errors import Altered, UserError
from leakbench.jobs.check import check

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
