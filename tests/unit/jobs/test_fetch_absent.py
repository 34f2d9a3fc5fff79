"""A data set that no source has is said on the screen, and not only in the log of its job."""

import json
from pathlib import Path

import pytest

from leakbench.jobs.cli import main
from leakbench.jobs.fetch import fetch

SPEC = {
    "name": "shapes", "module": "orl", "shape": [28, 28, 1], "classes": 2, "counts": {}, "sha256": {},
    "sources": [{
        "folders": ["shapes"], "holding": [], "put": "files in shapes", "torchvision": [], "package": "",
        "drawn": "",
    }],
    "local": False, "parameters": {}, "scaled": False,
}  # fmt: skip


def test_an_absent_data_set_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    spec, out = tmp_path / "shapes.json", tmp_path / "shapes.safetensors"
    spec.write_text(json.dumps(SPEC))
    fetch(spec, out, None, tmp_path / "scratch", optional=True)
    said = capsys.readouterr().out
    assert said.startswith(f"{out}: absent, so its cells do not run: shapes: no source has it")
    assert "put files in shapes into a directory of LEAKBENCH_DATA" in said
    # Who asks for this one set gets an exit code.
    assert main(["fetch", "--spec", str(spec), "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"leakbench fetch: {out}: absent: shapes: no source has it")
    assert told.count("\n") == 1
