"""The process of an audit: what it says is heard, whatever the user's code does to it."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leakbench.audit.child import say, supervised
from leakbench.base.errors import UserError

Tell = Callable[[str], None]


def heard(work: Callable[[Tell], dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """Return the result of work in a process of its own, and the lines that it told."""
    lines: list[str] = []
    return supervised(work, lines.append, "app.py:client", 60, 16), lines


def test_code_that_replaces_json_is_heard() -> None:
    def work(tell: Tell) -> dict[str, Any]:
        json.dumps = lambda *given, **named: "x"
        tell("3 × 3")
        return {"found": 1}

    assert heard(work) == ({"found": 1}, ["3 × 3"])


@pytest.mark.parametrize("data", [b"hello\n", b"hello", b'{"result": 3}\n', b"[]\n", b"\xff\n"])
def test_code_that_writes_to_every_descriptor_is_one_line(data: bytes) -> None:
    ours = {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}

    def work(tell: Tell) -> dict[str, Any]:
        for each in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                # Those of before are this test's own.
                if os.readlink(each) not in ours:
                    os.write(int(each.name), data)
        return {}

    with pytest.raises(UserError, match=r"^app\.py:client: wrote into the pipe"):
        heard(work)


@pytest.mark.parametrize("problem", ["rounds: none", "rounds/round-1: altered"])
def test_what_is_wrong_with_a_file_names_it_once(problem: str) -> None:
    def work(tell: Tell) -> dict[str, Any]:
        raise UserError(problem)

    with pytest.raises(UserError) as refused:
        supervised(work, print, "rounds", 60, 16)
    assert str(refused.value) == problem


def test_a_line_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    say("batch × 2")
    sys.stdout.flush()
    assert raw.getvalue() == b"batch \\xd7 2\n"


def test_no_line_of_the_code_commands_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    def work(tell: Tell) -> dict[str, Any]:
        os.write(1, b"leakbench attack: \x1b]0;owned\x07\n")
        return {}

    supervised(work, say, "app.py:client", 60, 16)
    assert capsys.readouterr().out == "note: \\x1b]0;owned\\x07\n"


def test_a_message_without_a_result_is_one_line() -> None:
    """The code finds the mark of the pipe on the stack, and forges a message with it."""

    def work(tell: Tell) -> dict[str, Any]:
        frame = sys._getframe()
        while "say" not in frame.f_locals or "writing" not in frame.f_locals:
            frame = frame.f_back  # type: ignore[assignment]
        frame.f_locals["say"]({"forged": 1})
        return {}

    with pytest.raises(UserError, match=r"^app\.py:client: wrote into the pipe"):
        heard(work)


def test_a_closed_output_is_nowhere() -> None:
    """Else the pipe to the process would be the standard output of its code."""
    code = (
        "from leakbench.audit.child import say, supervised\n"
        "import sys\n"
        "def work(tell):\n"
        "    tell('heard')\n"
        "    print('not heard', flush=True)\n"
        "    return {'found': 1}\n"
        "found = supervised(work, say, 'app', 60, 16)\n"
        "sys.stdout.flush()\n"
        "sys.exit(40 + found['found'])\n"
    )
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], check=False)
    assert done.returncode == 41
