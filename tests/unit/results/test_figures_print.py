"""The figures of the core works show what is printed, beside what the records measured."""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from drawings import cell, drawn, result, texts
from matplotlib.collections import FillBetweenPolyCollection
from recorded import SEED, names, printed, record, recorded, works

from leakbench.base.artefacts import read_facts
from leakbench.papers.marks import marks, sentences
from leakbench.papers.reference import EXHIBIT, Kept
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import OUTCOMES, PRINTED, TRIAL, _printed, chosen, counted

# Its record lacks the unit of the printed numbers.
UNPRINTED = {"thesis-table-3-16-longer"}
PICTURES = [f"fidel-figure-{number}" for number in (5, 6, 8, 9, 10, 11, 12)]


@pytest.fixture(scope="module")
def figures() -> dict[str, Result]:
    """Return every figure of the core works that a record measures, by experiment."""
    return {name: recorded(name) for name in names()}


def test_every_measured_print_is_drawn_and_no_figure_is_without_print(
    figures: dict[str, Result],
) -> None:
    measured = {id for each in figures.values() for id in _printed(each, False).get("id", ())}
    beside = {name: set(printed(each)) for name, each in figures.items()}
    assert len(measured) > 300
    assert measured - set().union(*beside.values()) == set()
    items = [name for name, each in figures.items() if each.spec["item"].startswith(("fig", "table"))]
    assert len(items) > 40
    assert {name for name in items if not (figures[name].said or beside[name])} == UNPRINTED


def test_table_3_4_has_both_attacks_and_both_numbers(figures: dict[str, Result]) -> None:
    (part,) = figures["thesis-table-3-4"].spec["figure"]
    rows = chosen(figures["thesis-table-3-4"], part["metrics"])
    pairs = {(row["dataset"], row["attack"], row["victim"]) for row in rows.to_dict("records")}
    sets, victims = ("mnist-32", "cifar100", "lfw-32"), ("lenet-dlg", "lenet-dlg-converged")
    assert {*itertools.product(sets, ("dlg", "grnn"), victims)} <= pairs
    assert (rows["baseline"] == PRINTED).sum() == 10
    assert (rows["baseline"] == OUTCOMES["failure"]).sum() == 2


def test_table_3_6_is_one_map_of_eight_by_nine(figures: dict[str, Result]) -> None:
    whole = figures["thesis-table-3-6"]
    both = {id for id in printed(whole) if id.startswith("thesis.table-3-6.")}
    # All but the nine squares that the thesis prints as not run.
    assert both == {f"thesis.table-3-6.{n}" for n in range(1, 73)} - {
        row.id for work in works() for row in work.tables.get("table-3-6", ()) if row.published == "not run"
    }
    figure = drawn(whole)
    assert sum(text in ("printed ✓", "printed ✗") for text in texts(figure)) == len(both)
    folded = {" ".join(text.split()) for text in texts(figure)}
    assert {"DLG LeNet MNIST", "GRNN ResNet-18 LFW", "256 images"} <= folded


@pytest.mark.parametrize("name", PICTURES)
def test_a_record_of_pictures_keeps_them_at_its_own_scale(name: str) -> None:
    kept = record(name)
    exhibit = kept.beside(EXHIBIT)
    assert read_facts(exhibit)["scale"] == kept.scale == "standard"
    # Figures 11 has MNIST alone.
    sets = {panel["dataset"] for panel in read_facts(exhibit)["panels"]}
    assert sets == ({"mnist"} if name == "fidel-figure-11" else {"mnist", "cifar10"})


def test_later_pictures_say_where_they_are_from(figures: dict[str, Result]) -> None:
    assert "pictures of the same run repeated on cpu: AMD EPYC" in figures["fidel-figure-5"].recorded
    assert "pictures" not in figures["fidel-figure-6"].recorded


def test_marks_have_outcomes_and_numbers_that_are_drawn_elsewhere() -> None:
    found = marks(works(), "thesis-table-3-4").set_index("id")
    assert found.loc["thesis.table-3-4.2", ["word", "metric"]].tolist() == ["failure", "ssim"]
    assert found.loc["thesis.table-3-4.1", "value"] == 53.67
    assert {"thesis.fig-3-5.3", "thesis.fig-3-5.4"} <= set(marks(works(), "thesis-figure-3-5")["id"])


def test_a_printed_row_is_drawn_beside_a_longer_run_too() -> None:
    row = "thesis.table-3-6.29"
    for name, attack in (("thesis-table-3-6", "grnn"), ("thesis-table-3-6-longer", "grnn-longer")):
        mark = marks(works(), name).set_index("id").loc[row]
        assert (mark["word"], mark["attack"]) == ("success", attack)
    assert marks(works(), "leakbench-matrix").empty


