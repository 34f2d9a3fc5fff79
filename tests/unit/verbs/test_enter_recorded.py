"""Entries of leakbench's own defences, from the recorded table of the agreed cells."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from project import ROOT

from leakbench.entries import read_entry
from leakbench.errors import UserError
from leakbench.reference import kept_digests
from leakbench.verbs import enter as verb
from leakbench.verbs.enter import AGREED, EXPERIMENT, MINUTES, _paying, agreed, enter

SCALES = ("quick", "standard")


def row(defence: str, attack: str, mean: float, baseline: str = "") -> dict[str, Any]:
    return {
        "dataset": "mnist-32", "victim": "fcnn-relu-untrained", "federation": "grnn-matrix",
        "defence": defence, "attack": attack, "client": 0, "local_samples": 1, "baseline": baseline,
        "metric": "ssim", "mean": mean, "ci_low": mean - 0.1, "ci_high": float("nan"), "n": 10,
        "failure_rate": 0.0,
    }  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with two defences and a recorded table of them."""
    for name in (AGREED, "config/defences", "src/leakbench/defences", "src/leakbench/adaptive"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(verb, "outdated", lambda *asked: "")
    table = tmp_path / "reference" / "standard" / f"{EXPERIMENT}.csv"
    table.parent.mkdir(parents=True)
    rows = [
        row("none", "fidel", 0.95), row("clip", "fidel", 0.94), row("clip", "invg-adapted", 0.99),
        row("sign", "fidel", 0.1), row("sign", "fidel", 0.7, "dataset-mean"),
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(table, index=False)
    absent = {"mnist-32/v/f/sign/invg/0": "too long", "mnist-32/v/f/clip/peel/0": "no"}
    made = {"device": "cpu: a", "commit": "abc", "date": "2026-01-01", "specs": "1", "code": "2"}
    made |= {"versions": {"torch": "2"}, "absent": absent, "files": kept_digests(table)}
    table.with_suffix(".json").write_text(json.dumps(made))
    return tmp_path


def test_each_recorded_defence_is_an_entry_and_the_leaderboard_ranks_them(checkout: Path) -> None:
    assert enter(checkout, None, recorded=True) == 0
    assert sorted(path.name for path in (checkout / "entries").glob("*.json")) == ["clip.json", "sign.json"]
    clip = read_entry(checkout / "entries" / "clip.json", agreed(checkout))
    assert [(line.defence, line.attack, line.mean) for line in clip.lines] == [
        ("none", "fidel", 0.95), ("clip", "fidel", 0.94), ("clip", "invg-adapted", 0.99),
    ]  # fmt: skip
    assert clip.source == (ROOT / "src/leakbench/defences/clip.py").read_text()
    assert clip.settings == (ROOT / "config/defences/clip.yaml").read_text()
    assert clip.attacker == (ROOT / "src/leakbench/adaptive/clip.py").read_text()
    assert (clip.device, clip.commit, clip.absent) == ("cpu: a", "abc", {"mnist-32/v/f/clip/peel/0": "no"})
    ranks = (checkout / "entries" / "README.md").read_text().split("| [")[1:]
    # The strongest attack on clipping reads 0.99; a baseline is no attack.
    assert [rank.split("]")[0] for rank in ranks] == ["sign", "clip"]
    assert "| invg-adapted | 0.990 |" in ranks[1]


def test_what_is_not_recorded_altered_or_out_of_date_is_no_entry(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = checkout / "reference" / "standard" / f"{EXPERIMENT}.csv"
    with pytest.raises(UserError, match=r"quick/leakbench-entries\.csv: not recorded"):
        enter(checkout, None, "quick", recorded=True)
    with pytest.raises(UserError, match=r"halve\.py: --recorded makes entries of the recorded table"):
        enter(checkout, Path("halve.py"), recorded=True)
    table.write_text(table.read_text().replace("0.99", "0.09"))
    with pytest.raises(UserError, match="is not the file that was recorded"):
        enter(checkout, None, recorded=True)
    table.write_text(table.read_text().replace("0.09", "0.99"))
    monkeypatch.setattr(verb, "outdated", lambda *asked: "recorded with other settings")
    with pytest.raises(UserError, match=r"leakbench-entries\.csv: recorded with other settings"):
        enter(checkout, None, recorded=True)
    assert not list((checkout / "entries").glob("*.json"))


def test_an_entry_gets_its_agreed_cells_at_a_scale_that_cannot_pay_for_them() -> None:
    quick, standard = (yaml.safe_load((ROOT / f"config/scales/{name}.yaml").read_text()) for name in SCALES)
    paid = _paying(quick)
    assert paid["left_out"] == {}
    assert paid["budget"]["trials"] == quick["budget"]["trials"] | {5: 60 * MINUTES}
    assert paid["budget"]["total"] == MINUTES > quick["budget"]["total"]
    # What the scale itself gives is enough there.
    assert _paying(standard)["budget"] == standard["budget"]
    assert "budget" not in _paying({"summary": "The published sizes.", "order": 3})
