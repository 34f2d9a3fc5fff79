"""dvc.lock: what lies here is held to it, and a file that is none of DVC's is one line."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from leakbench.base.errors import UserError
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
