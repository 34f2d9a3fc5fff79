"""Verdicts by seed: the same statements on other tables, row beside row."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from tests_world import TRUE, card, evidence, lines, paper, trials

from leakbench.papers.scorecard.evidence import Lines
from leakbench.papers.scorecard.recorded import COLUMNS, by_seed
from leakbench.papers.work import read_papers

FAST = ("digits", "fast", "psnr")


def test_each_seed_judges_what_its_tables_measure(tmp_path: Path) -> None:
    own = lines("tiny-table-1", TRUE)
    # With another seed the first number is far off, and the photographs were not measured.
    cells = {FAST: trials(12, 1, 20), ("digits", "slow", "psnr"): trials(20, 1, 20)}
    other = lines("tiny-table-1", cells, seed=2)
    works = read_papers(paper(tmp_path))
    block = replace(evidence({"tiny-table-1": other}), scale="standard-seed2")
    found = by_seed(works, replace(evidence({"tiny-table-1": own}), blocks=[block]))
    assert list(found) == COLUMNS
    said = {(row.id, row.raised): (row.verdict, row.seeds) for row in found.itertuples()}
    assert said == {
        ("tiny.table-1.1", 0): ("reproduced", "0"), ("tiny.table-1.2", 0): ("reproduced", "0"),
        ("tiny.table-1.fast-better", 0): ("reproduced", "0"), ("tiny.table-1.1", 2): ("differs", "2"),
        ("tiny.table-1.2", 2): ("reproduced", "2"), ("tiny.table-1.fast-better", 2): ("differs", "2"),
    }  # fmt: skip


def pooled(tmp_path: Path, *means: float) -> pd.Series:
    """Return the scorecard's line of a printed 30 dB that a network of each seed measured."""
    tables = [
        lines("tiny-table-1", {FAST: trials(mean, 1, 20, seed)}, seed=seed) for seed, mean in enumerate(means)
    ]
    own, *blocks = (evidence({"tiny-table-1": table}, known=None) for table in tables)
    return card(paper(tmp_path), replace(own, blocks=blocks)).loc["tiny.table-1.1"]


def test_the_interval_of_pooled_blocks_counts_networks(tmp_path: Path) -> None:
    alone, close, apart = (pooled(tmp_path, *means) for means in ([30], [30, 30.01, 29.99], [30, 27, 33]))
    assert [(row["n"], row["networks"], row["seeds"]) for row in (alone, close, apart)] == [
        (20, 1, "0"), (60, 3, "0 1 2"), (60, 3, "0 1 2"),
    ]  # fmt: skip
    assert [row["verdict"] for row in (alone, close, apart)] == ["reproduced", "reproduced", "inconclusive"]
    assert apart["measured"] == pytest.approx(30)
    # Student's t of 27, 30 and 33 with two degrees of freedom.
    assert apart["ci_high"] - 30 == pytest.approx(4.3027 * 3 / 3**0.5, rel=1e-3)
    # The networks agree by chance, so the trials' own spread counts.
    assert close["ci_high"] - close["ci_low"] > 0.3


def test_a_block_counts_a_trial_of_the_same_seed_once(tmp_path: Path) -> None:
    again = pooled(tmp_path, 30, 30)
    own = evidence({"tiny-table-1": lines("tiny-table-1", {FAST: trials(30, 1, 20, 0)})}, known=None)
    twice = card(paper(tmp_path), replace(own, blocks=[own])).loc["tiny.table-1.1"]
    assert (again["n"], twice["n"], twice["networks"]) == (40, 20, 1)


def test_lines_without_kept_trials_are_pooled_by_their_means(tmp_path: Path) -> None:
    tables = [lines("tiny-table-1", {FAST: trials(30 + seed, 1, 20)}, seed=seed) for seed in range(3)]
    own, *blocks = (evidence({"tiny-table-1": Lines(each.name, each.frame)}, known=None) for each in tables)
    found = card(paper(tmp_path), replace(own, blocks=blocks)).loc["tiny.table-1.1"]
    assert (found["measured"], found["n"], found["networks"]) == (31, 60, 3)
    assert found["ci_high"] - 31 == pytest.approx(4.3027 / 3**0.5, rel=1e-3)


def test_a_block_that_lacks_a_line_leaves_the_line_to_its_network(tmp_path: Path) -> None:
    own = evidence({"tiny-table-1": lines("tiny-table-1", TRUE)})
    block = evidence({"tiny-table-1": lines("tiny-table-1", {FAST: trials(30, 1, 20)}, seed=1)})
    found = card(paper(tmp_path), replace(own, blocks=[block]))
    assert found.loc[["tiny.table-1.1", "tiny.table-1.2"], "networks"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("spread", "rounds", "beaten"),
    [(0.02, 10, True), (0.3, 10, False), (0.02, 3, True), (1.0, 3, False), (0.02, 1, False)],
)
def test_the_gain_over_another_update_is_judged_with_its_interval(
    spread: float, rounds: int, beaten: bool, tmp_path: Path
) -> None:
    """Of fewer than five pairs, all ten trials are compared with those of the other update."""
    own = trials(0.8, 0.01, 10)
    other = {"baseline": "other-update", "values": own[:rounds] - trials(0.2, spread, rounds, 1)}
    cells = {("fast", "ssim", ""): own, ("fast", "ssim", "null"): other}
    table = lines("t", cells, ("attack", "metric", "kind"))
    work = read_papers(paper(tmp_path))[0].paper
    found = evidence({"t": table}).read("t", "ssim", work, attack="fast")
    assert found.beats_null is beaten
