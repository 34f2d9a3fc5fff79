"""How printed numbers are read, what rows hold, and the tolerance of every metric."""

import csv
import fnmatch
import math
from pathlib import Path

import pytest
import yaml
from tests_world import unused_words
from worlds import works

from leakbench.base.errors import UserError
from leakbench.metrics import METRICS
from leakbench.metrics.success import PREFIX
from leakbench.papers.join import published_convention
from leakbench.papers.printed import Printed, parse_printed, read_tables
from leakbench.papers.verdicts.tolerances import TOLERANCES, possible, tolerance_of
from leakbench.results.tables import trained as study_table

TABLE = yaml.safe_load(Path(__file__).with_name("tables.yaml").read_text())

PAPERS = Path(__file__).parents[3] / "papers"


@pytest.mark.parametrize(("text", "metric", "value", "bound", "rounding"), TABLE["printed_values"])
def test_printed_values(text: str, metric: str, value: float, bound: str, rounding: float) -> None:
    printed = parse_printed(text, metric)
    assert printed.value == pytest.approx(value)
    assert printed.bound == bound
    assert printed.rounding == pytest.approx(rounding)


@pytest.mark.parametrize(
    "text",
    [
        "", "failure", "not run", "success", "nan", "inf", "55/45", "8/2", "2/3", "6689/9030",
        "0.27/1.6", "2x2,2",
        "0.231 to 0.180", "0.40/0.39 to 0.47/0.46", "87.62 to about 85", "56.89 vs 56.61",
        "+5.52/+29.22/+36.54",
    ],
)  # fmt: skip
def test_what_is_no_single_number(text: str) -> None:
    assert math.isnan(parse_printed(text, "accuracy_percent").value)


def test_every_row_of_the_project_is_read() -> None:
    for work in works().values():
        for stem, rows in work.tables.items():
            with (work.folder / "tables" / f"{stem}.csv").open(newline="", encoding="utf-8") as handle:
                lines = list(csv.DictReader(handle))
            assert len(rows) == len(lines) + sum(bool(line.get("std")) for line in lines)
            assert all(row.published and row.item and row.metric for row in rows)
        assert unused_words(work) == []


def test_every_figure_with_something_to_show_has_a_claim() -> None:
    claimed = {(work.paper.source, claim.item) for work in works().values() for claim in work.claims.claims}
    for path in sorted(PAPERS.glob("*/figures.csv")):
        with path.open(newline="", encoding="utf-8") as handle:
            shown = [row for row in csv.DictReader(handle) if row["kind"] != "schematic"]
        assert [row["id"] for row in shown if (row["source"], row["figure"]) not in claimed] == []


@pytest.mark.parametrize(("key", "published"), TABLE["conventions"])
def test_numbers_that_are_not_the_standard_metric_of_their_name(key: str, published: bool) -> None:
    found = {
        row.id: (work, row) for work in works().values() for rows in work.tables.values() for row in rows
    }
    assert published_convention(*found[key]) == published


def test_a_layer_row_keeps_only_its_stated_cells() -> None:
    rows = {row.id: row for row in read_tables(PAPERS / "fidel" / "tables")["tables-1-4"]}
    assert rows["fidel.table-4.5"].published == (
        "layer=conv2d transpose; size=5,5 x 64; stride=1,1; padding=same; activation=relu"
    )
    assert rows["fidel.table-1.1"].published == "layer=input"
    assert (rows["fidel.table-1.6"].metric, rows["fidel.table-1.6"].number.value) == ("learning_rate", 0.01)


GOOD = "id,source,table,metric,value,std,note\nx.t.1,x,t,psnr,1.0,,\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [(GOOD.replace("id,", "key,", 1), r"a\.csv: line 1: id: the column is missing"),
     (GOOD + "x.t.2,x,t,psnr\n", r"a\.csv: line 3: x\.t\.2: 4 cells for 7 columns"),
     (GOOD + ",x,t,psnr,2.0,,\n", r"a\.csv: line 3: id: is empty"),
     (GOOD + "x.t.2,x,t,psnr,,,\n", r"a\.csv: line 3: value: is empty"),
     (GOOD + "x.t.2,x,,psnr,1,,\n", r"a\.csv: line 3: table: is empty"),
     (GOOD.replace("metric", "metrics"), r"a\.csv: line 2: metric: is missing"),
     ("", r"a\.csv: line 1: id: the column is missing"), ("\udcff", r"a\.csv: not a UTF-8 CSV file")],
)  # fmt: skip
def test_a_bad_file_is_named_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=message):
        read_tables(tmp_path)


def test_a_whole_number_is_rounded_to_one() -> None:
    assert parse_printed("7") == Printed(7.0, "", 0.5)


OF_UPDATES = [
    "revealed", "revealed_fraction", "exact_fraction", "revealed_cumulative", "usable_neurons",
    "isolating_neurons", "isolating_share", "pearson_unrevealed",
]  # fmt: skip


def names() -> set[str]:
    own = {"accuracy", "gap_to_random", "test_loss", *study_table.TRAINED, *study_table.WHOLE}
    return {*METRICS, *own, *study_table.SOMETIMES, *study_table.BY_RULE, *OF_UPDATES, PREFIX + "ssim"}


@pytest.mark.parametrize("metric", sorted(names()))
def test_every_metric_of_a_table_has_a_tolerance(metric: str) -> None:
    tolerance, (low, high), _ = tolerance_of(metric, 0.5)
    assert tolerance > 0
    assert low < high


@pytest.mark.parametrize(("metric", "published", "unit", "expected"), TABLE["tolerances"])
def test_tolerances_in_the_printed_unit(
    metric: str, published: float, unit: float, expected: tuple[float, tuple[float, float], bool]
) -> None:
    tolerance, bounds, monotone = tolerance_of(metric, published, unit)
    assert (tolerance, monotone) == (pytest.approx(expected[0]), expected[2])
    assert bounds == tuple(expected[1])


@pytest.mark.parametrize(("metric", "unit", "interval", "expected"), TABLE["intervals"])
def test_a_shown_interval_ends_where_the_metric_does(
    metric: str, unit: float, interval: tuple[float, float], expected: tuple[float, float]
) -> None:
    assert possible(metric, *interval, unit) == tuple(expected)


def test_no_interval_is_shown_where_there_is_none() -> None:
    assert all(map(math.isnan, possible("ssim", math.nan, math.nan)))


def test_one_dB_of_rmse_is_two_of_mse() -> None:
    # 10 log10(255² / RMSE) of a true PSNR P is (P + 20 log10 255) / 2.
    half, bounds, _ = tolerance_of("psnr_of_rmse", 28.0)
    assert half == tolerance_of("psnr", 8.0)[0] / 2
    assert bounds == pytest.approx([(p + 20 * math.log10(255)) / 2 for p in (0, 60)], abs=0.01)


def test_a_metric_without_a_line_is_named() -> None:
    with pytest.raises(UserError, match="no tolerance for 'sharpness'"):
        tolerance_of("sharpness", 1.0)


def test_no_line_is_left_of_a_metric_that_went() -> None:
    kinds = [
        "db", "share", "correlation", "model_accuracy", "count", "ratio", "deviation", "other",
        "failure_rate",
    ]  # fmt: skip
    assert [line for line in TOLERANCES if not fnmatch.filter([*names(), *kinds], line)] == []
