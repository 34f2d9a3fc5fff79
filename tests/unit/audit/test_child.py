"""The process of an audit is heard, whatever its code does; conditions that fail a build."""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leakbench.audit.child import Tell, bounded, say, seconds_of, supervised
from leakbench.base.errors import UserError
from leakbench.jobs.audit import check, gigabytes, met


def heard(work: str, *given: Any) -> dict[str, Any]:
    """Return the result of a function of this file in a process of its own."""
    return supervised(f"test_child:{work}", list(given), lambda line: None, "app.py:client", 60, 16)


def writes(data: str, tell: Tell, keep: Any) -> dict[str, Any]:
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            os.write(int(each.name), data.encode("latin-1"))
    return {}


def forges(tell: Tell, keep: Any) -> dict[str, Any]:
    """Find the mark of the pipe on the stack, and send a message with it."""
    frame = sys._getframe()
    while "say" not in frame.f_locals or "writing" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]
    frame.f_locals["say"]({"forged": 1})
    return {}


LINES = ("hello\n", "hello", '{"result": 3}\n', "[]\n", "\xff\n")


@pytest.mark.parametrize(("work", "given"), [*(("writes", [each]) for each in LINES), ("forges", [])])
def test_code_that_writes_into_the_pipe_is_one_line(work: str, given: list[str]) -> None:
    with pytest.raises(UserError, match=r"^app\.py:client: wrote into the pipe"):
        heard(work, *given)


def fails(problem: str, tell: Tell, keep: Any) -> dict[str, Any]:
    raise UserError(problem)


@pytest.mark.parametrize("problem", ["rounds: none", "rounds/round-1: altered"])
def test_what_is_wrong_with_a_file_names_it_once(problem: str) -> None:
    with pytest.raises(UserError) as refused:
        supervised("test_child:fails", [problem], print, "rounds", 60, 16)
    assert str(refused.value) == problem


def ends(how: str, tell: Tell, keep: Any) -> dict[str, Any]:
    keep({"found": 1})
    keep({"found": 2})
    if how == "dies":
        os._exit(0)
    if how == "raises":
        raise UserError("the scores are not finite")
    grown = []
    while how == "grows":
        grown.append(bytearray(os.urandom(1 << 20)) * 100)
    tell("all that is known")
    time.sleep(60)
    return {}


def grows(tell: Tell, keep: Any) -> dict[str, Any]:
    import torch

    from leakbench.audit.network import reason

    bounded(0.0)
    try:
        torch.ones(1 << 30)
    except RuntimeError as problem:
        return {"why": reason(problem)}
    return {}


def test_an_attack_that_needs_more_memory_than_is_left_ends_alone() -> None:
    assert heard("grows") == {"why": "it needs more memory than is left (raise --memory)"}


def stops(line: str) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("how", "why"), [
    ("dies", "its process ended without a result"),
    ("raises", "the scores are not finite"),
    ("grows", r"used 1\.\d GB, more than 1 GB \(raise --memory\)"),
    ("waits", "stopped by the keyboard"),
])  # fmt: skip
def test_what_was_known_when_a_run_ended_is_kept(how: str, why: str) -> None:
    found = supervised("test_child:ends", [how], stops, "app.py:client", 60, 1)
    assert re.fullmatch(why, found.pop("ended"))
    assert found == {"found": 2}


def prints(tell: Tell, keep: Any) -> dict[str, Any]:
    json.dumps = lambda *given, **named: "x"
    tell("3 × 3")
    os.write(1, b"leakbench attack: \x1b]0;owned\x07\n")
    return {"found": 1}


def test_code_that_replaces_json_is_heard_and_harms_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert supervised("test_child:prints", [], say, "app.py:client", 60, 16) == {"found": 1}
    said = "3 × 3\nnote: \\x1b]0;owned\\x07\nnote: app.py:client and the audit used at most "
    assert capsys.readouterr().out.startswith(said)


def chatters(tell: Tell, keep: Any) -> dict[str, Any]:
    tell("heard")
    print("not heard", flush=True)
    return {"found": 1}


def test_a_closed_output_is_nowhere() -> None:
    """Else the pipe to the process would be the standard output of its code."""
    code = (
        "import sys\nfrom leakbench.audit.child import say, supervised\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "sys.exit(40 + supervised('test_child:chatters', [], say, 'app', 60, 16)['found'])\n"
    )
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], check=False)
    assert done.returncode == 41


AUDIT = {
    "found": [
        {"attacker": "A", "levels": [1, 0, 0]},
        {"attacker": "B", "levels": [0, 2, 3]},
        {"attacker": "C", "levels": [0, 0, 0]},
    ]
}


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("exposed > 0 at A..D", True), ("exposed > 0", True), ("exposed > 0 at A", False),
        ("exposed > 2 at A..D", False), ("recognisable == 3 at A..B", True), ("labelled >= 1 at B", True),
        ("labelled >= 2 at B", False), ("exposed <= 0 at C..D", False), ("recognisable<1", False),
        # D's own attacks read nothing here, and D can run those of B.
        ("exposed > 0 at D", True), ("exposed == 2 at B..C", True),
        # No conditions.
        ("", None), ("exposed", None), (f"exposed > {'9' * 5000}", None), ("exposed > x", None),
        ("leaked > 0", None), ("leaks", None), ("exposed > 0 at Z", None), ("1 > 0", None),
        ("exposed > 0 at E..H", None),
    ],
)  # fmt: skip
def test_conditions_compare_the_best_level_of_each_record(condition: str, holds: bool | None) -> None:
    if holds is None:
        with pytest.raises(UserError, match="no condition"):
            check(condition)
    else:
        assert met(condition, AUDIT) is holds


def test_durations_and_sizes() -> None:
    assert [seconds_of(each) for each in ("90", "90s", "2m", "1.5h", 3)] == [90, 90, 120, 5400, 3]
    assert [gigabytes(each) for each in ("4g", "512m")] == [4, 0.5]
    for wrong in ("", "m", "-3s", "0", "2 minutes", "9" * 400):
        with pytest.raises(UserError, match="budget"):
            seconds_of(wrong)
