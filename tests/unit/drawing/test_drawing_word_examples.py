"""Table 4.2: a line for each word, a column for each training."""

from collections.abc import Callable
from dataclasses import replace

from synthetic import examples, readings

from leakbench.drawing.result import Result
from leakbench.drawing.word_examples import RIGHT, WRONG, words_read


def test_each_word_has_its_picture_and_what_every_network_read(result: Callable[..., Result]) -> None:
    tensors, about = examples()
    figure = words_read(replace(result(readings(), examples=about), tensors=tensors))
    body = figure.subfigs[1]
    assert len(body.axes) == 4
    told = [(text.get_text(), text.get_color()) for text in body.texts]
    assert [text for text, _ in told].count("HOTEL") == 4
    for read, colour, times in (("BANE", WRONG, 2), ("–", WRONG, 2), ("HOTEL", RIGHT, 2), ("BANK", RIGHT, 2)):
        assert told.count((read, colour)) == times
    heights = {text.get_text(): text.get_position()[1] for text in body.texts}
    assert heights["BANE"] == heights["BANK"] < heights["–"]


def test_without_words_the_figure_says_why(result: Callable[..., Result]) -> None:
    missing = words_read(result(absent_cells={"every study": "too long"}))
    assert "too long" in missing.subfigs[1].texts[0].get_text().replace("\n", " ")
