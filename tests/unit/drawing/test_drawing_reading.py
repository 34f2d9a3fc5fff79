"""Figures of studies that read words: axes for each test set, a curve for each way to train."""

from collections.abc import Callable

from synthetic import readings, trainings

from leakbench.drawing.reading import read_words
from leakbench.drawing.result import Result


def test_each_test_set_has_its_axes_and_each_way_its_curve(result: Callable[..., Result]) -> None:
    figure = read_words(result(readings()))
    every = figure.subfigs[1].axes
    assert [axes.get_title(loc="left") for axes in every] == [
        "read from plain words (stand-in)", "read from SVT", "read from IIIT5K",
    ]  # fmt: skip
    for axes in every:
        first, second = axes.lines
        assert first.get_label() == "plain words (stand-in), 800"
        assert [round(y, 6) for y in first.get_ydata()] == [0.2, 0.4, 0.6]
        assert [round(y, 6) for y in second.get_ydata()] == [0.3, 0.5, 0.7]
        assert (first.get_color(), first.get_marker()) != (second.get_color(), second.get_marker())


def test_without_words_the_figure_says_why(result: Callable[..., Result]) -> None:
    missing = result(absent_cells={"every study": "too long"})
    assert "too long" in read_words(missing).subfigs[1].texts[0].get_text().replace("\n", " ")
    assert (
        "too long"
        in read_words(result(trainings().iloc[:0], absent_cells={"a": "too long"}))
        .subfigs[1]
        .texts[0]
        .get_text()
    )
