"""Drawings show the numbers and images that they are given (drawings.yaml)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from drawings import axes_of, drawn, of_case, panel, result, seen, texts
from matplotlib.image import AxesImage
from specs import at

from leakbench.results.figures.facet import colours
from leakbench.results.figures.sheet import MARGIN, WIDTH, draw
from leakbench.results.figures.tile import REVEALED, displayable, pearson

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
    [
        ([0.0, 0.5, 1.0, 0.25], [0.0, 0.5, 1.0, 0.25], False),
        ([-0.01, 0.5, 1.01, 0.0], [0.0, 0.5, 1.0, 0.0], False),
        ([-1.0, 0.0, 1.0, 3.0], [0.0, 0.25, 0.5, 1.0], True),
        ([7.0, 7.0, 7.0, 7.0], [0.5, 0.5, 0.5, 0.5], True),
        ([np.nan, np.inf, 1.0, 0.5], [0.0, 0.0, 1.0, 0.5], False),
    ],
)
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
