"""Images: every one once, dead neurons black, leaks framed in red, scores and display scaling stated."""

from dataclasses import replace

import numpy as np
import pytest
from drawings import axes_of, drawn, framed, panel, result, texts
from matplotlib.image import AxesImage

from leakbench.results.figures.sheet import MARGIN, WIDTH, draw
from leakbench.results.figures.tile import REVEALED, displayable, pearson

GRID, SIDE = {"drawing": "grid"}, {"drawing": "side-by-side"}


def _images(figure: object) -> int:
    return len(figure.findobj(AxesImage))  # type: ignore[attr-defined]


def test_a_leak_has_a_red_frame() -> None:
    red, green, blue = (int(REVEALED[k : k + 2], 16) for k in (1, 3, 5))
    assert red > 2 * green
    assert red > 2 * blue
    assert framed(drawn(result(drawing=GRID, panels=[panel(2, 4, rule="first")]))) == 1


@pytest.mark.parametrize("k", [1, 3])
def test_samples_stand_with_their_reconstructions_and_dead_neurons_are_black(k: int) -> None:
    one = panel(k, 12, rule="first")
    one.usable[[3, 8]] = False
    figure = drawn(result(drawing=GRID | {"tile": 0.5}, panels=[one]))
    assert _images(figure) == k + 12 - 2
    assert texts(figure).count("none") == 2


def test_each_reconstruction_names_its_sample_and_score() -> None:
    one = replace(panel(10, 3), score=np.array([1.0, 0.9796, -0.25]), sample=np.array([4, 9, 0]))
    found = texts(drawn(result(drawing=GRID, panels=[one])))
    assert {"5 · 1.000", "10 · 0.979", "1 · −0.250"} <= set(found)


def test_channels_mark_the_sample_that_their_neuron_answers_to() -> None:
    one = panel(10, 24, target="features", neuron=7, rule="first")
    one = replace(one, sample=np.full(24, 3), guess=3 * one.guess - 1)
    figure = drawn(result(drawing=GRID, panels=[one]))
    assert framed(figure) == 1
    assert any("neuron 7" in text for text in texts(figure))
    assert any("channels (" in text and "normalised" in text for text in texts(figure))


def test_only_the_best_of_many_are_shown_in_the_order_of_their_samples() -> None:
    one = replace(panel(2, 40, rule="usable"), score=np.linspace(0, 0.9, 40), sample=np.arange(40) % 2)
    figure = drawn(result(drawing=GRID | {"most": 4}, panels=[one]))
    assert _images(figure) == 2 + 4
    assert [text for text in texts(figure) if " · 0." in text] == [
        "1 · 0.877",
        "1 · 0.831",
        "2 · 0.900",
        "2 · 0.854",
    ]
    assert any("the 4 with the highest r" in text for text in texts(figure))


def test_tiles_that_do_not_fit_go_on_below() -> None:
    one = panel(1, 40, rule="first")
    figure = drawn(result(drawing=GRID | {"tile": 0.5}, panels=[one]))
    places = [image.get_extent() for image in figure.findobj(AxesImage)]
    assert len({top for *_, top in places}) == 4
    assert max(right for _, right, *_ in places) < WIDTH - MARGIN
    assert texts(figure).count("reconstructions (values as received)") == 1


def test_private_images_stand_once_beside_every_attack() -> None:
    panels = [panel(attack=a, defence=d) for d in ("none", "sign") for a in ("dlg", "grnn")]
    figure = drawn(result(drawing=SIDE, panels=panels))
    assert _images(figure) == 2 + 4 * 2
    assert framed(figure) == 4
    assert {"MNIST at 32×32 · DLG's LeNet", "private", "DLG", "GRNN", "no defence", "sign"} <= set(
        texts(figure)
    )


def test_many_images_of_one_condition_have_a_line_for_each_attack() -> None:
    figure = drawn(
        result(drawing=SIDE | {"most": 6}, panels=[panel(8, 8, attack=a) for a in ("dlg", "grnn", "invg")])
    )
    assert _images(figure) == 4 * 6
    assert {"private", "DLG", "GRNN", "InvG"} <= set(texts(figure))


def test_panels_can_be_chosen_and_short_runs_are_not_shown() -> None:
    panels = [panel(attack=a) for a in ("dlg", "grnn")]
    assert _images(drawn(result(drawing=SIDE | {"where": {"attack": "dlg"}}, panels=panels))) == 4
    parts = {"attack": [{"name": "grnn", "parameters": {"iterations": 10**6}}]}
    assert _images(drawn(result(drawing=SIDE, panels=panels, parts=parts))) == 4


def test_ranked_pairs_say_which_is_which() -> None:
    figure = drawn(result(drawing=SIDE, panels=[panel(3, 3, rule="worst-median-best")]))
    assert {"worst 1.000", "median 0.500", "best 0.500"} <= set(texts(figure))


def test_a_readingsfor_each_training_after_the_data_of_a_federation() -> None:
    rng, tensors, about = np.random.default_rng(0), {}, []
    for place, (name, clients) in enumerate((("gaussians-centralised", 1), ("gaussians-code", 2))):
        tensors[f"{place}/surface"] = np.linspace(0, 1, 49).reshape(7, 7)
        for group in (*range(clients), "test"):
            tensors[f"{place}/points/{group}"] = np.c_[rng.normal(size=(20, 2)), np.arange(20) % 2]
        about.append(
            {
                "training": name,
                "seed": 0,
                "extent": [-3, 3, -3, 3],
                "round": 4,
                "clients": clients,
                "apart": place / 10,
                "accuracy": 0.88,
            }
        )
    figure = drawn(result(drawing={"drawing": "boundaries"}, tensors=tensors, facts={"boundaries": about}))
    axes = axes_of(figure)
    assert [each.get_title("left") for each in axes] == [
        "points of client 0", "points of client 1", "test points", "centralised\n88.0% right",
        "FedBoosting, code\n88.0% right, 10.0% apart",
    ]  # fmt: skip
    np.testing.assert_array_equal(axes[3].images[0].get_array(), tensors["0/surface"])


def test_words_stand_beside_what_was_read() -> None:
    tensors = {"words/svt": np.full((2, 32, 100), 90, np.uint8)}
    read = [
        {
            "dataset": "svt",
            "training": "text-800",
            "tested": "svt",
            "round": 3,
            "words": ["HOTEL", "BANK"],
            "read": ["HOTEL", ""],
        }
    ]
    figure = drawn(result(drawing={"drawing": "word-examples"}, tensors=tensors, facts={"examples": read}))
    pictures, readings = axes_of(figure)
    assert [label.get_text() for label in pictures.get_yticklabels()] == ["HOTEL", "BANK"]
    assert pictures.images[0].get_array().shape == (64, 100)
    assert [text.get_text() for text in readings.texts] == ["HOTEL", "–"]
    assert readings.collections[0].get_array().ravel().tolist() == [False, True]


@pytest.mark.parametrize("drawing", ["grid", "side-by-side", "boundaries", "word-examples"])
def test_without_pictures_there_is_no_figure(drawing: str) -> None:
    assert draw(result(drawing={"drawing": drawing})) is None


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
