"""A run whose step size falls again after its end is no half of the published length, unless it settled."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from project import ROOT

from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.base.artefacts import to_json, write_text
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.shown import described
from leakbench.jobs import figure, scorecard
from leakbench.metrics.scoring.falls import POINTS, falls
from leakbench.papers import reference
from leakbench.papers.scorecard.evidence import Table
from leakbench.papers.scorecard.recorded import of_records
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.verdicts.schedule import PartialRun, schedule_of, settled
from leakbench.papers.work import read_papers

STEPS = {"adam": {"lr": 0.1, "decay": True}}
TIMES = np.linspace(0, 999, 100)
STEADY = {"adam": {"lr": 0.1, "decay": 0.9}}


@pytest.mark.parametrize("full", [1, 7, 100, 4000, 10000])
def test_the_falls_are_those_of_the_optimiser(full: int) -> None:
    drops = Adam(0.1, full, signed=True, decay=True).drops
    for ran in range(1, full + 1, max(1, full // 50)):
        found = schedule_of({"optimiser": STEPS, "decay_over": full}, ran)
        # Iterations count from 0, so the fall at iteration `ran` has not come.
        assert found == PartialRun(ran, full, tuple(drop for drop in drops if drop >= ran))


READ = [
    ({"optimiser": STEPS, "decay_over": 10000}, PartialRun(5000, 10000, (6250, 8750))),
    ({"optimiser": STEADY, "decay_over": 10000}, PartialRun(5000, 10000, (5000,))),
    # Without `decay_over` the whole schedule lies within the run, whatever length is published.
    *(({"optimiser": STEPS} | more, PartialRun(5000, 5000))
      for more in ({}, {"decay_over": 5000}, {"decay_over": None}, {"iterations": 10000})),
    ({"optimiser": STEADY}, PartialRun(5000, 5000)),
    ({"optimiser": {"adam": {"decay": False}}, "decay_over": 10000}, None),
    *(({"optimiser": parts}, None) for parts in ({"adam": {}}, {}, None)), ({}, None),
]  # fmt: skip


@pytest.mark.parametrize(("attack", "found"), READ)
def test_the_schedule_is_that_of_the_catalogue(attack: dict[str, Any], found: PartialRun | None) -> None:
    assert schedule_of(attack, 5000) == found


def test_a_loss_that_still_falls_has_not_settled_and_one_that_lies_still_has() -> None:
    # A power law falls by the same share in each doubling, wherever it is stopped.
    found = falls(np.stack([1 / (1 + TIMES), 0.3 + np.exp(-TIMES / 50), np.full(100, 0.2)]))
    assert found[0] == pytest.approx(0.28, abs=0.02)
    assert (np.abs(found[1:]) < 1e-3).all()
    assert not settled([found[0]])
    assert settled(found[1:])


def test_single_losses_may_be_noisy() -> None:
    rng = np.random.default_rng(0)
    noisy = 0.5 + 0.005 * rng.standard_normal((200, 100))
    assert settled(falls(noisy))
    assert not settled(falls(noisy - TIMES / 5000))


def test_a_trial_that_ended_before_the_run_had_no_use_for_more() -> None:
    ended, diverged = 1 / (1 + TIMES), 1 / (1 + TIMES)
    ended[40:], diverged[90:] = np.nan, np.inf
    assert falls(np.stack([ended, diverged, np.zeros(100)])).tolist() == [0, 0, 0]


def test_nine_in_ten_trials_must_have_settled() -> None:
    assert settled([0.0] * 9 + [0.5])
    assert not settled([0.0] * 8 + [0.5] * 2)


def test_a_few_losses_show_nothing() -> None:
    assert falls(np.ones((5, POINTS - 1))).size == 0
    assert falls(np.ones((5, POINTS))).size == 5
    assert not settled([])


def test_the_metric_must_have_settled_too_where_images_on_the_way_tell() -> None:
    still = [0.0] * 10
    assert settled(still, [0.1] * 9 + [2.0], tolerance=1.5)
    assert not settled(still, [0.2] * 10, tolerance=1.5)
    assert not settled(still, [-0.2] * 10, tolerance=1.5)
    assert not settled(still, [float("nan")] * 10, tolerance=1.5)


ROW = "agic.table-4.8"
AGAIN = "the first 5,000 of 10,000 iterations; the step size falls again at 6,250 and 8,750"


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("papers")
    shutil.copytree(ROOT / "papers" / "agic", folder / "agic")
    return folder


def judged(path: Path) -> pd.Series:
    return pd.read_csv(path).set_index("id").loc[ROW]


@pytest.mark.parametrize("recorded", [True, False])
def test_the_scorecard_knows_the_schedules_of_records_and_of_its_run(
    recorded: bool, papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scorecard, "outdated", lambda *_: "")
    monkeypatch.setattr(scorecard, "published_costs", lambda _: {})
    left_out: dict = {name: {} for name in load_kind(ROOT / "config", "experiments")}
    spec = {**described(ROOT / "config"), "run": {"scale": "quick"}, "files": {}, "left_out": left_out}
    write_text(tmp_path / "spec.json", to_json(spec))
    made = reference.files(ROOT, "agic-table-4")
    files = {path.suffix: [path] for path in made}
    ran = ([], [], made) if recorded else (files[".csv"], files[".parquet"], [])
    out, seeds = tmp_path / "card.csv", tmp_path / "seeds.csv"
    scorecard.scorecard(*ran[:2], [], [], ran[2], papers, tmp_path / "spec.json", out, ROOT, seeds)
    assert judged(out)["verdict"] == "inconclusive"
    assert judged(out)["reason"].startswith(AGAIN)


def test_other_numerics_prove_nothing(papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "measured with numerics 1 of adam, today's is 2"
    old = {"agic-table-4": told}
    kept = reference.tables(reference.files(ROOT, "agic-table-4"))
    card = Card(read_papers(papers), [of_records(kept, old)], of_records(kept, old)).frame().set_index("id")
    assert card.loc[ROW, "verdict"] == "not-run"
    assert told in card.loc[ROW, "reason"]
    valid = Card(read_papers(papers), [of_records(kept)], of_records(kept)).frame().set_index("id")
    assert valid.loc[ROW, "verdict"] != "not-run"


def test_the_page_of_an_experiment_knows_the_schedules(papers: Path, tmp_path: Path) -> None:
    (kept,) = reference.tables(reference.files(ROOT, "agic-table-4"))
    attacks = described(ROOT / "config")["attacks"]
    facts = {"scale": "quick", "absent_cells": {}}
    works, card = read_papers(papers), tmp_path / "card.csv"
    none = Table(kept.name, kept.rows.iloc[:0])
    of_run = Table(kept.name, kept.rows, kept.trials())
    for lines, record in ((none, kept), (of_run, None)):
        figure._statements(works, lines, facts, record, attacks, card)
        assert judged(card)["verdict"] == "inconclusive"
        assert judged(card)["reason"].startswith(AGAIN)
