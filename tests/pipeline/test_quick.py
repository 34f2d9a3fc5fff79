"""The finished quick scale of this checkout, if `make reproduce` has made it."""

import math
from pathlib import Path

import chromium
import numpy as np
import pandas as pd
import pytest
from project import ROOT

from leakbench import defences
from leakbench.base.artefacts import read_facts, read_table
from leakbench.base.parts import part
from leakbench.catalogue.cell import Cell
from leakbench.catalogue.workflow import Workflow
from leakbench.metrics import labels, membership
from leakbench.metrics.pearson import THRESHOLD
from leakbench.papers import reference
from leakbench.papers.work import read_papers
from leakbench.results.report.card import lines as report_lines

# Fewer trials than these say nothing about spread.
FEWEST = 3
# Equal values of fewer say nothing either.
ENOUGH = 5
WITHOUT_PICTURES = {metric.name for metric in (*labels.METRICS, *membership.METRICS)} | {"label_ok"}
R = ROOT / "results" / "quick"

pytestmark = pytest.mark.skipif(
    not (R / "report.html").is_file(), reason="results/quick is not made: run make reproduce"
)


@pytest.fixture(scope="module")
def card() -> pd.DataFrame:
    return pd.read_csv(R / "scorecard.csv", keep_default_na=False)


@pytest.fixture(scope="module")
def flow() -> Workflow:
    return Workflow(ROOT, "quick")


def test_every_published_number_and_claim_has_a_row(card: pd.DataFrame) -> None:
    works = read_papers(ROOT / "papers")
    ids = [row.id for work in works for rows in work.tables.values() for row in rows]
    ids += [claim.id for work in works for claim in work.claims.claims]
    assert sorted(card["id"]) == sorted(ids)
    assert (card["published"].astype(str) != "").all()


def test_every_fidel_row_has_a_verdict_and_says_why(card: pd.DataFrame) -> None:
    rows = card[card["source"] == "fidel"]
    assert len(rows) > 50
    assert set(rows["verdict"]) <= {"reproduced", "direction", "differs", "inconclusive", "not-run"}
    assert (rows["reason"] != "").all()
    # What no experiment measures says so in the paper's own folder, what is too dear what it takes, and an
    # echo of a network that this scale does not train which one.
    absent = {claim.id: claim.absent for work in read_papers(ROOT / "papers") for claim in work.claims.claims}
    idle = rows[rows["verdict"] == "not-run"]
    dear = idle["reason"].str.contains("of scale quick|scale quick gives|did not run at this scale")
    assert [key for key in idle.loc[~dear, "id"] if not absent.get(key)] == []


def test_the_leakiest_setting_reveals_about_two_thirds() -> None:
    table = pd.read_csv(R / "tables" / "fidel-figure-13.csv", keep_default_na=False)
    rows = table[(table["metric"] == "revealed") & (table["local_samples"] == 30)]
    ours = rows[rows["baseline"] == ""].set_index("victim")
    assert (ours["n"] == 200).all()
    assert 15 < ours.loc["fcnn-relu-dropout", "mean"] < 25
    # "Almost nothing" was expected of sigmoid and tanh; measured are up to 2 of 30, a third of ReLU's count.
    smooth = ours.index.intersection(["fcnn-sigmoid", "fcnn-tanh"])
    assert (ours.loc[smooth, "mean"] < ours.loc["fcnn-relu", "mean"] / 2).all()
    assert rows.loc[rows["baseline"] != "", "mean"].max() == 0


def scored(flow: Workflow, experiment: str) -> pd.DataFrame:
    """Return the score rows that an experiment's table is of; images of one `update` share its fate."""
    frames, attacks = [], {(cell.capture, cell.attack) for cell in flow.plan.experiments[experiment]}
    for capture in sorted({capture for capture, _ in attacks}):
        rows, facts = read_table(R / "scores" / f"{capture}.parquet")
        if "absent" not in facts and len(rows):
            frames.append(rows[[(capture, attack) in attacks for attack in rows["attack"]]])
    rows = pd.concat(frames, ignore_index=True)
    return rows.assign(update=rows.groupby(["seed", "round"]).ngroup())


def updates_of(table: pd.DataFrame, rows: pd.DataFrame) -> pd.Series:
    """Return of how many independent updates each line of a table is the mean; else its n says so."""
    # A round is that of a model, which has no images.
    keys = [name for name in table if name in rows and name != "round"]
    found = table["n"].copy()
    for metric in table.loc[table["unit"] == "image", "metric"].unique():
        column = metric.removeprefix("success_").removesuffix("_unrevealed")
        counted = rows[column].notna() & ((rows[column] < THRESHOLD) | (metric != "pearson_unrevealed"))
        updates = rows[counted].groupby(keys)["update"].nunique().rename("updates")
        own = table["metric"] == metric
        found[own] = table.loc[own, keys].merge(updates.reset_index(), "left", keys)["updates"].to_numpy()
    return found


