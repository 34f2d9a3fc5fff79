"""Grids: every image once, dead neurons marked, scores and display scaling told."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import AxesImage, imread
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from synthetic import panel

from leakbench.drawing import grid
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import save
from leakbench.drawing.tile import REVEALED, displayable
from leakbench.errors import UserError

Make = Callable[..., Result]


def images(figure: Figure) -> list[AxesImage]:
    return figure.findobj(AxesImage)


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def framed(figure: Figure) -> int:
    from matplotlib.colors import to_rgba

    return sum(patch.get_edgecolor() == to_rgba(REVEALED) for patch in figure.findobj(Rectangle))


def dead(figure: Figure) -> int:
    return sum(patch.get_gid() == "dead" for patch in figure.findobj(Rectangle))


def inside(figure: Figure) -> bool:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [text.get_window_extent(renderer) for text in figure.findobj(Text) if text.get_text()]
    return all(
        b.x0 >= 0 and b.x1 <= figure.bbox.width and b.y0 >= -1 and b.y1 <= figure.bbox.height for b in boxes
    )


@pytest.mark.parametrize(("k", "options"), [(1, {"columns": 12, "tile": 0.52}), (10, {})])
def test_samples_stand_with_their_reconstructions_and_dead_neurons_are_black(
    k: int, options: dict, result: Make, tmp_path: Path
) -> None:
    panels = [panel(0, "mnist", k, 24, "first", dead=(3, 8)), panel(1, "cifar10", k, 24, "first", dead=(5,))]
    figure = grid.samples_over_reconstructions(result(panels=panels), **options)
    assert len(images(figure)) == 2 * k + 48 - 3
    assert dead(figure) == 3
    assert texts(figure).count("dead") == 3
    assert inside(figure)
    save(figure, str(tmp_path / "out.png"))
    assert imread(tmp_path / "out.png").std() > 0.05


def test_a_frame_marks_exactly_what_is_fully_revealed(result: Make) -> None:
    about, tensors = panel(0, "mnist", 10, 24, "first", dead=(0,))
    scores = np.full(24, 0.97, np.float32)
    scores[[0, 4, 7]] = 0.99
    tensors["0/score"] = scores
    assert framed(grid.samples_over_reconstructions(result(panels=[(about, tensors)]))) == 2


def test_each_reconstruction_names_its_sample_and_score(result: Make) -> None:
    about, tensors = panel(0, "mnist", 10, 3, "best")
    tensors |= {
        "0/score": np.array([1.0, 0.9796, -0.25], np.float32),
        "0/sample": np.array([4, 9, 0], np.int64),
    }
    found = texts(grid.samples_over_reconstructions(result(panels=[(about, tensors)])))
    assert {"5 · 1.000", "10 · 0.979", "1 · −0.250"} <= set(found)


def test_channels_mark_the_sample_that_their_neuron_answers_to(result: Make) -> None:
    figure = grid.samples_over_reconstructions(
        result(panels=[panel(0, "cifar10", 10, 24, "first", "features")])
    )
    assert framed(figure) == 1
    assert any("neuron 7" in text for text in texts(figure))
    assert any("channels (all normalised for display)" in text for text in texts(figure))


def test_generator_outputs_stand_beside_each_other_in_rows_of_ten(result: Make) -> None:
    panels = [panel(0, "mnist", 10, 100, "usable"), panel(1, "cifar10", 10, 120, "usable")]
    figure = grid.samples_over_reconstructions(result(panels=panels), columns=10, tile=0.355, beside=True)
    assert len(images(figure)) == 240
    lefts = {round(float(image.get_extent()[0]), 3) for image in images(figure)}
    assert len(lefts) == 20
    assert inside(figure)


def test_pairs_put_each_reconstruction_below_its_sample(result: Make) -> None:
    panels = [panel(0, "mnist", 10, 10, "matched", dead=(3,)), panel(1, "cifar10", 10, 10, "matched")]
    figure = grid.pairs(result(panels=panels))
    assert len(images(figure)) == 39
    assert dead(figure) == 1
    assert texts(figure).count("none") == 2  # on the black tile, and in place of its score
    assert {"private", "reconstructed", "Pearson r"} <= set(texts(figure))
    assert inside(figure)


def test_ranked_pairs_say_which_is_which(result: Make) -> None:
    figure = grid.pairs(result(panels=[panel(0, "mnist", 3, 3, "worst-median-best")]))
    assert {"worst 1.000", "median 0.998", "best 0.996"} <= set(texts(figure))


def test_a_footer_states_scale_n_and_seed(result: Make) -> None:
    one = texts(
        grid.samples_over_reconstructions(result(panels=[panel(0, "mnist", 3, 2, "best")]), columns=3)
    )
    two = texts(grid.pairs(result(panels=[panel(0, "mnist", 10, 10, "matched")])))
    assert (
        "Scale quick · n = 3 private and 2 reconstructed images of one update in each panel · seed 0" in one
    )
    assert "Scale quick · n = 10 pairs in each panel · seed 0" in two


def test_tiles_that_do_not_fit_are_refused(result: Make) -> None:
    with pytest.raises(UserError, match=r"a row needs 11\.14 of 8\.60 inches"):
        grid.samples_over_reconstructions(
            result(panels=[panel(0, "mnist", 10, 24, "first")]), columns=20, tile=0.5
        )


@pytest.mark.parametrize("draw", [grid.pairs, grid.samples_over_reconstructions])
def test_no_panels_give_a_figure_that_says_why(draw: Callable[[Result], Figure], result: Make) -> None:
    assert any("Nothing to show: no images" in text for text in texts(draw(result(absent="no images"))))


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


def test_colour_channels_share_one_range() -> None:
    image = np.stack([np.full((2, 2), value, np.float32) for value in (-1, 0, 1)])
    pixels, _ = displayable(image)
    assert pixels.shape == (2, 2, 3)
    np.testing.assert_allclose(pixels[0, 0], [0, 0.5, 1])
