"""Verdicts by seed: the same statements on other tables; and the page of platforms, held to the records."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from project import ROOT
from tests_world import TRUE, card, evidence, lines, paper, trials

from leakbench.papers.scorecard.evidence import Table
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
    own, *blocks = (evidence({"tiny-table-1": Table(each.name, each.frame)}, known=None) for each in tables)
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
def test_a_gain_is_judged_by_its_interval(spread: float, rounds: int, beaten: bool, tmp_path: Path) -> None:
    """Of fewer than five pairs, all ten trials are compared with those of the other update."""
    own = trials(0.8, 0.01, 10)
    other = {"baseline": "other-update", "values": own[:rounds] - trials(0.2, spread, rounds, 1)}
    cells = {("fast", "ssim", ""): own, ("fast", "ssim", "null"): other}
    table = lines("t", cells, ("attack", "metric", "kind"))
    work = read_papers(paper(tmp_path))[0].paper
    found = evidence({"t": table}).read("t", "ssim", work, attack="fast")
    assert found.beats_null is beaten


PAGE = (ROOT / "docs/platforms.md").read_text(encoding="utf-8")
# What a line of the page begins with → the defence of the catalogue, for attacks and for trainings.
LINES = {
    "| NVFlare, percentile": "nvflare-percentile", "| NVFlare, sparse": "nvflare-svt",
    "| NVFlare, normal": "nvflare-gaussian", "| Flower, local DP, with FLIP's": "flower-local-dp",
    "| Flower, SecAgg+": "flower-secagg-plus",
}  # fmt: skip
# What the second column of the page tells of each attack, in this order.
LEFT = {
    "peel": "exact", "fidel-denoised": "pearson", "membership-whitened": "membership_auc",
    "imprint-denoised": "pearson",
}  # fmt: skip
# Who ranks members better behind a defence.
BETTER = {("nvflare-svt", "membership-whitened"): "alignment"}


def recorded(name: str) -> pd.DataFrame:
    table = pd.read_csv(ROOT / f"reference/standard/{name}.csv", keep_default_na=False)
    return table[table["baseline"] == ""]


def words(row: pd.Series, digits: int = 2) -> str:
    mean, low, high = (f"{float(row[name]):.{digits}f}" for name in ("mean", "ci_low", "ci_high"))
    return f"{mean} ({low} to {high})"


@pytest.mark.parametrize(("start", "defence"), LINES.items())
def test_a_line_has_what_each_attack_left(start: str, defence: str) -> None:
    (line,) = [each for each in PAGE.splitlines() if each.startswith(start)]
    table = pd.concat([recorded("leakbench-platforms"), recorded("leakbench-platforms-adapted")])
    table = table[table["federation"] != "platforms-known-one"]
    for usual, metric in LEFT.items():
        attack = BETTER.get((defence, usual), usual)
        own = table[(table["defence"] == defence) & (table["attack"] == attack) & (table["metric"] == metric)]
        assert len(own) == 1
        assert words(own.iloc[0]) in line, attack
        assert int(own["n"].iloc[0]) >= 20


@pytest.mark.parametrize(
    ("start", "defence"), [*LINES.items(), ("| Flower, local DP, sensitivity 2", "flower-local-dp-whole")]
)
def test_a_line_has_its_price(start: str, defence: str) -> None:
    (line,) = [each for each in PAGE.splitlines() if each.startswith(start)]
    table = recorded("leakbench-platforms-price")
    trained = defence if defence != "flower-secagg-plus" else "flower-secagg-plus-alone"
    own = table[(table["defence"] == trained) & (table["metric"] == "accuracy") & (table["round"] == "")]
    assert words(own.iloc[0]) in line


def test_the_page_has_what_is_proven_and_certified_of_epsilon() -> None:
    table = pd.read_csv(ROOT / "reference/standard/leakbench-platforms-epsilon.csv", keep_default_na=False)
    table = table[table["metric"] == "epsilon_low"].set_index(["defence", "baseline"])["mean"].astype(float)
    assert f"{round(table['flower-local-dp', 'certified'], -1):,.0f}"[:7] in PAGE
    assert f"an attack proves {table['flower-local-dp', '']:.0f}" in PAGE
    assert f"| 10 | {table['flower-local-dp-whole', 'certified']:.1f} |" in PAGE
    assert table["flower-local-dp-whole", ""] == 0