def test_every_table_and_figure_is_there_and_every_value_of_trials_has_an_interval(
    flow: Workflow,
) -> None:
    shown = [Path(file).stem for file in flow.each("tables", "csv")]
    assert {name for name in flow.plan.experiments if flow.scores(name)} <= set(shown)
    for name in shown:
        drawn = (R / "figures" / f"{name}.png").stat().st_size
        table = pd.read_csv(R / "tables" / f"{name}.csv", dtype={"baseline": str}).fillna({"baseline": ""})
        # What cannot be drawn, for want of lines or of length, has an empty file and no empty picture. Where
        # this scale measures nothing the recorded lines are drawn.
        assert drawn == 0 or (drawn > 5000 and (len(table) or reference.files(ROOT, name)))
        if not len(table):
            assert read_facts(R / "exhibits" / f"{name}.safetensors")["absent_cells"]
            continue
        trials = table["n"] if flow.plan.studies[name] else updates_of(table, scored(flow, name))
        # An infinite mean, such as the PSNR of equal images, has no spread.
        means = table[np.isfinite(table["mean"])]
        bounded = means[["ci_low", "ci_high"]].notna().all(axis=1)
        own = trials[means.index]
        assert not bounded[own < FEWEST].any(), name
        # A few equal values say nothing about spread, unless they are a share.
        assert bounded[(own >= ENOUGH) | ((own >= FEWEST) & (means["std"] > 1e-9))].all(), name
        means = means[bounded]
        assert (means["ci_low"] <= means["mean"] + 1e-9).all()
        assert (means["mean"] <= means["ci_high"] + 1e-9).all()
        if not flow.plan.studies[name]:
            # A picture of noise has no label and is nobody's member: only what is pictured has these nulls.
            pictured = not set(table["metric"]) <= WITHOUT_PICTURES
            nulls = {"random-gradient", *(("random-noise", "dataset-mean") if pictured else ())}
            assert set(table["baseline"]) >= {"", *nulls}


def rounds_of(flow: Workflow, cell: Cell) -> int:
    """Return how many rounds of one model sent out an attack answers for: all, or one for them together.

    An attacker who knows a defence that draws anew each round, and that clients hold the same samples every
    round, joins the rounds into one.
    """
    spec = flow.plan.specs[f"capture/{cell.capture}"]
    adaptation = flow.plan.specs[f"attack/{cell.stem}"].get("adaptation")
    fixed = spec["federation"]["local_set"] == "fixed"
    pools = adaptation and fixed and part("adaptive", adaptation["module"])().pooled
    return 1 if pools else spec["federation"]["rounds"]


def test_every_private_image_has_its_row(flow: Workflow) -> None:
    joined = 0
    for cell in flow.plan.cells:
        rows, facts = read_table(R / "scores" / f"{cell.capture}.parquet")
        if "absent" in facts or "absent" in facts["attacks"][cell.attack]:
            continue
        rows = rows[rows["attack"] == cell.attack]
        spec = flow.plan.specs[f"capture/{cell.capture}"]
        federation, clients = spec["federation"], spec["federation"]["clients"]
        view = defences.build(spec["defence"]["module"], spec["defence"]["parameters"]).view(clients)
        seen = [clients[i] for group in view.groups for i in group]
        starts = 1 if federation["checkpoints"] == "last" else len(federation["checkpoints"])
        rounds = rounds_of(flow, cell)
        joined += rounds < federation["rounds"]
        ours = rows[rows["baseline"] == ""]
        assert set(ours["status"]) <= {"ok", "diverged", "nothing"}
        if facts["attacks"][cell.attack]["target"] in ("labels", "candidates"):
            # These answer for an update as a whole.
            assert len(ours) == starts * rounds * len(view.groups), cell.stem
            continue
        assert len(ours) == starts * rounds * sum(seen), cell.stem
        private = federation["private"]
        assert ours["image"].between(private["start"], private["stop"] - 1).all()
    assert joined


def test_outputs_say_what_made_them(flow: Workflow) -> None:
    networks = [path for room in ("victims", "generators") for path in (R / room).rglob("*.safetensors")]
    assert networks
    for path in networks:
        facts = read_facts(path)
        if "absent" not in facts:
            assert {len(facts[key]) for key in ("spec", "code")} == {64}
            assert facts["versions"]["torch"]
            assert facts["device"] == "cpu"
            room, *names = path.relative_to(R).with_suffix(".json").parts
            record = R.joinpath("records", "train" if room == "victims" else "generator", *names)
            assert math.isfinite(pd.read_json(record, typ="series")["seconds"])


def test_nothing_is_half_written() -> None:
    assert not [path for top in ("results", "data") for path in (ROOT / top).rglob("*.part")]


def test_the_page_is_whole_in_a_browser() -> None:
    assert chromium.faults(R / "report.html") == []


def test_the_page_of_headlines_says_what_the_scorecard_says(card: pd.DataFrame) -> None:
    """Every sentence of the first screen stands there, with its interval, n, seed and scale."""
    found = (ROOT / "docs/headlines.md").read_text()
    found = " ".join(found.replace("**", "").split())
    lines = [line for line in report_lines(card) if line["headline"]]
    assert len(lines) >= 4
    for line in lines:
        words = f"{line['headline']} (95 % interval {line['headline_interval']}, n = {line['n']}, "
        assert (
            words + f"seed{'s' * (' ' in line['seeds'])} {line['seeds']}, {line['scale']} scale" in found
        ), line["id"]
    # And no sentence stands there that the scorecard does not measure.
    assert found.count("95 % interval [") == len(lines)


def test_the_page_is_light() -> None:
    assert (R / "report.html").stat().st_size < 6e6


def test_every_result_that_differs_is_explained(card: pd.DataFrame) -> None:
    rows = card[(card["verdict"] == "differs") & card["class"].isin(["result", "doubt"])]
    assert rows.loc[rows["examined"] == "Not examined yet.", "id"].tolist() == []
