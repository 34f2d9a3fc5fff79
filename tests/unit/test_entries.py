"""Entry files of the leaderboard: read strictly, ranked by the strongest attack."""

import json
from pathlib import Path
from typing import Any

import pytest

from leakbench.artefacts import write_json
from leakbench.entries import Entry, Line, board, lines_of, read_entry, strongest
from leakbench.errors import Altered, UserError

AGREED = "a" * 64


def line(defence: str, attack: str, mean: float, metric: str = "ssim", victim: str = "dense") -> Line:
    return Line(
        dataset="mnist", victim=victim, defence=defence, attack=attack, client=0, local_samples=1,
        metric=metric, mean=mean, ci_low=mean - 0.1, ci_high=None, n=10, failure_rate=0.0,
    )  # fmt: skip


def made(name: str = "halve", worst: float = 0.9, **changes: Any) -> Entry:
    lines = [line(name, "fidel", worst), line(name, "invg", 0.2), line(name, "invg", 0.99, "identified"),
             line("none", "fidel", 0.95), line("none", "invg", 0.3)]  # fmt: skip
    values: dict[str, Any] = {
        "version": 1, "name": name, "summary": "Halves.", "source": "", "settings": "", "attacker": "",
        "ensemble": AGREED, "scale": "standard", "device": "cpu", "commit": "", "versions": {},
        "lines": lines, "absent": {},
    }  # fmt: skip
    return Entry(**values | changes)


def saved(path: Path, entry: Entry) -> None:
    write_json(path, entry.model_dump(mode="json"))


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    saved(tmp_path / "halve.json", made())
    assert read_entry(tmp_path / "halve.json", AGREED) == made()


def test_an_altered_number_is_no_evidence(tmp_path: Path) -> None:
    path = tmp_path / "halve.json"
    saved(path, made())
    path.write_text(path.read_text().replace("0.95", "0.05"))
    with pytest.raises(Altered, match=r"halve\.json: .* as written \(enter the defence again"):
        read_entry(path, AGREED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version: is 2 and must be 1"),
        ({"name": "other"}, "name: is 'other' and must be the file's"),
        ({"ensemble": "b" * 64}, "other attacks were agreed on since"),
        ({"lines": []}, "lines: must have ssim of 'halve' and of 'none'"),
        ({"source": None}, "source"),
        ({"extra": 1}, "extra"),
    ],
)
def test_an_entry_of_another_form_is_one_line(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "halve.json"
    write_json(path, made().model_dump(mode="json") | change)
    with pytest.raises(UserError) as caught:
        read_entry(path, AGREED)
    assert str(caught.value).startswith(f"{path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_entry_that_misses_a_victim_is_incomplete(tmp_path: Path) -> None:
    path = tmp_path / "halve.json"
    saved(path, made(lines=[*made().lines, line("none", "dlg", 0.5, victim="lenet")]))
    with pytest.raises(UserError, match="on each victim"):
        read_entry(path, AGREED)


def test_a_victim_without_the_number_that_ranks_is_incomplete(tmp_path: Path) -> None:
    others = [line(defence, "dlg", 0.5, "psnr", "lenet") for defence in ("halve", "none")]
    saved(tmp_path / "halve.json", made(lines=[*made().lines, *others]))
    with pytest.raises(UserError, match="must have ssim of 'halve' and of 'none' on each victim"):
        read_entry(tmp_path / "halve.json", AGREED)


def test_a_strangers_text_stays_in_its_cell() -> None:
    text = board([made(summary="One | two\n<script>three</script>")])
    assert "halve.json): One \\| two &lt;script&gt;three&lt;/script&gt; |" in text
    assert len(text.splitlines()) == 3


def test_a_file_without_a_digest_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "halve.json"
    path.write_text(json.dumps(made().model_dump(mode="json")))
    with pytest.raises(UserError, match="no digest of its own"):
        read_entry(path, AGREED)
    path.write_text(" " * 1_000_001)
    with pytest.raises(UserError, match="larger than 1000000 bytes"):
        read_entry(path, AGREED)
    with pytest.raises(UserError, match="no such"):
        read_entry(tmp_path / "none.json", AGREED)


def test_a_defence_is_ranked_by_the_attack_that_reads_most() -> None:
    assert [each.attack for each in strongest(made(worst=0.1), "halve")] == ["invg"]
    text = board([made("weak", 0.9), made("strong", 0.1, attacker="def strong(): ...")])
    rows = text.splitlines()[2:]
    assert [row.split("[")[1].split("]")[0] for row in rows] == ["strong", "weak"]
    assert "its own" in rows[0]
    assert "none was written" in rows[1]
    assert "| 0.900 | none (too few updates) | 10 | fidel 0.950 |" in rows[1]


def test_baselines_and_cells_without_a_number_are_no_lines() -> None:
    nan = float("nan")
    row = {"dataset": "mnist", "victim": "dense", "defence": "none", "attack": "fidel", "metric": "ssim",
           "client": 0, "local_samples": 1,
           "mean": 0.5, "ci_low": nan, "ci_high": nan, "n": 2, "failure_rate": 0.5, "baseline": "",
           "std": 0.1}  # fmt: skip
    found = lines_of([row, row | {"baseline": "random-noise"}, row | {"mean": nan}])
    assert [(each.mean, each.ci_low, each.n) for each in found] == [(0.5, None, 2)]
