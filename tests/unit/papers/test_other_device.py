"""A record stays the evidence where its experiment ran again on another device."""

from pathlib import Path

import pytest
from tests_world import TRUE, evidence, lines, paper

from leakbench.jobs.scorecard import _without_other_devices
from leakbench.papers.reference import Kept
from leakbench.papers.scorecard.recorded import of_records
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import read_papers

NAME = "tiny-table-1"


def _kept(folder: Path, device: str, seeds: str = "0", scale: str = "quick") -> Kept:
    table = lines(NAME, TRUE)
    place = folder / scale / f"{NAME}.csv"
    place.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "device": device, "commit": "abc", "date": "2026-01-01", "absent": {}, "shares": {}, "falls": {},
    }  # fmt: skip
    return Kept(place, table.frame.assign(seeds=seeds), record)


def _run(device: str) -> object:
    table = lines(NAME, {place: values + 5 for place, values in TRUE.items()})
    table.frame["seeds"] = "0"
    return evidence({NAME: table}, device=device)


def test_a_run_on_another_device_is_shown_beside_the_record_and_decides_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, kept = _run("cpu: mine"), _kept(tmp_path, "cpu: theirs")
    ran = _without_other_devices(run, [kept])
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert f"{NAME}: recorded at scale quick on cpu: theirs, and this run is on cpu: mine" in said
    found = Card(read_papers(paper(tmp_path)), [ran, of_records([kept])], run).frame().set_index("id")
    row = found.loc["tiny.table-1.1"]
    assert row["device"] == "cpu: theirs"
    assert row["measured"] == pytest.approx(TRUE["digits", "fast", "psnr"].mean())
    assert row["here"] == pytest.approx(TRUE["digits", "fast", "psnr"].mean() + 5)


def test_the_first_device_of_a_record_is_that_of_its_attacks(tmp_path: Path) -> None:
    here, gpu = "cpu: mine", "NVIDIA H100"
    for device, recorded in ((here, here), (gpu, f"{gpu}, {here}"), (here, f"{gpu}, {here}"), (gpu, here)):
        left = _without_other_devices(_run(device), [_kept(tmp_path, recorded)])
        assert (NAME in left.lines) == recorded.startswith(device), (device, recorded)


def test_a_record_of_another_scale_or_of_other_seeds_is_another_experiment(tmp_path: Path) -> None:
    others = [_kept(tmp_path, "cpu: theirs", seeds="1"), _kept(tmp_path, "cpu: theirs", scale="standard")]
    assert NAME in _without_other_devices(_run("cpu: mine"), others).lines
