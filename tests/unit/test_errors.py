"""A refusal is one line that a terminal shows as it is, whatever a stranger's file put into it."""

from pathlib import Path

import pytest

from leakbench.errors import Altered, UserError


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
