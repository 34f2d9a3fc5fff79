"""Entries of leakbench's own defences, from the recorded table of the agreed cells."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from project import ROOT

from leakbench.base.artefacts import write_json
from leakbench.base.errors import UserError
from leakbench.catalogue.resolve import plan
from leakbench.jobs import enter as verb
from leakbench.jobs.enter import AGREED, EXPERIMENT, MINUTES, _paying, agreed, enter
from leakbench.papers.leaderboard import read_entry
from leakbench.papers.reference import kept_digests

SCALES = ("quick", "standard")
DENSE, DEEP = ("mnist-32", "fcnn-relu-untrained"), ("cifar10", "lenet-dlg-running-norm")
ON = {DENSE: ("fidel", "peel", "invg", "invg-adapted"), DEEP: ("dlg", "dlg-adapted", "invg", "invg-adapted")}
PEELED = "mnist-32/fcnn-relu-untrained/grnn-matrix/clip/peel/0"


def row(defence: str, attack: str, mean: float, baseline: str = "", place: Any = DENSE) -> dict[str, Any]:
    return {
        "dataset": place[0], "victim": place[1], "federation": "grnn-matrix",
        "defence": defence, "attack": attack, "client": 0, "local_samples": 1, "baseline": baseline,
        "metric": "ssim", "mean": mean, "ci_low": mean - 0.1, "ci_high": float("nan"), "n": 10,
        "failure_rate": 0.0,
    }  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with two defences and a recorded table of them."""
    config = ("config/attacks", "config/defences", "config/scales")
    for name in (AGREED, *config, "src/leakbench/defences", "src/leakbench/attacks/adaptive"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(verb, "outdated", lambda *asked: "")
    table = tmp_path / "reference" / "standard" / f"{EXPERIMENT}.csv"
    table.parent.mkdir(parents=True)
    means = {("none", "fidel"): 0.95, ("clip", "fidel"): 0.94, ("clip", "invg-adapted"): 0.99}
    rows = [
        row(defence, attack, means.get((defence, attack), 0.05), place=place)
        for defence in ("none", "clip", "sign")
        for place, attacks in ON.items()
        for attack in attacks
        if not (defence == "none" and "adapted" in attack) and (defence, attack) != ("clip", "peel")
    ]
    pd.DataFrame([*rows, row("sign", "fidel", 0.7, "dataset-mean")]).to_csv(table, index=False)
    absent = {PEELED: "no", "mnist-32/fcnn-relu-untrained/grnn-matrix/none/invg-adapted/0": "idle"}
    made = {"device": "cpu: a", "commit": "abc", "date": "2026-01-01", "specs": "1"}
    made |= {"versions": {"torch": "2"}, "absent": absent, "files": kept_digests(table)}
    table.with_suffix(".json").write_text(json.dumps(made))
    return tmp_path


def test_each_recorded_defence_is_an_entry_and_the_leaderboard_ranks_them(checkout: Path) -> None:
    assert enter(checkout, None, recorded=True) == 0
    assert sorted(path.name for path in (checkout / "entries").glob("*.json")) == ["clip.json", "sign.json"]
    clip = read_entry(checkout / "entries" / "clip.json", agreed(checkout))
    assert len(clip.lines) == 5 + 7
    assert {(line.defence, line.attack, line.mean) for line in clip.lines if line.mean > 0.05} == {
        ("none", "fidel", 0.95), ("clip", "fidel", 0.94), ("clip", "invg-adapted", 0.99),
    }  # fmt: skip
    assert clip.source == (ROOT / "src/leakbench/defences/clip.py").read_text()
    assert clip.settings == (ROOT / "config/defences/clip.yaml").read_text()
    assert clip.attacker == (ROOT / "src/leakbench/attacks/adaptive/clip.py").read_text()
    assert (clip.device, clip.commit, clip.absent) == ("cpu: a", "abc", {PEELED: "no"})
    ranks = (checkout / "entries" / "README.md").read_text().split("| [")[1:]
    # The strongest attack on clipping reads 0.99; a baseline is no attack.
    assert [rank.split("]")[0] for rank in ranks] == ["sign", "sign", "clip", "clip"]
    assert "| invg-adapted (no number: peel) | 0.990 |" in ranks[3]


def test_a_refused_entry_is_left_out_and_told(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert enter(checkout, None, recorded=True) == 0
    sign = checkout / "entries" / "sign.json"
    for old, new in (("standard", "banana"), ("cpu: a", "")):
        before = sign.read_text()
        entry = json.loads(before.replace(f'"{old}"', f'"{new}"'))
        del entry["leakbench-sha256"]
        write_json(sign, entry)
        assert enter(checkout, None) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert said.startswith(f"leakbench enter: {sign}: {'device' if not new else 'scale'}: ")
        ranks = (checkout / "entries" / "README.md").read_text().split("| [")[1:]
        assert [rank.split("]")[0] for rank in ranks] == ["clip", "clip"]
        sign.write_text(before)
    assert enter(checkout, None) == 0


def test_what_is_missing_altered_or_old_is_no_entry(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda rows: rows.drop(columns="mean"), "column 'mean' is missing"),
     (lambda rows: rows.drop(columns="baseline"), "column 'baseline' is missing"),
     (lambda rows: rows.assign(mean="much"), "a line of the table: mean: "),
     (lambda rows: rows.assign(n=-1), "a line of the table: n: "),
     (lambda rows: rows[rows["attack"] != "invg"], "lines: have no ssim of cifar10/.*/clip/invg")],
)  # fmt: skip
def test_a_recorded_table_of_another_form_makes_no_entry(checkout: Path, change: Any, words: str) -> None:
    table = checkout / "reference" / "standard" / f"{EXPERIMENT}.csv"
    change(pd.read_csv(table)).to_csv(table, index=False)
    made = json.loads(table.with_suffix(".json").read_text())
    table.with_suffix(".json").write_text(json.dumps(made | {"files": kept_digests(table)}))
    with pytest.raises(UserError, match=words):
        enter(checkout, None, recorded=True)
    assert not (checkout / "entries").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"scale": "../results"}, "--scale: scale '../results' is not in"),
     ({"check": True}, "--check: of which FILE"), ({"attacker": Path("a.py")}, "--attacker: of which FILE"),
     ({"attacker": Path("a.py"), "check": True, "file": Path("a.json")}, "the entry a.json has its own")],
)  # fmt: skip
def test_an_option_without_effect_is_refused(checkout: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        enter(checkout, **{"file": None} | options)
    assert not (checkout / "entries").exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [*((text, "is no Python file") for text in ("def halve(:\n", "return 5\n", "\0")),
     ("def other(): ...\n", "has no function 'halve'")],
)  # fmt: skip
def test_both_files_are_checked_before_anything_runs(checkout: Path, source: str, words: str) -> None:
    good, bad = checkout / "halve.py", checkout / "bad.py"
    good.write_text("def halve(): ...\n")
    bad.write_text(source)
    with pytest.raises(UserError, match=rf"bad\.py: {words}"):
        enter(checkout, good, attacker=bad)
    good.write_text(source)
    # A file of settings says nothing of the source.
    (checkout / "halve.yaml").write_text("summary: Halves.\n")
    with pytest.raises(UserError, match=rf"halve\.py: {words}"):
        enter(checkout, good)
    assert not (checkout / "scratch").exists()


