"""Which rows a drawing shows, what they are called, and how a notebook runs here."""

import math
import os
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from drawings import cell, result
from nbformat import NotebookNode

from leakbench.results.figures import in_process, words
from leakbench.results.figures.rows import (
    DECIBELS,
    PRINTED,
    chosen,
    counted,
    levels,
    missing,
    named,
    ordered,
    word,
)

LONG = {"attack": [{"name": "grnn", "parameters": {"objective": {"layer-weights": {"beta": 5}}}}]}


def test_a_metric_a_baseline_and_a_condition_are_chosen() -> None:
    others = {"metric": "ssim", "baseline": "random-noise", "defence": "prune", "convention": "published"}
    rows = [cell(), *(cell(**{column: value}) for column, value in others.items())]
    found = chosen(result(rows), ["psnr"], where={"defence": ["none"]})
    assert len(found) == 1
    assert len(chosen(result(rows), ["psnr"], baselines=["", "random-noise"])) == 3
    # A metric of one convention alone needs none to be named.
    assert len(chosen(result([cell(metric="rmse_255", convention="published")]), ["rmse_255"])) == 1


def test_an_exact_copy_does_not_squeeze_all_others() -> None:
    found = chosen(result([cell(mean=155.0, ci_low=150.0, ci_high=math.inf)]), ["psnr"])
    assert found[["mean", "ci_low", "ci_high"]].to_numpy().tolist() == [[DECIBELS] * 3]
    assert "PSNR is cut at 60 dB" in counted(found)


@pytest.mark.parametrize(("n", "there"), [(2, False), (3, True)])
def test_few_values_have_no_interval(n: int, there: bool) -> None:
    found = chosen(result([cell(n=n)]), ["psnr"])
    assert found[["ci_low", "ci_high"]].notna().all(axis=None) == there


def test_columns_follow_from_others() -> None:
    rows = [cell(defence=name) for name in ("none", "gaussian-1e-2", "laplacian")]
    columns = {
        "noise": {"by": "defence", "none": "0", "*-1e-2": "0.01", "else": "0.1"},
        "kind": {
            "by": "defence", "none": ["Gaussian", "Laplacian"], "gauss*": "Gaussian", "else": "Laplacian",
        },
        "both": {"by": ["defence", "attack"], "none | grnn": "plain"},
        "beta": {"by": "attack", "parameter": "objective.layer-weights.beta"},
    }  # fmt: skip
    found = chosen(result(rows, parts=LONG), ["psnr"], columns=columns)
    assert found[["noise", "kind"]].to_numpy().tolist() == [
        ["0", "Gaussian"], ["0", "Laplacian"], ["0.01", "Gaussian"], ["0.1", "Laplacian"],
    ]  # fmt: skip
    assert found["both"].tolist() == ["plain", "plain", "gaussian-1e-2 | grnn", "laplacian | grnn"]
    assert set(found["beta"]) == {5}
    assert levels(result(), found, "noise", columns) == ["0", "0.01", "0.1"]


def test_rows_stand_in_the_order_of_the_experiment_and_numbers_by_size() -> None:
    rows = pd.DataFrame([cell(attack="dlg", local_samples=4), cell(local_samples=16), cell(local_samples=4)])
    given = result(parts={"attack": [{"name": "grnn"}, {"name": "dlg"}]})
    assert ordered(given, rows, ["attack", "local_samples"])["local_samples"].tolist() == [4, 16, 4]
    assert levels(given, rows, "local_samples") == [4, 16]


def test_parts_have_their_titles_unless_the_experiment_gives_its_own() -> None:
    rows = pd.DataFrame([cell(defence="prune", client=math.nan)])
    titles = {"dataset": [{"name": "mnist-32", "title": "MNIST at 32×32"}]}
    given = result(parts=titles | {"defence": [{"name": "prune", "title": "prune to 10%"}]})
    assert named(given, rows, ["dataset", "defence", "client"]).tolist() == ["MNIST at 32×32 · prune to 10%"]
    text = {"prune": "a tenth", "": "all clients"}
    assert named(given, rows, ["defence", "client"], text).tolist() == ["a tenth · all clients"]
    assert named(given, rows, []).tolist() == [""]
    assert word(given, "tested", "mnist-32") == "MNIST at 32×32"
    assert word(given, "tested", "svt") == "svt"


