"""What is wrong with how a figure is laid out: text beyond its edge, text over text, and much blank paper."""

import itertools

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from leakbench.results.figures.sheet import DPI, LOOK

# Pixels that boxes of text may share: their ascenders' room, not their ink.
SLACK = 2.0
# Side of the squares, in inches, in which ink is looked for, and the least share of them that must have some.
SQUARE, INKED = 0.5, 0.45


def faults(figure: Figure) -> list[str]:
    # Drawing puts titles and labels where ticks leave room.
    share = inked(figure)
    with mpl.rc_context(LOOK):
        boxes = [(text, text.get_window_extent()) for text in _texts(figure)]
    width, height = figure.get_size_inches() * figure.dpi
    found = [
        f"{_quoted(text)} leaves the canvas"
        for text, box in boxes
        if box.x0 < -SLACK or box.y0 < -SLACK or box.x1 > width + SLACK or box.y1 > height + SLACK
    ]
    # The box of slanted text is mostly empty.
    level = [(text, box) for text, box in boxes if text.get_rotation() % 90 == 0]
    found += [
        f"{_quoted(one)} lies over {_quoted(other)}"
        for (one, a), (other, b) in itertools.combinations(level, 2)
        if _shared(a, b)
    ]
    return found + ([f"only {share:.0%} of the paper has ink"] if share < INKED else [])


def inked(figure: Figure) -> float:
    """Return the share of squares between head and small print that have ink."""
    # It has been laid out: nothing needs to move again.
    figure.set_layout_engine("none")
    with mpl.rc_context(LOOK):
        figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].min(axis=2) < 250  # type: ignore[attr-defined]
    parts = figure.subfigs
    top = int(parts[0].bbox.height)
    bottom = int(pixels.shape[0] - parts[-1].bbox.height)
    body, side = pixels[top:bottom], int(SQUARE * DPI)
    squares = [
        body[y : y + side, x : x + side].any()
        for y in range(0, body.shape[0], side)
        for x in range(0, body.shape[1], side)
    ]
    return float(np.mean(squares))


def _texts(figure: Figure) -> list[Text]:
    """Return the texts that are on the paper: of the ticks' labels only those of ticks within their axis."""
    labels, shown = set(), set()
    for axes in figure.findobj(Axes):
        for axis in (axes.xaxis, axes.yaxis):
            labels |= {*axis.findobj(Text)}
            if axes.axison and axis.get_visible():
                ticks = axis._update_ticks()
                shown |= {axis.label, *(tick.label1 for tick in ticks if tick.label1.get_visible())}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and (text not in labels or text in shown)
    ]


def _shared(a: Bbox, b: Bbox) -> bool:
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    up = min(a.y1, b.y1) - max(a.y0, b.y0)
    return across > SLACK and up > SLACK


def _quoted(text: Text) -> str:
    return repr(text.get_text()[:40])
