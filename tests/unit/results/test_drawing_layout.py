"""No label of a figure touches another, and each kind of drawing shows what it is given."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from drawings import axes_of, drawn, of_case, panel, result, seen, texts
from invented import ROOT, invent
from layout import faults
from matplotlib.image import AxesImage
from nightly import first_of_each
from specs import at

from leakbench.base.artefacts import read_csv, read_facts
from leakbench.base.provenance import read_spec
from leakbench.catalogue.load import load_kind
from leakbench.jobs.figure import fullest
from leakbench.papers import reference
from leakbench.results.figures.facet import colours
from leakbench.results.figures.result import Result, read_result
from leakbench.results.figures.sheet import MARGIN, WIDTH, Body, draw, lay_out
from leakbench.results.figures.tile import REVEALED, displayable, pearson

QUICK = ROOT / "results" / "quick"
EXPERIMENTS = load_kind(ROOT / "config", "experiments")


def _drawings(name: str) -> tuple[str, ...]:
    return tuple(part.drawing for part in EXPERIMENTS[name].figure)


# The first experiment of each kind of figure.
OF_EACH_KIND = first_of_each(sorted(EXPERIMENTS), _drawings)


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_a_figure_of_invented_results_has_no_fault(name: str) -> None:
    figure = draw(invent(name))
    assert figure is not None
    assert faults(figure) == []


def test_a_map_draws_what_its_experiment_measures() -> None:
    for name, experiment in EXPERIMENTS.items():
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


CASES = yaml.safe_load(Path(__file__).with_name("drawings.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["shows"]))
def test_a_drawing_shows(case: dict[str, Any]) -> None:
    figure = draw(of_case(case))
    wanted = case.get("is", {})
    assert (figure is None) == (wanted is None)
    if figure is not None:
        found = seen(figure)
        assert {keys: at(found, keys) for keys in wanted} == wanted
        for words in (*case.get("has", ()), *case.get("lacks", ())):
            within = words[0] == "~" and any(words[1:] in " ".join(text.split()) for text in found["texts"])
            assert (within or words in found["texts"]) is (words in case.get("has", ())), words


def test_a_frame_is_red() -> None:
    red, green, blue = (int(REVEALED[k : k + 2], 16) for k in (1, 3, 5))
    assert red > 2 * max(green, blue)


def test_only_the_best_of_many_are_shown_in_the_order_of_their_samples() -> None:
    one = panel(2, 40, rule="usable", score=np.linspace(0, 0.9, 40), sample=np.arange(40) % 2)
    found = seen(drawn(result(drawing={"drawing": "grid", "most": 4}, panels=[one])))
    assert found["images"] == 2 + 4
    best = [text for text in found["texts"] if " · 0." in text]
    assert best == ["1 · 0.877", "1 · 0.831", "2 · 0.900", "2 · 0.854"]
    assert any("the 4 with the highest r" in text for text in found["texts"])


def test_tiles_that_do_not_fit_go_on_below() -> None:
    figure = drawn(result(drawing={"drawing": "grid", "tile": 0.5}, panels=[panel(1, 40, rule="first")]))
    places = [image.get_extent() for image in figure.findobj(AxesImage)]
    assert len({top for *_, top in places}) == 4
    assert max(right for _, right, *_ in places) < WIDTH - MARGIN
    assert texts(figure).count("reconstructions (values as received)") == 1


def test_a_map_for_each_training_after_the_data_of_a_federation() -> None:
    rng, tensors, about = np.random.default_rng(0), {}, []
    for place, (name, clients) in enumerate((("gaussians-centralised", 1), ("gaussians-code", 2))):
        tensors[f"{place}/surface"] = np.linspace(0, 1, 49).reshape(7, 7)
        for group in (*range(clients), "test"):
            tensors[f"{place}/points/{group}"] = np.c_[rng.normal(size=(20, 2)), np.arange(20) % 2]
        about.append({"training": name, "seed": 0, "extent": [-3, 3, -3, 3], "round": 4, "clients": clients})
        about[-1] |= {"apart": place / 10, "accuracy": 0.88}
    figure = drawn(result(drawing={"drawing": "boundaries"}, tensors=tensors, facts={"boundaries": about}))
    axes = axes_of(figure)
    assert [each.get_title("left") for each in axes] == [
        "points of client 0", "points of client 1", "test points", "centralised\n88.0% right",
        "FedBoosting, code\n88.0% right, 10.0% apart",
    ]  # fmt: skip
    np.testing.assert_array_equal(axes[3].images[0].get_array(), tensors["0/surface"])


def test_words_stand_beside_what_was_read() -> None:
    tensors = {"words/svt": np.full((2, 32, 100), 90, np.uint8)}
    read = [{"dataset": "svt", "training": "text-800", "tested": "svt", "round": 3}]
    read[0] |= {"words": ["HOTEL", "BANK"], "read": ["HOTEL", ""]}
    figure = drawn(result(drawing={"drawing": "word-examples"}, tensors=tensors, facts={"examples": read}))
    pictures, readings = axes_of(figure)
    assert seen(figure)["axes"][0]["left"] == ["HOTEL", "BANK"]
    assert pictures.images[0].get_array().shape == (64, 100)
    assert seen(figure)["axes"][1]["cells"] == ["HOTEL", "–"]
    assert readings.collections[0].get_array().ravel().tolist() == [False, True]


@pytest.mark.parametrize(
    ("values", "shown", "rescaled"),
    [([0.0, 0.5, 1.0, 0.25], [0.0, 0.5, 1.0, 0.25], False),
     ([-0.01, 0.5, 1.01, 0.0], [0.0, 0.5, 1.0, 0.0], False),
     ([-1.0, 0.0, 1.0, 3.0], [0.0, 0.25, 0.5, 1.0], True), ([7.0, 7.0, 7.0, 7.0], [0.5, 0.5, 0.5, 0.5], True),
     ([np.nan, np.inf, 1.0, 0.5], [0.0, 0.0, 1.0, 0.5], False)],
)  # fmt: skip
def test_an_image_is_normalised_only_when_it_leaves_the_range(
    values: list[float], shown: list[float], rescaled: bool
) -> None:
    pixels, was = displayable(np.array(values, np.float32).reshape(1, 2, 2))
    np.testing.assert_allclose(pixels.ravel(), shown, atol=1e-6)
    assert was == rescaled


def test_colour_channels_share_one_range_and_an_undefined_score_says_so() -> None:
    image = np.stack([np.full((2, 2), value, np.float32) for value in (-1, 0, 1)])
    pixels, _ = displayable(image)
    np.testing.assert_allclose(pixels[0, 0], [0, 0.5, 1])
    assert pearson(float("nan")) == "undefined"


def test_no_line_is_too_pale_on_white() -> None:
    names = [*"abcdefghij"]
    rgb = np.array([colours(names, [])[name] for name in names])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert len(np.unique(rgb, axis=0)) == len(names)
    assert (1.05 / (luminance + 0.05)).min() > 2.2
