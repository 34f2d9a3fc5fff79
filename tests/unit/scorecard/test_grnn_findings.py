"""Chapter 3 of Ren's thesis: every number and claim that an experiment measures has its finding."""

import grnn_world as world
import pandas as pd
import pytest

from leakbench.scorecard.evidence import Absent
from leakbench.scorecard.grnn import findings
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard


def card(tables: dict[str, pd.DataFrame], absent: Absent | None = None) -> pd.DataFrame:
    frame = read_published(world.PUBLISHED)
    return scorecard(frame, findings(tables, world.facts(), absent)).set_index("id")


@pytest.fixture(scope="module")
def held() -> pd.DataFrame:
    """The scorecard of a world in which the thesis holds."""
    found = findings(world.tables(), world.facts())
    return card(world.tables()).loc[list(found)]


def test_in_a_world_in_which_the_thesis_holds_numbers_are_reproduced(held: pd.DataFrame) -> None:
    lost = held[~held["verdict"].isin(["reproduced", "not-run"])]
    # Contradictions within the thesis: swapped batches in the text, averages that do not follow from their cells, images
    # called recognisable at a printed quality below that of batches called failures.
    # And GRNN is below DLG in one of the four cells that should say that it is above.
    expected = {
        "thesis.text-3-3-2-1.2",
        "thesis.text-3-3-2-1.3",
        "thesis.doubt-12.resnet-batches",
        "thesis.table-3-15.identifiable",
    }
    averages = {name for name in lost.index if ".table-3-13." in name}
    # Single samples are printed, and means are measured.
    samples = {name for name in lost.index if name.startswith("thesis.table-3-11.") and name[-1].isdigit()}
    assert set(lost.index) - averages - samples == expected
    assert len(averages) <= 2


def test_what_the_source_did_not_run_is_not_asked_of_us(held: pd.DataFrame) -> None:
    left = held[held["verdict"] == "not-run"]
    assert left["reason"].str.contains("not run by the source|does not name|no privacy budget").all()


def test_an_absent_data_set_is_the_reason(held: pd.DataFrame) -> None:
    tables = world.tables()
    for name, rows in tables.items():
        tables[name] = rows[rows["dataset"] == "mnist-32"]
    cells = [f"lfw-32/lenet-dlg/grnn-faces/none/{attack}/0" for attack in ("dlg", "grnn")]
    absent = {name: dict.fromkeys(cells, "lfw-32 is not to be had") for name in tables}
    found = card(tables, absent)
    assert found.loc["thesis.table-3-4.1", "verdict"] == "reproduced"
    missing = found.loc["thesis.table-3-4.5"]
    assert missing["verdict"] == "not-run"
    assert missing["reason"] == "lfw-32 is not to be had"


@pytest.mark.parametrize(
    ("experiment", "metric", "where", "value", "key", "verdict"),
    [
        ("thesis-table-3-4", "ssim", {"attack": "dlg", "victim": "lenet-dlg-converged"}, 0.9, "thesis.table-3-4.2", "reproduced"),
        ("thesis-table-3-4", "psnr_uint8_wrap", {"attack": "grnn"}, 20.0, "thesis.table-3-4.7", "differs"),
        ("thesis-figure-3-3", "identified", {"attack": "grnn"}, 0.2, "thesis.table-3-6.25", "differs"),
        ("thesis-figure-3-3", "ssim", {"attack": "grnn"}, 0.3, "thesis.fig-3-3.grnn-converges", "differs"),
        ("thesis-table-3-12", "psnr", {"attack": "grnn"}, 30.0, "thesis.table-3-12.full-loss-best", "differs"),
        ("thesis-table-3-16", "ssim", {"attack": "grnn"}, 0.9, "thesis.fig-3-6.fails-at-strong-noise", "differs"),
        ("thesis-figure-3-3", "label_accuracy", {"attack": "grnn"}, 0.5, "thesis.doubt-17.label-tie", "differs"),
    ],
)  # fmt: skip
def test_other_measurements_change_the_verdict(
    experiment: str, metric: str, where: dict[str, str], value: float, key: str, verdict: str
) -> None:
    tables = world.tables()
    table = tables[experiment]
    rows = (table["metric"] == metric) & (table["baseline"] == "")
    for column, wanted in where.items():
        rows &= table[column] == wanted
    assert rows.any()
    table.loc[rows, ["mean", "ci_low", "ci_high"]] = value
    assert card(tables).loc[key, "verdict"] == verdict


def test_short_runs_decide_no_claim() -> None:
    tables = world.tables()
    tables["thesis-table-3-12"]["iterations"] = 10
    found = card(tables).loc["thesis.table-3-12.full-loss-best"]
    assert found["verdict"] == "not-run"
    assert "after 10 of 1,000 iterations" in found["reason"]


def test_deviations_are_measured_over_updates(held: pd.DataFrame) -> None:
    # Ten batches of four with one wrong label among them.
    one = held.loc["thesis.table-3-13.2-std"]
    assert (one["measured"], one["n"], one["verdict"]) == (0.075, 10, "reproduced")
    assert one["ci_low"] < 0.075 < one["ci_high"]
    average = held.loc["thesis.table-3-13.27-std"]
    assert average["measured"] == pytest.approx(0.24766, abs=1e-5)


def test_one_update_has_no_deviation() -> None:
    tables = world.tables()
    rows = tables["thesis-figure-3-3"]
    four = rows["federation"].str.endswith("-batch4")
    tables["thesis-figure-3-3"] = rows.assign(std=rows["std"].where(~four), n=rows["n"].where(~four, 4))
    found = card(tables).loc[["thesis.table-3-13.2-std", "thesis.table-3-13.9-std"]]
    assert (found["verdict"] == "not-run").all()
    assert found["reason"].str.contains("one update has no deviation").all()
