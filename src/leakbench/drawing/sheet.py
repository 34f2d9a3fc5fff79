"""One look for every figure: title and published claim above, the drawing, the small print below."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result

WIDTH = 9.0
MARGIN = 0.3
DPI = 170
INK, MUTED, FAINT = "#1b1f24", "#59636e", "#d5dae0"
# Told apart under the common forms of colour blindness (the palette that seaborn calls colorblind).
COLOURS = ["#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161"]
LOOK: Any = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "lines.solid_capstyle": "round",
    "image.cmap": "gray",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "grid.color": "#e8ebee",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
Painter = Callable[[SubFigure], None]


def sheet(result: Result, height: float, n: str, paint: Painter) -> Figure:
    """Lay out one figure and let `paint` draw its body, WIDTH by `height` inches.

    The footer states scale, n, seeds and the threat model. The figure never touches pyplot, so figures share
    no state.
    """
    head = [
        *[(line, 0.23, {"fontsize": 11.5, "fontweight": "bold"}) for line in textwrap.wrap(result.title, 88)],
        *[(line, 0.165, {"fontsize": 8, "color": MUTED}) for line in _claim(result.published)],
    ]
    foot = [line for text in _small_print(result, n) for line in textwrap.wrap(text, 178)]
    top, bottom = 0.16 + sum(step for _, step, _ in head) + 0.1, 0.14 + 0.125 * len(foot) + 0.06
    with mpl.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH, top + height + bottom), dpi=DPI, facecolor="white")
        FigureCanvasAgg(figure)
        parts: Any = figure.subfigures(3, 1, height_ratios=[top, height, bottom], hspace=0)
        above, body, below = parts
        y = 0.16
        for line, step, look in head:
            above.text(MARGIN / WIDTH, 1 - y / top, line, va="top", **look)
            y += step
        below.add_artist(
            mpl.lines.Line2D(
                [MARGIN / WIDTH, 1 - MARGIN / WIDTH], [1 - 0.05 / bottom] * 2, color=FAINT, linewidth=0.7
            )
        )
        for row, line in enumerate(foot):
            y = 1 - (0.12 + 0.125 * row) / bottom
            below.text(MARGIN / WIDTH, y, line, va="top", fontsize=6.3, color=MUTED)
        paint(body)
        figure.draw_without_rendering()
    return figure


def save(figure: Figure, out: str) -> None:
    """Write the figure as PNG. The bytes depend on the drawing alone: no date, no version."""
    with mpl.rc_context(LOOK):
        figure.savefig(Path(out), format="png", metadata={"Software": None})


def nothing(result: Result) -> Figure:
    """A figure that says why there is nothing to show."""

    def paint(body: SubFigure) -> None:
        reason = textwrap.fill(result.missing or "this scale gives the experiment no results", 100)
        body.text(0.5, 0.5, f"Nothing to show: {reason}", ha="center", va="center", fontsize=9, color=MUTED)

    return sheet(result, 1.2, "n = 0", paint)


def _claim(published: str) -> list[str]:
    return textwrap.wrap(f"Claim: {published}", 128) if published else []


def _small_print(result: Result, n: str) -> list[str]:
    knows = result.facts.get("knows", {}) or {
        str(i): panel.about.get("knows", {}) for i, panel in enumerate(result.panels)
    }
    seeds = words.listed(result.facts.get("seeds", []))
    scale = result.scale or result.facts.get("scale") or "not stated"
    lines = [f"Scale {scale} · {n} · seed {seeds or 'not stated'}"]
    if model := words.threat(knows):
        lines.append(f"Threat model: {model}")
    if result.missing:
        lines.append(f"Not shown: {result.missing}")
    return lines