def test_nobody_waits_for_a_pipe(checkout: Path) -> None:
    pipe, good = checkout / "pipe.py", checkout / "halve.py"
    os.mkfifo(pipe)
    good.write_text("def halve(): ...\n")
    for file, attacker in ((pipe, None), (good, pipe)):
        with pytest.raises(UserError, match=r"pipe\.py: not a regular file"):
            enter(checkout, file, attacker=attacker)
    os.mkfifo(checkout / "halve.yaml")
    with pytest.raises(UserError, match=r"halve\.yaml: not a regular file"):
        enter(checkout, good)


def test_a_message_names_the_users_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = f"leakbench: {tmp_path}/config/defences/halve.yaml: summry: no such key; src/leakbench/a.py\n"
    ran = SimpleNamespace(returncode=1, stdout="", stderr=f"Traceback\n{said}")
    monkeypatch.setattr(verb.subprocess, "run", lambda *given, **more: ran)
    given = dict(zip(verb._files("halve"), ("h.py", "h.yaml", "a.py"), strict=True))
    with pytest.raises(UserError, match=r"halve: leakbench: h\.yaml: summry: no such key; src"):
        verb._snakemake(tmp_path, "halve", "quick", 1, given)


def test_an_entry_gets_its_agreed_cells_at_a_scale_that_cannot_pay_for_them() -> None:
    quick, standard = (yaml.safe_load((ROOT / f"config/scales/{name}.yaml").read_text()) for name in SCALES)
    paid = _paying(quick)
    assert (paid["left_out"], paid["apart"]) == ({}, [])
    assert paid["budget"]["trials"] == quick["budget"]["trials"] | {5: 60 * MINUTES}
    assert paid["budget"]["total"] == MINUTES > quick["budget"]["total"]
    # What the scale itself gives is enough there.
    assert _paying(standard)["budget"] == standard["budget"]
    assert "budget" not in _paying({"summary": "The published sizes.", "order": 3})


@pytest.mark.parametrize("scale", SCALES)
def test_the_copy_of_a_checkout_is_planned_whole(scale: str, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    for part in (*verb.PARTS, verb.AGREED):
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        (root / part).symlink_to(ROOT / part)
    found = plan(verb._copied(root, "sign", {}), scale)
    (cells,) = found.experiments.values()
    assert {cell.defence for cell in cells} == {"none", "sign"}
    assert set(found.specs[f"table/{verb.EXPERIMENT}"]["cells_left_out"].values()) <= {
        "without a defence there is nothing to adapt to"
    }


def test_the_repositorys_entries_have_the_files_and_numbers_of_today() -> None:
    """`leakbench enter --recorded` writes them again after a change."""
    today = agreed(ROOT)
    for made in verb._of_the_record(ROOT, "standard"):
        assert read_entry(ROOT / "entries" / f"{made.name}.json", today) == made
