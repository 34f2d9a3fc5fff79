"""Verdicts by seed: the same statements on other tables, row beside row."""

from pathlib import Path

from tests_world import TRUE, evidence, lines, paper, trials

from leakbench.papers.scorecard.seeds import COLUMNS, by_seed
from leakbench.papers.work import read_papers

FAST = ("digits", "fast", "psnr")


def test_each_seed_judges_what_its_tables_measure(tmp_path: Path) -> None:
    own = lines("tiny-table-1", TRUE)
    own.frame["seeds"] = "0"
    # With another seed the first number is far off, and the photographs were not measured.
    other = lines("tiny-table-1", {FAST: trials(12, 1, 20), ("digits", "slow", "psnr"): trials(20, 1, 20)})
    other.frame["seeds"] = "2"
    works = read_papers(paper(tmp_path))
    found = by_seed(works, evidence({"tiny-table-1": own}), {2: evidence({"tiny-table-1": other})})
    assert list(found) == COLUMNS
    said = {(row.id, row.raised): (row.verdict, row.seeds) for row in found.itertuples()}
    assert said == {
        ("tiny.table-1.1", 0): ("reproduced", "0"),
        ("tiny.table-1.2", 0): ("reproduced", "0"),
        ("tiny.table-1.fast-better", 0): ("reproduced", "0"),
        ("tiny.table-1.1", 2): ("differs", "2"),
        ("tiny.table-1.2", 2): ("reproduced", "2"),
        ("tiny.table-1.fast-better", 2): ("differs", "2"),
    }
