import csv
import math
import re
from pathlib import Path

import pytest

from leakbench.errors import UserError
from leakbench.scorecard.published import COLUMNS, Printed, parse_printed, read_figures, read_published

PUBLISHED = Path(__file__).parents[3] / "published"


def raw(name: str) -> list[dict[str, str]]:
    with open(PUBLISHED / name, newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle))


@pytest.mark.parametrize(
    ("text", "metric", "value", "bound", "tolerance"),
    [
        ("31.341", "psnr", 31.341, "", 0.0005),
        ("20", "fully_revealed_mean", 20, "", 0.5),
        ("+2.94", "psnr_difference_db", 2.94, "", 0.005),
        ("-2.01", "psnr_difference_db", -2.01, "", 0.005),
        ("1e-4", "lr", 1e-4, "", 0.5e-4),
        ("1e32", "factor", 1e32, "", 0.5e32),
        ("2/3", "fully_revealed_fraction", 2 / 3, "", 0),
        (">1", "fully_revealed_mean_min", 1, ">", 0.5),
        (">1", "anything", 1, ">", 0.5),
        ("<= 7", "anything", 7, "<", 0.5),
        ("13", "fully_revealed_mean_min", 13, ">", 0.5),
        ("10", "training_minutes_max", 10, "<", 0.5),
        ("50%", "psnr_gain_max", 50, "<", 0.5),
        ("2.0%", "psnr_gain", 2, "", 0.05),
        ("5x", "speedup", 5, "", 0.5),
        ("approximately 28", "psnr_as_printed", 28, "", 1),
        ("about 3", "percent", 3, "", 1),
        ("within 0.5", "percent", 0.5, "<", 0.05),
        ("35 to 50", "psnr_as_printed", 42.5, "", 7.5),
    ],
)
def test_printed_values(text: str, metric: str, value: float, bound: str, tolerance: float) -> None:
    printed = parse_printed(text, metric)
    assert printed.value == pytest.approx(value)
    assert printed.bound == bound
    assert printed.tolerance == pytest.approx(tolerance)


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
    assert parse_printed(text, "accuracy_percent").value != parse_printed(text, "accuracy_percent").value


def test_every_row_of_every_file_is_read() -> None:
    frame = read_published(PUBLISHED)
    expected = spreads = 0
    for path in PUBLISHED.glob("*.csv"):
        if path.name != "figures.csv":
            rows = raw(path.name)
            expected += len(rows)
            spreads += sum(bool(row.get("std")) for row in rows)
    assert list(frame.columns) == COLUMNS
    assert len(frame) == expected + spreads
    assert (expected - len(raw("claims.csv")), spreads, len(raw("figures.csv"))) == (1175, 72, 53)
    assert frame["id"].is_unique
    assert not (frame.drop(columns="value").isna().any().any())
    assert set(frame["kind"]) == {"number", "fact", "claim"}
    assert set(frame["convention"]) == {"", "standard", "published"}
    assert (frame["published"] != "").all()


def test_ids_tell_source_and_item() -> None:
    frame = read_published(PUBLISHED)
    for row in frame.itertuples():
        source, item, tail = row.id.split(".")
        assert (source, item) == (row.source, row.item.replace(".", "-"))
        words = r"[a-z0-9]+(-[a-z0-9]+)*" if row.kind == "claim" else r"[1-9]\d*(-std)?"
        assert re.fullmatch(words, tail), row.id


def test_every_figure_with_something_to_show_has_a_claim() -> None:
    claims = {(row["source"], row["item"]) for row in raw("claims.csv")}
    figures = read_figures(PUBLISHED)
    shown = figures[figures["kind"] != "schematic"]
    assert [row.id for row in shown.itertuples() if (row.source, row.figure) not in claims] == []


def test_claims_are_single_sentences_with_a_check() -> None:
    for row in raw("claims.csv"):
        assert row["claim"].endswith("."), row["id"]
        assert row["check"].endswith("."), row["id"]
        assert ". " not in row["check"], row["id"]


@pytest.mark.parametrize(
    ("key", "convention"),
    [
        ("thesis.table-5-6.1", "published"),
        ("thesis.table-3-4.1", "published"),
        ("thesis.table-3-16.1", "published"),
        ("thesis.table-3-11.1", "standard"),
        ("thesis.table-3-13.2-std", "published"),
        ("thesis.text-5-3-3.6", "standard"),
        ("agic.table-4.1", "standard"),
        ("agic.text-V-A.1", ""),
        ("fidel.text-abstract.1", "standard"),
        ("fidel.text-V-B.2", ""),
        ("fidel.table-1.2", ""),
    ],
)
def test_conventions(key: str, convention: str) -> None:
    frame = read_published(PUBLISHED).set_index("id")
    assert frame.loc[key, "convention"] == convention


def test_table_5_6_ssim_is_the_standard_metric_and_the_rest_is_not() -> None:
    frame = read_published(PUBLISHED)
    by_metric = (
        frame[frame["item"] == "table-5.6"].groupby("metric")["convention"].unique().map(list).to_dict()
    )
    assert by_metric.pop("ssim") == ["standard"]
    assert set(map(tuple, by_metric.values())) == {("published",)}


def test_a_layer_row_keeps_only_its_stated_cells() -> None:
    frame = read_published(PUBLISHED).set_index("id")
    assert frame.loc["fidel.table-4.5", "published"] == (
        "layer=conv2d transpose; size=5,5 x 64; stride=1,1; padding=same; activation=relu"
    )
    assert frame.loc["fidel.table-1.1", "published"] == "layer=input"
    assert frame.loc["fidel.table-1.6", "metric"] == "learning_rate"
    assert frame.loc["fidel.table-1.6", "value"] == 0.01


GOOD = "id,source,table,metric,value,std,note\nx.t.1,x,t,psnr,1.0,,\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("id,", "key,", 1), r"a\.csv: line 1: id: the column is missing"),
        (GOOD + "x.t.1,x,t,psnr,2.0,,\n", r"a\.csv: line 3: id: 'x\.t\.1' is also in a\.csv: line 2"),
        (GOOD + "x.t.2,x,t,psnr\n", r"a\.csv: line 3: x\.t\.2: 4 cells for 7 columns"),
        (GOOD + ",x,t,psnr,2.0,,\n", r"a\.csv: line 3: id: is empty"),
        (GOOD + "x.t.2,x,t,psnr,,,\n", r"a\.csv: line 3: value: is empty"),
        (GOOD + "x.t.2,x,,psnr,1,,\n", r"a\.csv: line 3: table: is empty"),
        (GOOD.replace("metric", "metrics"), r"a\.csv: line 2: metric: is missing"),
        ("id,source,item,claim,check\nx.c,x,fig-1,Something.,\n", r"a\.csv: line 2: check: is empty"),
        ("", r"a\.csv: line 1: id: the column is missing"),
        ("\udcff", r"a\.csv: not a UTF-8 CSV file"),
    ],
)
def test_a_bad_file_is_named_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=message) as problem:
        read_published(tmp_path)
    assert "\n" not in str(problem.value)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no CSV files"):
        read_published(tmp_path)
    with pytest.raises(UserError, match=r"figures\.csv: not found"):
        read_figures(tmp_path)


def test_nothing_printed_is_nan() -> None:
    assert math.isnan(parse_printed("").value)
    assert parse_printed("7") == Printed(7.0, "", 0.5)
