"""docs/figures.md says of each item what is printed, which figures of ours there are, and what they show."""

from collections.abc import Mapping

import pandas as pd
import pytest
from worlds import works

from leakbench.papers import items

ROWS = [
    ("thesis.table-3-4.1", "table-3.4", "psnr_mean", "differs", ""),
    ("thesis.table-3-4.2", "table-3.4", "psnr_mean", "reproduced", ""),
    ("thesis.table-3-4.3", "table-3.4", "psnr_mean", "not-run", "too long"),
    ("thesis.table-3-7.failed", "table-3.7", "claim", "reproduced", ""),
]


def lines(shows: Mapping[str, set[str]], *others: items.Drawn) -> list[str]:
    columns = ["id", "item", "metric", "verdict", "reason"]
    card = pd.DataFrame(ROWS, columns=columns).assign(work="grnn", **{"class": "result"})
    own = items.Drawn("grnn", "table-3.4", "thesis-table-3-4", ["squares", "dots", "dots"], shows)
    page = items.page([works()["grnn"]], card, [own, *others], lambda names: 1.2 * len(names))
    return [line for line in page.splitlines() if line.startswith("| table")]


@pytest.mark.parametrize(
    ("drawn", "told"), [(set(), ""), ({"ssim"}, "1 number"), ({"psnr_uint8_wrap", "ssim"}, "2 numbers")]
)
def test_an_item_counts_the_measured_numbers_that_its_figures_draw(drawn: set[str], told: str) -> None:
    first, _ = lines({"thesis-table-3-4": drawn})
    words = "1 reproduced, 1 differs"
    ours = "`thesis-table-3-4` (map, dots)"
    assert first == f"| table-3.4 | 2 of 3 numbers | {words} | {ours} | {told} | too long | 2 |"


def test_a_sentence_stands_in_the_figure_of_the_experiment_that_decides_it() -> None:
    assert lines({})[1] == "| table-3.7 | 1 of 1 words | 1 reproduced |  |  |  |  |"
    judged = items.Drawn("grnn", "table-3.6-batch256", "thesis-table-3-6-batch256", ["dots"], {})
    assert lines({}, judged)[1].endswith("| `thesis-table-3-6-batch256` (dots) | words |  |  |")
