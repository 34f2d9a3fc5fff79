"""The tidy table of an experiment: one line per condition and metric, from score rows made by hand."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from cell import KNOWS, SHARES, STEM, Cell, make_table, tabled

from leakbench.base.artefacts import read_table, write_table
from leakbench.base.missing import pass_on
from leakbench.metrics.interval import summary
from leakbench.results.tables.attacked import CONDITION
from leakbench.results.tables.lines import TRIAL

NAMES = {"dataset": "d", "victim": "v", "federation": "f", "defence": "n", "attack": "a"}


def rows(pearson: list[list[float]], **changes: Any) -> pd.DataFrame:
    """Return score rows of rounds × samples with the given r; every update has four usable neurons."""
    out = []
    for turn, values in enumerate(pearson):
        for sample, r in enumerate(values):
            row = NAMES | {
                "seed": 0, "checkpoint": 30, "pass": 0, "iterations": 0, "client": 0,
                "local_samples": len(values), "baseline": "",
            }  # fmt: skip
            row |= {"round": turn, "sample": sample, "image": 10 * turn + sample, "match": 0, "status": "ok"}
            out.append(row | {"pearson": r, "mse": 1 - r, "neurons": int(r >= 0.98), "usable": 4} | changes)
    return pd.DataFrame(out)


def line(frame: pd.DataFrame, metric: str, **condition: Any) -> pd.Series:
    for key, value in condition.items():
        frame = frame[frame[key] == value]
    return frame[frame["metric"] == metric].squeeze()


def test_revealed_counts_samples_of_an_update_by_the_threshold() -> None:
    out = tabled(rows([[0.98, 1.0, 0.9799], [0.5, 0.0, -0.99]]), ["pearson"])
    revealed, share = line(out, "revealed"), line(out, "revealed_fraction")
    assert (revealed["mean"], revealed["n"], revealed["unit"]) == (1.0, 2, "update")
    assert share["mean"] == pytest.approx(1 / 3)
    assert (revealed["convention"], revealed["scale"], revealed["seeds"]) == ("standard", "quick", "0")
    assert (line(out, "pearson")["n"], line(out, "pearson")["unit"]) == (6, "image")
    unrevealed = line(out, "pearson_unrevealed")
    assert unrevealed["mean"] == pytest.approx(np.mean([0.9799, 0.5, 0.0, -0.99]))
    assert unrevealed["n"] == 4


def test_neurons_of_an_update_are_counted_once_and_not_per_sample() -> None:
    scored = rows([[0.99, 0.99, 0.1], [0.2, 0.1, 0.0]])
    scored.loc[0, "neurons"] = 2
    out = tabled(scored, ["pearson"])
    assert line(out, "usable_neurons")["mean"] == 4
    assert line(out, "isolating_neurons")["mean"] == 1.5
    assert line(out, "isolating_share")["mean"] == pytest.approx((3 / 4 + 0) / 2)

    # An update without a live neuron has no such share.
    out = tabled(rows([[0.99], [0.0]]).assign(usable=[2, 0]), ["pearson"])
    assert (line(out, "isolating_share")["n"], line(out, "isolating_share")["mean"]) == (1, 0.5)
    out = tabled(rows([[0.0], [0.0]], usable=0), ["pearson"])
    assert line(out, "isolating_share").empty


def test_intervals_are_over_updates_since_samples_share_their_fate() -> None:
    rng = np.random.default_rng(0)
    fates = rng.random(40)
    scored = rows([[fate] * 25 for fate in fates])
    out = line(tabled(scored, ["mse"]), "mse")
    # 1000 images, but only 40 independent updates: the interval is that of the 40.
    alone = summary(1 - fates, np.zeros(40, bool))
    assert (out["n"], alone["n"]) == (1000, 40)
    assert (out["ci_low"], out["ci_high"]) == pytest.approx((alone["ci_low"], alone["ci_high"]), abs=0.02)
    assert out["ci_high"] - out["ci_low"] > 0.15
    narrow = summary(scored["mse"].to_numpy(), np.zeros(1000, bool))
    assert out["ci_high"] - out["ci_low"] > 3 * (narrow["ci_high"] - narrow["ci_low"])


def test_the_same_round_of_another_seed_is_another_update() -> None:
    scored = pd.concat([rows([[0.99, 0.99]]), rows([[0.1, 0.1]], seed=1), rows([[0.2, 0.99]], seed=2)])
    out = tabled(scored, ["pearson"])
    revealed = line(out, "revealed")
    assert (revealed["n"], revealed["mean"], revealed["seeds"]) == (3, 1.0, "0 1 2")
    assert np.isfinite(line(out, "pearson")["ci_low"])


def test_a_fixed_local_set_is_gathered_over_rounds() -> None:
    scored = rows([[0.99, 0.1, 0.2], [0.99, 0.99, 0.2], [0.1, 0.99, 0.3]])
    assert line(tabled(scored, ["pearson"]), "revealed_cumulative").empty
    scored["image"] = scored["sample"]
    out = tabled(scored, ["pearson"])
    assert line(out, "revealed_cumulative")["mean"] == 2
    assert line(out, "revealed")["mean"] == pytest.approx(4 / 3)


def test_the_table_of_a_scored_cell(cell: Cell) -> None:
    cell.score("pearson", "mse")
    made = make_table(cell, [STEM], [cell.scores])
    # The same scores give the same trials, byte by byte.
    first = (cell.results / "x.parquet").read_bytes()
    make_table(cell, [STEM], [cell.scores])
    assert (cell.results / "x.parquet").read_bytes() == first
    out, facts = made.lines, made.facts
    told = {"absent_cells": {}, "knows": {STEM: KNOWS}, "shares": SHARES, "panels": [], "falls": {}}
    assert told.items() <= facts.items()
    own = out[(out["baseline"] == "") & (out["client"] == 0)]
    # Round 0 reveals both images, round 1 one, round 2, in which nothing came, none.
    revealed = own[own["metric"] == "revealed"].squeeze()
    assert (float(revealed["mean"]), revealed["n"]) == (1.0, 3)
    mse = own[own["metric"] == "mse"].squeeze()
    assert float(mse["failure_rate"]) == pytest.approx(1 / 3, abs=1e-5)
    assert set(out["baseline"]) == {"", "random-gradient", "random-noise", "dataset-mean", "other-update"}
    assert set(out["client"]) == {0, 1}
    nulls = out[(out["baseline"] != "") & (out["metric"] == "revealed")]
    # Another update there is for the first client alone.
    assert len(nulls) == 7
    assert (nulls["mean"].astype(float) == 0).all()


def test_the_trials_of_a_scored_cell_are_what_its_lines_are_means_of(cell: Cell) -> None:
    cell.score("pearson", "mse")
    made = make_table(cell, [STEM], [cell.scores], success=["mse"])
    out, trials = made.lines, made.trials
    condition = [*CONDITION, "metric", "convention", "threshold"]
    assert [*trials.columns] == [*condition, *TRIAL]
    # A success must beat what the attack makes of another update, so those trials are kept too.
    own = out[out["baseline"].isin(["", "other-update"])].replace({"threshold": {"": "nan"}})
    own = own.astype({"threshold": float, "mean": float, "n": int})
    found = (
        trials.groupby(condition, dropna=False, observed=True)["value"].agg(["mean", "size"]).reset_index()
    )
    both = own.merge(found.astype({"metric": str}), on=condition, how="outer", suffixes=("", "_of_trials"))
    assert len(both) == len(own) == len(found)
    assert both["mean"].tolist() == pytest.approx(both["mean_of_trials"].tolist(), rel=1e-5)
    assert both["n"].tolist() == both["size"].tolist()
    trials = trials[trials["baseline"] == ""]
    image = trials[(trials["metric"] == "mse") & (trials["client"] == 1)]
    index = cell.index[1]
    assert image["trial"].tolist() == [f"0/{turn}/1/{index[turn, i]}" for turn in range(3) for i in range(3)]
    assert image["cluster"].tolist() == [f"0/{turn}" for turn in range(3) for _ in range(3)]
    update = trials[(trials["metric"] == "revealed") & (trials["client"] == 1)]
    assert update["trial"].tolist() == ["0/0/1", "0/1/1", "0/2/1"]
    assert not update["failed"].any()


def test_one_client_may_be_looked_at_and_how_far_losses_fell_stands_beside(cell: Cell) -> None:
    cell.score("pearson", "mse")
    rows, facts = read_table(cell.scores)
    facts["attacks"]["attack"]["falls"] = [0.0, 0.25]
    write_table(cell.scores, rows, facts)
    made = make_table(cell, [STEM], [cell.scores], client=1)
    assert made.facts["falls"] == {STEM: [0.0, 0.25]}
    assert set(made.lines["client"]) == {1}
    assert set(made.lines["local_samples"]) == {3}


def test_absent_scores_leave_a_table_without_lines_and_say_why(cell: Cell) -> None:
    pass_on("no archive", [cell.scores])
    shown = {"rule": "best", "rounds": 1, "reconstructions": 4}
    made = make_table(cell, [STEM], [cell.scores], exhibit=shown)
    out, facts = made.lines, made.facts
    assert out.empty
    assert set(CONDITION) | {"metric", "mean", "ci_low", "ci_high", "n", "unit", "scale"} <= set(out.columns)
    assert facts["absent_cells"] == {STEM: "no archive"}
    assert facts["panels"] == []
    trials = made.trials
    assert [*trials.columns] == [*CONDITION, "metric", "convention", *TRIAL]
    assert trials.empty


def test_an_absent_cell_leaves_the_others(cell: Cell) -> None:
    cell.score("pearson", "mse")
    gone = cell.root / "gone.parquet"
    pass_on("no archive", [gone])
    other = STEM.replace("victim", "other")
    made = make_table(cell, [other, STEM], [gone, cell.scores])
    out, facts = made.lines, made.facts
    assert set(out["victim"]) == {"victim"}
    assert facts["absent_cells"] == {other: "no archive"}
    assert list(facts["knows"]) == [STEM]


def test_success_rates_have_a_line_for_each_threshold(cell: Cell) -> None:
    cell.score("pearson", "mse")
    out = make_table(cell, [STEM], [cell.scores], success=["mse"]).lines
    found = out[(out["metric"] == "success_mse") & (out["client"] == 1) & (out["baseline"] == "")]
    scored = pd.read_parquet(cell.scores)
    own = scored[(scored["client"] == 1) & (scored["baseline"] == "")]
    assert found["threshold"].astype(float).tolist() == [step / 20 for step in range(21)]
    for threshold, mean in zip(found["threshold"].astype(float), found["mean"].astype(float), strict=True):
        # Three of nine images got nothing, which is no success though mid-grey is not far off.
        good = sum(s == "ok" and e <= threshold for s, e in zip(own["status"], own["mse"], strict=True))
        assert mean == pytest.approx(good / 9, abs=1e-5)
    assert (found["n"] == 9).all()
    assert (found["convention"] == "published").all()
    assert float(found["mean"].iloc[-1]) == pytest.approx(2 / 3, abs=1e-5)
    assert set(out[out["metric"] == "success_mse"]["baseline"]) == {
        "", "random-gradient", "random-noise", "dataset-mean", "other-update"
    }  # fmt: skip
    assert (out[out["metric"] == "mse"]["threshold"].astype(str) == "").all()


def test_success_rates_share_their_updates_fate() -> None:
    scored = rows([[0.9] * 20, [0.0] * 20] * 10)
    out = tabled(scored, ["mse"], ("mse",))
    point = out[(out["metric"] == "success_mse") & (out["threshold"] == 0.5)].squeeze()
    assert point["mean"] == 0.5
    # Twenty updates, each all or nothing.
    assert point["ci_high"] - point["ci_low"] > 0.3
    snapshots = tabled(scored.assign(baseline="snapshot"), ["mse"], ("mse",))
    assert set(snapshots["metric"]) == {"mse"}


def test_a_table_without_success_rates_has_no_thresholds_and_no_line_of_what_was_not_measured() -> None:
    scored = rows([[0.5, 0.2], [0.1, 0.4]]).assign(ssim=np.nan)
    out = tabled(scored, ["mse", "ssim", "lpips_alex"])
    assert "threshold" not in out
    assert set(out["metric"]) == {"mse"}
    assert line(out, "mse")["std"] == pytest.approx(np.std([0.5, 0.8, 0.9, 0.6]))


def test_failures_count_in_the_rate_of_images_and_change_nothing_else() -> None:
    scored = pd.concat([rows([[0.9, 0.2], [0.7, 0.1]]), rows([[0.5]], baseline="dataset-mean", image=77)])
    scored["label_ok"] = 1.0
    out = tabled(scored, ["mse", "label_ok", "pearson"], ("mse",))
    own = out[out["baseline"] == ""].set_index("metric")["failure_rate"]
    assert own[["mse", "pearson", "pearson_unrevealed"]].tolist() == [0.5] * 3
    assert set(own["success_mse"]) == {0.5}
    # Labels, and what is counted update by update, have no image that could fail.
    assert own[["label_ok", "revealed", "usable_neurons"]].tolist() == [0] * 3
    assert (out.loc[out["baseline"] != "", "failure_rate"] == 0).all()
    without = tabled(scored[scored["baseline"] == ""], ["mse", "label_ok", "pearson"], ("mse",))
    same = out[out["baseline"] == ""].drop(columns="failure_rate").reset_index(drop=True)
    pd.testing.assert_frame_equal(same, without.drop(columns="failure_rate"))
