"""A file is whole or not there, and is read whole once a run."""

import os
import tempfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from leakbench.base.artefacts import write_tensors, write_text
from leakbench.base.errors import Altered
from leakbench.base.processes import process
from leakbench.base.whole import replacing, set_aside, whole

module = import_module("leakbench.base.whole")


def test_what_a_killed_writer_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in (".out[1].csv.abc.part", ".out1.csv.abc.part", ".other.csv.abc.part", "out[1].csv.part"):
        (tmp_path / name).write_text("")
    write_text(tmp_path / "out[1].csv", "x\n")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"out[1].csv", ".out1.csv.abc.part", ".other.csv.abc.part", "out[1].csv.part"}


def test_files_have_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "x", "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_a_writer_that_removes_its_file_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "x") as temporary:
        temporary.unlink()
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    with replacing(tmp_path / "x") as first:
        with replacing(tmp_path / "x") as second:
            second.write_text("second")
        assert first.exists()
        first.write_text("first")
    assert (tmp_path / "x").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_run_reads_a_file_whole_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"x": np.arange(9.0)}, {})
    read: list[Path] = []
    digests = module._digests
    monkeypatch.setattr(
        module, "_digests", lambda path, suffix: (read.append(path), digests(path, suffix))[1]
    )
    whole(path)
    whole(path)
    assert read == [path, path]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(process.OWNER, str(os.getpid()))
    for name in process._CONTAINERS:
        monkeypatch.delenv(name, raising=False)
    digest = whole(path)
    assert whole(path) == digest
    assert len(read) == 3
    data = path.read_bytes()
    times = path.stat()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(Altered):
        whole(path)


def test_only_a_file_of_the_checkout_is_set_aside(tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    inside, outside = root / "results" / "x", tmp_path / "x"
    for number in ("", "1"):
        write_text(inside, "damaged" + number)
        assert f"x.damaged{number}:" in set_aside(inside, root)
        assert not inside.exists()
        assert inside.with_name(f"x.damaged{number}").read_text() == "damaged" + number
    write_text(outside, "x")
    write_text(root / "papers" / "x", "x")
    for path in (outside, root / "papers" / "x", root / "results" / ".." / "papers" / "x", inside):
        assert set_aside(path, root) == ""
    assert outside.exists()
