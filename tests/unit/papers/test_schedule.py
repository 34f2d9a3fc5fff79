"""A run whose step size falls again after its end is no half of the published length, unless it settled."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests_world import MAP, PRINT, TRUE, card, evidence, lines, paper, tabled

from leakbench.attacks.matching.optimisers.adam import Adam
from leakbench.papers.verdicts.schedule import Schedule, schedule_of

STEPS = {"adam": {"lr": 0.1, "decay": True}}
STEADY = {"adam": {"lr": 0.1, "decay": 0.9}}
FIRST = ("digits", "fast", "psnr")
STEM = "digits/v/f/none/fast/0"


@pytest.mark.parametrize("full", [1, 7, 100, 4000, 10000])
def test_the_falls_are_those_of_the_optimiser(full: int) -> None:
    drops = Adam(0.1, full, signed=True, decay=True).drops
    for ran in range(1, full + 1, max(1, full // 50)):
        found = schedule_of({"optimiser": STEPS, "decay_over": full}, ran)
        # Iterations count from 0, so the fall at iteration `ran` has not come.
        assert found == Schedule(ran, full, tuple(drop for drop in drops if drop >= ran))


@pytest.mark.parametrize(
    ("attack", "found"),
    [
        ({"optimiser": STEPS, "decay_over": 10000}, Schedule(5000, 10000, (6250, 8750))),
        ({"optimiser": STEPS, "decay_over": 5000}, Schedule(5000, 5000)),
        # Without `decay_over` the whole schedule lies within the run.
        ({"optimiser": STEPS, "decay_over": None}, Schedule(5000, 5000)),
        ({"optimiser": STEPS}, Schedule(5000, 5000)),
        # The published length of the attack is no length of its schedule.
        ({"optimiser": STEPS, "iterations": 10000}, Schedule(5000, 5000)),
        ({"optimiser": STEADY, "decay_over": 10000}, Schedule(5000, 10000, (5000,))),
        ({"optimiser": STEADY}, Schedule(5000, 5000)),
        ({"optimiser": {"adam": {"decay": False}}, "decay_over": 10000}, None),
        ({"optimiser": {"adam": {}}}, None),
        ({"optimiser": {}}, None),
        ({"optimiser": None}, None),
        ({}, None),
    ],
)
def test_the_schedule_is_read_from_what_the_catalogue_says(
    attack: dict[str, Any], found: Schedule | None
) -> None:
    assert schedule_of(attack, 5000) == found


def judged(folder: Path, ran: int, falls: tuple[float, ...] = (), **attack: Any) -> pd.DataFrame:
    """Return the scorecard of a world in which both attacks ran some of 100 iterations, `fast` with a
    schedule."""
    cells = {key: {"values": values, "iterations": ran} for key, values in TRUE.items()}
    own = tabled(
        cells,
        falls={"tiny-table-1": {STEM: list(falls)}},
        attacks={"fast": attack, "slow": {"optimiser": {"adam": {"decay": False}}}},
    )
    return card(paper(folder), own)


@pytest.mark.parametrize("ran", [50, 60, 87])
def test_a_run_before_the_last_fall_decides_nothing(ran: int, tmp_path: Path) -> None:
    found = judged(tmp_path, ran, optimiser=STEPS, decay_over=100)
    row = found.loc["tiny.table-1.1"]
    falls = "62 and 87" if ran < 62 else "87"
    assert row["verdict"] == "inconclusive"
    assert row["reason"].startswith(
        f"the first {ran} of 100 iterations; the step size falls again at {falls}, so nothing is decided"
    )
    # A comparison with it decides nothing either, nor does an order, and the other rows stay as they are.
    assert found.loc["tiny.table-1.fast-better", ["verdict", "reason"]].tolist() == [
        "inconclusive", row["reason"],
    ]  # fmt: skip
    assert found.loc["tiny.table-1.2", "verdict"] == "reproduced"
    # Without a schedule the same run decides.
    assert set(judged(tmp_path, ran)["verdict"]) == {"reproduced", "not-run"}


def test_a_run_beyond_the_last_fall_decides(tmp_path: Path) -> None:
    row = judged(tmp_path, 88, optimiser=STEPS, decay_over=100).loc["tiny.table-1.1"]
    assert row["verdict"] == "reproduced"
    assert "squeezed" not in row["reason"]


def test_a_settled_run_counts_though_the_step_size_would_fall_again(tmp_path: Path) -> None:
    def row(*falls: float) -> pd.Series:
        return judged(tmp_path, 50, falls, optimiser=STEPS, decay_over=100).loc["tiny.table-1.1"]

    assert row(0.0, 0.005)["verdict"] == "reproduced"
    assert "after 50 of 100 iterations, when it had settled" in row(0.0, 0.005)["reason"]
    assert row(0.0, 0.02)["verdict"] == "inconclusive"


def test_a_whole_schedule_in_fewer_iterations_is_finished_and_says_that_it_was_squeezed(
    tmp_path: Path,
) -> None:
    row = judged(tmp_path, 50, optimiser=STEPS).loc["tiny.table-1.1"]
    assert row["verdict"] == "reproduced"
    words = "after 50 of 100 iterations, with the whole schedule of the step size squeezed into 50"
    assert words in row["reason"]
    # A run of the published length is not squeezed.
    assert "squeezed" not in judged(tmp_path, 100, optimiser=STEPS).loc["tiny.table-1.1", "reason"]


def test_a_shorter_run_decides_where_a_longer_one_has_a_fall_to_come(tmp_path: Path) -> None:
    """What a run left unfinished is no look at the statement, so other evidence may be asked."""
    tables = {"tiny-table-1": lines("tiny-table-1", TRUE)}
    own = evidence(tables)
    cells = TRUE | {FIRST: {"values": TRUE[FIRST], "iterations": 50}}
    long = tabled(cells, "paper", attacks={"fast": {"optimiser": STEPS, "decay_over": 100}})
    row = card(paper(tmp_path), long, own).loc["tiny.table-1.1"]
    assert (row["verdict"], row["scale"]) == ("reproduced", "quick")


def test_an_order_against_a_run_with_a_fall_to_come_is_no_direction(tmp_path: Path) -> None:
    cells = TRUE | {
        FIRST: {"values": TRUE[FIRST] + 15, "iterations": 87},
        ("digits", "slow", "psnr"): {"values": TRUE["digits", "slow", "psnr"] - 15, "iterations": 90},
    }
    tables = {"tiny-table-1": lines("tiny-table-1", cells)}

    def slow(full: int) -> str:
        attacks = {"fast": {"optimiser": STEPS, "decay_over": full}}
        return str(card(paper(tmp_path), evidence(tables, attacks=attacks)).loc["tiny.table-1.2", "verdict"])

    assert (slow(87), slow(100)) == ("direction", "differs")


def test_a_printed_success_is_not_judged_before_the_last_fall(tmp_path: Path) -> None:
    metric = {"by": "printed", "success": "ssim", "number": "psnr", "else": None}
    cells = TRUE | {
        ("digits", "fast", metric): {"values": [0.9] * 10, "iterations": 50}
        for metric in ("ssim", "identified")
    }
    papers = paper(
        tmp_path,
        print=PRINT.replace("psnr,30.0", "psnr,success"),
        measured={"table-1": MAP["table-1"] | {"metric": metric, "against": {}}},
        claims=None,
    )

    def fast(full: int) -> str:
        attacks = {"fast": {"optimiser": STEPS, "decay_over": full}}
        own = tabled(cells, attacks=attacks)
        return str(card(papers, own).loc["tiny.table-1.1", "verdict"])

    assert (fast(50), fast(100)) == ("reproduced", "inconclusive")
