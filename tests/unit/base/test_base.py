"""Files, YAML, pixels, progress, names of cells and refusals as every room has them."""

import errno
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from leakbench.base import progress
from leakbench.base.artefacts import write_tensors, write_text
from leakbench.base.cellname import CELL, cell_name, of_lines
from leakbench.base.errors import Altered, UserError, raise_if_unwritable, raise_unless_file
from leakbench.base.pixels import pixels
from leakbench.base.processes import process
from leakbench.base.provenance import provenance
from leakbench.base.whole import replacing, set_aside, whole
from leakbench.base.yamls import Strict, read_yaml, validated

module = import_module("leakbench.base.whole")


def test_what_a_killed_writer_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in (".out[1].csv.abc.part", ".out1.csv.abc.part", ".other.csv.abc.part", "out[1].csv.part"):
        (tmp_path / name).write_text("")
    write_text(tmp_path / "out[1].csv", "x\n")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"out[1].csv", ".out1.csv.abc.part", ".other.csv.abc.part", "out[1].csv.part"}


def test_files_have_the_usual_permissions_and_a_writer_that_removes_its_own_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "x") as temporary:
        temporary.unlink()
    assert list(tmp_path.iterdir()) == []
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "x", "x")
    finally:
        os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640


def test_two_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    with replacing(tmp_path / "x") as first:
        with replacing(tmp_path / "x") as second:
            second.write_text("second")
        assert first.exists()
        first.write_text("first")
    assert (tmp_path / "x").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_run_reads_a_file_once_unless_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"x": np.arange(9.0)}, {})
    read: list[Path] = []
    digests = module._digests
    monkeypatch.setattr(module, "_digests", lambda *given: (read.append(given[0]), digests(*given))[1])
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


def read(folder: Path, text: str) -> dict[str, Any]:
    (folder / "x.yaml").write_text(text)
    return read_yaml(folder / "x.yaml")


NUMBERS = ("1e-4", "1E-4", "+1e-4", "0.1e-3", "1.e-4", ".1e-3", "1.0e-4", "0.0001")
WORDS = ("1e", "e4", "1e-4x", "1e-4-1", "gaussian-1e-4", "'1e-4'", '"1e-4"')


@pytest.mark.parametrize("text", [*NUMBERS, *WORDS])
def test_a_number_with_an_exponent_is_a_number_and_a_lookalike_a_word(text: str, tmp_path: Path) -> None:
    value = 1e-4 if text in NUMBERS else text.strip("'\"")
    found = read(tmp_path, f"x: {text}\ny: [{text}]\n")
    assert found == {"x": value, "y": [value]}
    assert type(found["x"]) is type(value)


def test_a_key_is_kept_as_it_is_written(tmp_path: Path) -> None:
    """Keys are names, such as those of variants."""
    value = read(tmp_path, "variants: {1e-2: {scale: 1e-2}, 1.50: {}, 5: {}}\n")
    assert value == {"variants": {"1e-2": {"scale": 0.01}, "1.50": {}, 5: {}}}


@pytest.mark.parametrize("text", ["x: &a [*a]\n", "x: &a {b: [{c: *a}]}\n"])
def test_a_value_within_itself_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.yaml: not YAML text: &a is within itself \(mend the file\)$"):
        read(tmp_path, text)
    assert read(tmp_path, "x: &a [1]\ny: *a\nz: [*a]\n") == {"x": [1], "y": [1], "z": [[1]]}


class Inner(Strict):
    total: int
    trials: int


class Outer(Strict):
    budget: Inner


@pytest.mark.parametrize(
    ("value", "says"),
    [({"budget": {"totl": 1, "trials": 1}}, r"budget\.totl: there is no .* \(did you mean 'total'\?\)"),
     ({"budget": {"zzz": 1, "trials": 1}}, r"budget\.total: Field required \(see a\.md\)"),
     ({"budgt": {"total": 1, "trials": 1}}, r"budgt: there is no such key.* \(did you mean 'budget'\?\)")],
)  # fmt: skip
def test_a_misspelt_key_is_named_with_the_nearest(value: Any, says: str) -> None:
    with pytest.raises(UserError, match=f"^x: {says}$"):
        validated(Outer, value, "x: ", "a.md")


@pytest.mark.parametrize("lead", [(), (2,), (2, 4)])
def test_channels_move_before_rows_and_levels_become_shares(lead: tuple[int, ...]) -> None:
    """A convolution's last bits depend on the numbers and on their order in memory."""
    stored = np.random.default_rng(0).integers(0, 256, (*lead, 5, 6, 3), dtype=np.uint8)
    stored[..., 2, 3, :] = (255, 0, 51)
    found = pixels(torch.from_numpy(stored))
    assert (found.shape, found.dtype) == ((*lead, 3, 5, 6), torch.float32)
    assert found[..., 2, 3].reshape(-1, 3)[0].tolist() == [1, 0, np.float32(0.2)]
    plain = torch.from_numpy(stored).movedim(-1, -3).float() / 255
    assert torch.equal(found, plain)
    assert found.stride() == plain.stride()
    assert np.array_equal(found.numpy(), pixels(stored))
    assert pixels(stored).dtype == np.float32


@pytest.mark.parametrize(
    ("text", "line"),
    [("a.pickle: the encoding \vltin1", "a.pickle: the encoding ltin1"),
     ("first\n  second\r\nthird", "first second third"), ("\x1b[31mred\a\0", r"\x1b[31mred\x07\x00"),
     ("a\u2028b \u202e \udcff", r"a b \u202e \udcff"), ("ü 'q' €  two spaces", "ü 'q' €  two spaces")],
)  # fmt: skip
def test_what_a_file_put_into_a_message_is_written_out(text: str, line: str) -> None:
    assert str(UserError(text)) == line
    assert str(Altered(Path("x"), text, "mend")) == f"x: {line} (mend)"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_a_folder_that_is_closed_is_no_fault_of_ours(number: int) -> None:
    """Linux says EPERM below /sys, and for files that are immutable."""
    with pytest.raises(UserError, match=r"^x: .*(permitted|denied) .*\(get the right to read and"):
        raise_if_unwritable(OSError(number, "no"), Path("x"))


@pytest.mark.parametrize(("what", "words"), [("entry", "an entry"), ("spec", "a spec")])
def test_a_folder_in_place_of_a_file_is_named(what: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^{tmp_path}: not a regular file \(put {words} in its place\)$"):
        raise_unless_file(tmp_path, what)


def test_what_made_a_result_names_the_instructions_that_torch_uses() -> None:
    told = provenance({})["versions"]["instructions"].split()
    used = torch.backends.cpu.get_cpu_capability().lower()
    assert told
    assert not used.startswith("avx") or any(name.startswith(used) for name in told)


def test_a_log_has_the_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter(range(0, 10_000, 4))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    assert [item for item, _ in progress.track(range(4), "epoch")] == [0, 1, 2, 3]
    lines = capsys.readouterr().err.splitlines()
    assert lines
    for line in lines:
        done, _, left = line.removeprefix("epoch: ").partition(" of 4, about ")
        assert float(left.removesuffix(" s left")) > 0
        assert 0 < int(done) < 4


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_cells_of_lines_are_those_of_each_line(count: int) -> None:
    table = pd.DataFrame({name: [f"{name}-{n}" for n in range(count)] for name in CELL} | {"mean": 0.5})
    assert of_lines(table).tolist() == [cell_name(row) for row in table.to_dict("records")]
