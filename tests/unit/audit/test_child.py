"""The process of an audit: what it says is heard, whatever the user's code does to it."""

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leakbench.audit.child import Tell, say, supervised
from leakbench.base.errors import UserError


def heard(work: str, *given: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the result of a function of this file in a process of its own, and the lines that it told."""
    lines: list[str] = []
    found = supervised(f"test_child:{work}", list(given), lines.append, "app.py:client", 60, 16)
    return found, lines


def replaces_json(tell: Tell) -> dict[str, Any]:
    json.dumps = lambda *given, **named: "x"
    tell("3 × 3")
    return {"found": 1}


def test_code_that_replaces_json_is_heard() -> None:
    assert heard("replaces_json") == ({"found": 1}, ["3 × 3"])


def writes(data: str, tell: Tell) -> dict[str, Any]:
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            os.write(int(each.name), data.encode("latin-1"))
    return {}


def forges(tell: Tell) -> dict[str, Any]:
    """Find the mark of the pipe on the stack, and send a message with it."""
    frame = sys._getframe()
    while "say" not in frame.f_locals or "writing" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]
    frame.f_locals["say"]({"forged": 1})
    return {}


@pytest.mark.parametrize(
    ("work", "given"),
    [
        *(("writes", each) for each in ("hello\n", "hello", '{"result": 3}\n', "[]\n", "\xff\n")),
        ("forges", None),
    ],
)
def test_code_that_writes_into_the_pipe_is_one_line(work: str, given: str | None) -> None:
    with pytest.raises(UserError, match=r"^app\.py:client: wrote into the pipe"):
        heard(work, *([given] if given else []))


def fails(problem: str, tell: Tell) -> dict[str, Any]:
    raise UserError(problem)


@pytest.mark.parametrize("problem", ["rounds: none", "rounds/round-1: altered"])
def test_what_is_wrong_with_a_file_names_it_once(problem: str) -> None:
    with pytest.raises(UserError) as refused:
        supervised("test_child:fails", [problem], print, "rounds", 60, 16)
    assert str(refused.value) == problem


def test_a_line_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    say("batch × 2")
    sys.stdout.flush()
    assert raw.getvalue() == b"batch \\xd7 2\n"


def prints(tell: Tell) -> dict[str, Any]:
    os.write(1, b"leakbench attack: \x1b]0;owned\x07\n")
    return {}


def test_no_line_of_the_code_commands_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    supervised("test_child:prints", [], say, "app.py:client", 60, 16)
    assert capsys.readouterr().out == "note: \\x1b]0;owned\\x07\n"


def chatters(tell: Tell) -> dict[str, Any]:
    tell("heard")
    print("not heard", flush=True)
    return {"found": 1}


def test_a_closed_output_is_nowhere() -> None:
    """Else the pipe to the process would be the standard output of its code."""
    code = (
        "from leakbench.audit.child import say, supervised\n"
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "found = supervised('test_child:chatters', [], say, 'app', 60, 16)\n"
        "sys.exit(40 + found['found'])\n"
    )
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], check=False)
    assert done.returncode == 41
