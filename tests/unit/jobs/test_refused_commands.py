"""Command lines that are refused: one line, exit code 2, nothing run and nothing written (refused.yaml)."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from nightly import daily
from project import ROOT

from leakbench.jobs.cli import main

TABLE = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())
# What stands for words that are too long, and for this checkout.
LONG = {"LONG": 300 * "a", "DIGITS": 5000 * "9", "ROOT": str(ROOT)}


def written(word: str) -> str:
    for short, long in LONG.items():
        word = word.replace(short, long)
    return word


# What takes a process of its own, as an audit does, is tried once by day.
CASES = [case for case in TABLE["cases"] if not case.get("nightly")]


@pytest.mark.parametrize("case", daily(TABLE["cases"], CASES), ids=lambda case: " ".join(case["words"])[:60])
def test_a_command_line_is_refused_in_one_line(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (TABLE["files"] | case.get("files", {})).items():
        Path(name).write_text(text)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    try:
        code = main([*map(written, case["words"])])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    (line,) = printed.err.splitlines()
    assert line.startswith(case.get("whole", "leakbench" if case["words"] else ""))
    assert case.get("says", "") in line
    # The audited code does not run, and nobody is told to delete a file of their own.
    assert "ValueError" not in line
    assert case["words"][:1] != ["audit"] or "delete" not in line
    assert {path: path.read_bytes() for path in tmp_path.rglob("*")} == before