def test_absent_data_sets_are_named_once_and_other_reasons_stay() -> None:
    cells = {
        "cifar100/v/f/none/dlg/0": "cifar100 is absent: tried a mirror (put it somewhere)",
        "cifar100/v/f/none/grnn/0": "cifar100: no images of the split test",
        "mnist/v/f/none/grnn/0": "needs paper scale: too long",
    }
    parts = {"dataset": [{"name": "cifar100", "title": "CIFAR-100"}]}
    found = missing(result(facts={"absent_cells": cells}, parts=parts))
    assert found == "the data sets CIFAR-100 are not here; needs paper scale: too long"
    assert missing(result()) == ""


def test_a_printed_number_takes_the_place_of_its_row() -> None:
    rows = [cell(client=0, attack="dlg"), cell(client=0), cell(client=math.nan), cell(metric="ssim")]
    mark = {"client": None, "metric": "psnr", "convention": "standard"}
    values = {"grnn": 25.0, "invg": 9.0}
    marks = pd.DataFrame([mark | {"attack": name, "value": each} for name, each in values.items()])
    found = chosen(result(rows, marks=marks), ["psnr"])
    printed = found[found["baseline"] == PRINTED]
    assert printed["mean"].tolist() == [25.0]
    assert printed["client"].isna().all()
    assert printed["ci_low"].isna().all()
    assert PRINTED not in set(chosen(result(marks=pd.DataFrame()), ["psnr"])["baseline"])


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [("local_samples", "4", "4 images"), ("client", "1", "client 1"), ("pass", "0", "pass 1"),
     ("noise", "1e-1", "1e-1"), ("client", "", ""), ("metric", "lock_share", "lock share")],
)  # fmt: skip
def test_values_of_any_column(column: str, value: str, text: str) -> None:
    assert words.called(column, value) == text


def test_a_threat_model_of_several_cells_hides_no_difference() -> None:
    cells = {
        "a": {"defence": "none", "labels": "known", "threat model": "curious"},
        "b": {"defence": "noise", "labels": "known", "threat model": "curious"},
    }
    assert words.threat(cells) == "curious; labels: known; defence: none or noise"
    assert words.threat(cells["a"]) == "curious; labels: known; defence: none"
    assert words.threat({}) == ""


def test_counts_and_lists() -> None:
    assert (words.listed([1, 2, 3]), words.listed(list(range(10)))) == ("1, 2, 3", "0, 1 … 9")
    assert (words.span([200, 20.0, math.nan]), words.span([5]), words.span([])) == ("20 to 200", "5", "0")


def run(folder: Path, *sources: str, **values: object) -> str:
    """Run a notebook of these sources, and return which cell failed."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = nbformat.v4.new_notebook(cells=[*cells], metadata={"kernelspec": spec})
    whole.cells.insert(1, nbformat.v4.new_markdown_cell("Words."))
    nbformat.write(whole, folder / "in.ipynb")
    return in_process.run(folder / "in.ipynb", folder / "out.ipynb", values)


def code(folder: Path) -> list[NotebookNode]:
    done = nbformat.read(folder / "out.ipynb", 4)
    nbformat.validate(done)
    return [cell for cell in done.cells if cell.cell_type == "code"]


def test_cells_share_names_and_parameters_replace_those_of_the_notebook(tmp_path: Path) -> None:
    shown = ("import os, pandas as pd", "pd.DataFrame({'a': [1]})", "os.getpid()", "None", "")
    assert not run(tmp_path, "x = 1", "y = x + 1", "print(y)\ny * 10", *shown, x=4)
    cells = code(tmp_path)
    assert [cell.execution_count for cell in cells] == list(range(1, 10))
    printed, last = cells[3].outputs
    assert (printed.name, printed.text) == ("stdout", "5\n")
    assert (last.output_type, last.data, last.execution_count) == ("execute_result", {"text/plain": "50"}, 4)
    # The last value is shown in every form that it has, and None is not shown.
    assert set(cells[5].outputs[0].data) == {"text/plain", "text/html"}
    assert [cells[n].outputs for n in (0, 1, 2, 4, 7, 8)] == [[]] * 6
    # The cells run in this process.
    assert cells[6].outputs[0].data["text/plain"] == str(os.getpid())


@pytest.mark.parametrize(
    ("source", "name"), [("1 / 0", "ZeroDivisionError"), ("1 +", "SyntaxError"), ("%time", "SyntaxError")]
)
def test_a_cell_that_fails_is_the_last_that_runs(source: str, name: str, tmp_path: Path) -> None:
    failed = run(tmp_path, "x = 1", source, f"open({str(tmp_path / 'ran')!r}, 'w')", x=4)
    assert failed.startswith(f"cell 3: {name}: ")
    assert not (tmp_path / "ran").exists()
    assert code(tmp_path)[2].outputs[-1].output_type == "error"
