"""The verbs judge recorded rows by the schedule of their attack."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from project import ROOT

from leakbench.base.artefacts import to_json, write_text
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.shown import described
from leakbench.jobs import figure, scorecard
from leakbench.papers import reference
from leakbench.papers.scorecard.evidence import Lines
from leakbench.papers.scorecard.recorded import of_records
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import read_papers

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


def test_a_record_of_other_numerics_is_no_evidence_and_its_rows_say_so(
    papers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    none = Lines(kept.name, kept.rows.iloc[:0])
    of_run = Lines(kept.name, kept.rows, kept.trials())
    for lines, record in ((none, kept), (of_run, None)):
        figure._statements(works, lines, facts, record, attacks, card)
        assert judged(card)["verdict"] == "inconclusive"
        assert judged(card)["reason"].startswith(AGAIN)
