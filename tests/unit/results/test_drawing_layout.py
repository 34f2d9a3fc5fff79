"""One figure of each kind is laid out well: from invented results, and from those of a finished quick run."""

import ast
import json
import re

import numpy as np
import pytest
from invented import ROOT, invent, planned
from layout import faults
from nightly import first_of_each

from leakbench.base.artefacts import read_csv, read_facts
from leakbench.base.provenance import read_spec
from leakbench.jobs.figure import fullest
from leakbench.papers import reference
from leakbench.results.figures.result import Result, read_result
from leakbench.results.figures.sheet import Body, draw, lay_out

QUICK = ROOT / "results" / "quick"
EXPERIMENTS = sorted(planned().experiments)


def _drawings(name: str) -> tuple[str, ...]:
    return tuple(part.drawing for part in planned().definitions[name].figure)


# The first experiment of each kind of figure.
OF_EACH_KIND = first_of_each(EXPERIMENTS, _drawings)


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_figure_of_invented_results_has_no_fault(name: str) -> None:
    figure = draw(invent(name))
    assert figure is not None
    assert faults(figure) == []


def test_a_map_draws_what_its_experiment_measures() -> None:
    for name in EXPERIMENTS:
        experiment = planned().definitions[name]
        asked = [part.model_extra["metrics"] for part in experiment.figure if "strongest" in part.model_extra]
        assert {metric for own in asked for metric in own} <= set(experiment.metrics or ()), name


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_figure_of_the_finished_run_has_no_fault(name: str) -> None:
    table, exhibit = QUICK / "tables" / f"{name}.csv", QUICK / "exhibits" / f"{name}.safetensors"
    spec = QUICK / "specs" / "figure" / f"{name}.json"
    if not (table.is_file() and exhibit.is_file() and spec.is_file()):
        pytest.skip("needs results/quick (make reproduce)")
    frame, shown = read_csv(table, dtype=reference.TEXT), read_spec(spec)
    kept = fullest(frame, read_facts(exhibit), reference.tables(reference.files(ROOT, name)), shown)
    recorded = [str(kept.table)] if kept else []
    figure = draw(read_result(str(table), str(exhibit), str(spec), recorded=recorded))
    # Whatever is recorded is drawn.
    assert figure is not None or kept is None
    if figure is not None:
        assert faults(figure) == []


def _drawn(result: Result, body: Body) -> list[str]:
    figure = lay_out(result, [body])
    assert figure is not None
    return faults(figure)


@pytest.mark.parametrize(
    ("x", "text", "fault"), [(-0.05, "off the edge", "leaves the canvas"), (0.5, "twice", "lies over")]
)
def test_the_fault_of_a_text_is_found(x: float, text: str, fault: str) -> None:
    def paint(body: object) -> None:
        for shift in (0, 0.01):
            body.text(x + shift, 0.5, text)  # type: ignore[attr-defined]

    assert any(fault in each for each in _drawn(invent("fidel-figure-5"), Body(2, "n = 1", paint)))


def test_a_label_that_touches_its_neighbour_is_found_and_blank_paper_too() -> None:
    def paint(body: object) -> None:
        axes = body.subplots(1, 1)  # type: ignore[attr-defined]
        axes.set_xticks(
            np.arange(3), ["a label that is much too long for its own place on this axis of the figure"] * 3
        )

    found = _drawn(invent("fidel-figure-5"), Body(2, "n = 1", paint))
    assert any("lies over" in each for each in found)
    blank = _drawn(invent("fidel-figure-5"), Body(4, "n = 1", lambda body: None))
    assert any("of the paper has ink" in each for each in blank)


def printed() -> set[float]:
    """Return the numbers that papers print, to three digits or more."""
    text = " ".join(path.read_text() for path in (ROOT / "papers").glob("*/tables/*.csv"))
    numbers = {float(each) for each in re.findall(r"\d+\.\d+", text)}
    return {each for each in numbers if len(str(each).replace(".", "").lstrip("0")) >= 3}


def copied(code: str, known: set[float]) -> list[list[float]]:
    """Return the collections in a source with several printed numbers: one alone may be of a layout."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set):
            inner = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
            found.append([each for each in inner if isinstance(each, float) and each in known])
    return [each for each in found if len(each) > 1]


def test_no_number_of_a_print_stands_in_code_or_notebook() -> None:
    """What a paper prints comes through its mapping: no drawing knows a paper's numbers or its folder."""
    known = printed()
    sources = {path: path.read_text() for path in (ROOT / "src/leakbench/results/figures").glob("*.py")}
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        sources[path] = "\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    assert len(known) > 500
    for path, code in sources.items():
        assert copied(code, known) == [], path
        assert "papers/" not in code, path
    # Guards the lines above.
    one, other, *_ = sorted(known)
    assert copied(f"X = 1\nPRINTED = {{'AGIC': {one}, 'InvG': ({other}, 2)}}", known)