def test_sentences_are_those_of_the_item() -> None:
    found = sentences(works(), "grnn", "table-3.15-batches", "x")
    assert {id.rpartition(".")[0] for id in found["id"]} == {"thesis.table-3-15"}
    assert sentences(works(), "fidel", "fig-1", "x").empty
    assert sentences(works(), "grnn", "text-3.3.5", "x").empty
    assert set(SEED) <= {work.name for work in works()}


def texts_of(given: Result) -> str:
    return " ".join(" ".join(texts(drawn(given))).split())


MARK = {"attack": "grnn", "metric": "ssim", "convention": "standard", "id": "a", "value": math.nan}


def test_medians_and_quartiles_replace_means_and_intervals() -> None:
    given = result([cell(median=11.0, q25=10.0, q75=12.0)])
    assert chosen(given, ["psnr"])["mean"].tolist() == [20.0]
    (row,) = chosen(given, ["psnr"], medians=["psnr"]).to_dict("records")
    assert (row["mean"], row["ci_low"], row["ci_high"]) == (11.0, 10.0, 12.0)
    rows = chosen(given, ["psnr"], medians=["psnr"])
    assert "medians and quartiles of PSNR (dB)" in counted(rows, medians=["psnr"])
    assert "95 %" not in counted(rows, medians=["psnr"])


def test_single_trials_are_small_dots(figures: dict[str, Result]) -> None:
    whole = figures["thesis-table-5-1-lenet-centralised"]
    rows = chosen(whole, ["accuracy"], baselines=["", TRIAL], convention="published")
    locked = rows[(rows["defence"] == "key-lock") & (rows["key"] == "own") & rows["client"].isna()]
    values = locked.loc[locked["baseline"] == TRIAL, "mean"]
    assert len(values) == 5
    # Four of the five trainings are fine, and one is closed: their mean shows neither.
    assert np.sort(values)[0] < 0.3 < 0.95 < np.sort(values)[1]
    assert "small dots: single runs" in texts_of(whole)


def test_a_map_has_the_records_of_other_experiments(tmp_path: Path) -> None:
    drawing = {"drawing": "squares", "metrics": ["psnr"], "down": ["attack"], "across": ["victim"]}
    other = result(
        [cell(attack="dlg", mean=7.5)],
        marks=pd.DataFrame([MARK | {"metric": "psnr", "value": 9.25, "victim": "lenet-dlg"}]),
    )
    both = result([cell()], drawing | {"beside": ["other"]}, others={"other": other})
    said = texts(drawn(both))
    assert {"7.5", "20", "printed 9.25"} <= set(said)
    assert "with the records of other" in " ".join(said)
    assert "7.5" not in texts(drawn(result([cell()], drawing, others={"other": other})))


def test_many_pairs_of_a_record_stand_below_their_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = Kept.beside
    monkeypatch.setattr(Kept, "beside", lambda self, of: None if of == EXHIBIT else beside(self, of))
    said = texts(drawn(recorded("thesis-table-5-7")))
    assert {"DLG's LeNet with batch norm", "key-lock"} <= set(said)
    assert "so that cells have other images" in " ".join(" ".join(said).split())


def test_a_curve_without_bands_or_markers_has_neither_in_the_legend(figures: dict[str, Result]) -> None:
    whole = figures["thesis-figure-3-5"]
    assert "95 %" not in texts_of(whole)
    figure = drawn(whole)
    bands = figure.findobj(FillBetweenPolyCollection)
    assert not any(len(path.vertices) for band in bands for path in band.get_paths())
    handles = [each for part in figure.subfigs for legend in part.legends for each in legend.legend_handles]
    named = {each.get_label(): each.get_marker() for each in handles if each is not None}
    assert named["DLG"] == named["GRNN"] == ""


def test_updates_that_are_alike_have_a_narrow_interval() -> None:
    whole = recorded("peeling-table-2")
    wide, narrow = (
        chosen(whole, ["exact"], over_updates=each).query("baseline == '' and mean > 0.95").iloc[0]
        for each in (False, True)
    )
    assert wide["mean"] == narrow["mean"]
    assert wide["ci_low"] < narrow["ci_low"] <= narrow["mean"] <= narrow["ci_high"] <= 1
    assert 2 * (narrow["ci_high"] - narrow["ci_low"]) < wide["ci_high"] - wide["ci_low"]
