"""What an audit is asked is checked before its budget is spent."""

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from leakbench.audit.page import write
from leakbench.base.errors import UserError
from leakbench.jobs import audit as verb
from leakbench.jobs.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text("def client():\n    raise ValueError('ran')\n")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line with which an audit is refused, before its code runs."""
    assert main(["audit", *words]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "ran" not in line
    return line


@pytest.mark.parametrize("out", ["app.py", "app.py/below", "a" * 256, "with-a-folder"])
def test_a_report_that_cannot_be_written_is_told_first(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("with-a-folder/report.html").mkdir(parents=True)
    before = sorted(Path().rglob("*"))
    assert f"audit: {out}" in refused(capsys, "app.py:client", "--out", out)
    assert sorted(Path().rglob("*")) == before
    with pytest.raises(UserError, match="cannot hold the report"):
        write(Path(out), *_nothing().values())


def _nothing() -> dict[str, Any]:
    from leakbench.audit.predictions import Look
    from leakbench.audit.report import Audit

    empty = Audit(1, {}, Look())
    return {"audit": empty.to_dict(), "shown": empty.shown()}


def test_a_probe_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "app.py:client", "--out", "new/below", "--budget", "1s"]) == 2
    assert "ValueError: ran" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["app.py"]


def test_the_demo_is_a_flag_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("demo").mkdir()
    asked: list[Any] = []
    monkeypatch.setattr(verb, "supervised", lambda work, given, *_: asked.append(given) or _nothing())
    assert main(["audit", "demo", "--lr", "0.5"]) == main(["audit", "--demo"]) == 0
    found = [(name, options["demo"], options["lr"]) for name, options in asked]
    assert found == [("demo", False, 0.5), ("--demo", True, 0.01)]


def test_no_character_ends_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def supervised(work: Any, given: Any, tell: Any, *more: Any) -> dict[str, Any]:
        tell("batch × 2")
        return _nothing()

    raw = io.BytesIO()
    monkeypatch.setattr(verb, "supervised", supervised)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["audit", "app.py:client", "--out", "ü"]) == 0
    assert raw.getvalue().splitlines()[:2] == [b"batch \\xd7 2", b"report: \\xfc/report.html"]
    assert Path("ü/report.html").is_file()


@pytest.mark.parametrize(
    ("more", "code"),
    [([], 0), (["--fail-if", "exposed > 0"], 3), (["--fail-if", "exposed > 0", "--allow-unmeasured"], 0)],
)
def test_a_gate_without_a_result_fails(more: list[str], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "supervised", lambda *_: _nothing())
    assert main(["audit", "app.py:client", *more]) == code
