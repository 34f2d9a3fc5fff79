"""A refusal is one line that a terminal shows as it is, whatever a stranger's file put into it."""

import errno
from pathlib import Path

import pytest

from leakbench.base.errors import Altered, UserError, raise_if_unwritable, raise_unless_file


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a.pickle: the encoding \vltin1", "a.pickle: the encoding ltin1"),
        ("first\n  second\r\nthird", "first second third"),
        ("\x1b[31mred\a\0", r"\x1b[31mred\x07\x00"),
        ("a\u2028b \u202e \udcff", r"a b \u202e \udcff"),
        ("ü 'q' €  two spaces", "ü 'q' €  two spaces"),
    ],
)
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
