"""Grids of images: samples above their reconstructions, and pairs of sample and reconstruction."""

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Panel, Result
from leakbench.drawing.sheet import MARGIN, WIDTH, nothing, sheet
from leakbench.drawing.tile import THRESHOLD, canvas, dead, show, write

CAPTION = 0.24
HEADING = 0.17
LABEL = 0.15
GAP = 0.06
NOTE = "normalised: own minimum black, own maximum white"
BETWEEN = 0.22
RULES = {
    "first": "the first {m} {things} in their own order",
    "usable": "the first {m} usable {things}",
    "best": "the {m} {things} with the highest r",
}


def samples_over_reconstructions(
    result: Result, *, columns: int = 12, tile: float = 0.63, beside: bool = False
) -> Figure:
    """Figures 5, 6, 9, 10, 11 and 15: the private samples, below them the reconstructions that the exhibit chose.

    Under each reconstruction stands the sample that it resembles most and Pearson r; r >= 0.98 has a green frame; a
    dead neuron is a black tile. columns: tiles in a row. tile: side of a tile in inches. beside: two panels in a row.
    """
    single = all(len(panel.truth) == 1 for panel in result.panels)

    def height(panel: Panel) -> float:
        rows = math.ceil(len(panel.guess) / columns)
        grid = rows * (tile + LABEL)
        samples = 0 if single else math.ceil(len(panel.truth) / columns) * (tile + LABEL) + HEADING
        return CAPTION + HEADING + samples + grid

    def draw(axes: Axes, panel: Panel, x: float, y: float) -> None:
        features = panel.about.get("target") == "features"
        left, top = x, y + CAPTION
        if single:
            size = min(2, math.ceil(len(panel.guess) / columns)) * (tile + LABEL) - LABEL
            size = max(size, tile)
            write(axes, x, top, "private sample", bold=True, align="left")
            show(axes, panel.truth[0], x, top + HEADING, size)
            left = x + size + 0.25
        else:
            # Under features every channel comes from one neuron, so the sample it answers to is marked above.
            answers = set(panel.sample.tolist()) if features else set()
            write(axes, x, top, "private samples", bold=True, align="left")
            for i, image in enumerate(panel.truth):
                at = x + (i % columns) * (tile + GAP), top + HEADING + (i // columns) * (tile + LABEL)
                show(axes, image, *at, tile, marked=i in answers)
                write(axes, at[0] + tile / 2, at[1] + tile + 0.02, f"{i + 1}")
            top += 0.17 + math.ceil(len(panel.truth) / columns) * (tile + LABEL)
        rescaled = 0
        for j, image in enumerate(panel.guess):
            at = left + (j % columns) * (tile + GAP), top + HEADING + (j // columns) * (tile + LABEL)
            if panel.usable[j]:
                rescaled += show(axes, image, *at, tile, marked=_full(panel, j) and not features)
                label = (
                    _r(panel.score[j])
                    if single or features
                    else f"{panel.sample[j] + 1} · {_r(panel.score[j])}"
                )
                write(axes, at[0] + tile / 2, at[1] + tile + 0.02, label, size=min(6.3, 13 * tile))
            else:
                dead(axes, *at, tile)
        what = "channels" if features else "reconstructions"
        write(axes, left, top, f"{what}{_scaling(rescaled, panel)}", bold=True, align="left")

    beside = beside and len(result.panels) > 1
    # A lone sample stands to the left of its reconstructions and takes the room of two of their columns.
    wide = columns * (tile + GAP) + (2 * tile + 0.4 if single else 0)
    return _panels(result, height, draw, _legend, 2 if beside else 1, wide)


def pairs(result: Result, *, columns: int = 10, tile: float = 0.68) -> Figure:
    """Figures 8 and 12: each private sample above the reconstruction matched with it, Pearson r below."""

    def height(panel: Panel) -> float:
        return CAPTION + math.ceil(len(panel.guess) / columns) * (2 * tile + 2 * GAP + LABEL)

    def draw(axes: Axes, panel: Panel, x: float, y: float) -> None:
        named = panel.about.get("rule") == "worst-median-best"
        rescaled = 0
        for j, image in enumerate(panel.guess):
            left = x + 0.95 + (j % columns) * (tile + GAP)
            top = y + CAPTION + (j // columns) * (2 * tile + 2 * GAP + LABEL)
            if j % columns == 0:
                for k, text in enumerate(("private", "reconstructed")):
                    write(axes, x, top + k * (tile + GAP) + tile / 2 - 0.05, text, align="left")
                write(axes, x, top + 2 * tile + GAP + 0.02, "Pearson r", align="left")
            show(axes, panel.truth[j], left, top, tile)
            if panel.usable[j]:
                rescaled += show(axes, image, left, top + tile + GAP, tile, marked=_full(panel, j))
            else:
                dead(axes, left, top + tile + GAP, tile, "none")
            score = _r(panel.score[j]) if panel.usable[j] else "none"
            rank = f" ({('worst', 'median', 'best')[j % 3]})" if named else ""
            write(
                axes,
                left + tile / 2,
                top + 2 * tile + GAP + 0.02,
                score + rank,
                size=6.8,
                bold=_full(panel, j),
            )
        if rescaled:
            write(axes, x + 0.95, y + 0.18, f"reconstructions{_scaling(rescaled, panel)}", align="left")

    return _panels(result, height, draw, _legend_of_pairs, 1, columns * (tile + GAP) + 0.95)


def _panels(
    result: Result,
    height: Callable[[Panel], float],
    draw: Callable[[Axes, Panel, float, float], None],
    legend: Callable[[Result], str],
    across: int,
    wide: float,
) -> Figure:
    """Place panels in rows of `across`, the legend below them."""
    if not result.panels:
        return nothing(result)
    rows = [result.panels[i : i + across] for i in range(0, len(result.panels), across)]
    heights = [max(height(panel) for panel in row) for row in rows]
    total = sum(heights) + BETWEEN * (len(rows) - 1) + 0.3

    def paint(body: SubFigure) -> None:
        axes = canvas(body)
        y = 0.0
        for row, tall in zip(rows, heights, strict=True):
            for column, panel in enumerate(row):
                x = MARGIN + column * (WIDTH - 2 * MARGIN + 0.2) / across
                write(axes, x, y, _caption(panel), size=8.2, bold=True, align="left")
                draw(axes, panel, x, y)
            y += tall + BETWEEN
        write(axes, MARGIN, total - 0.2, legend(result), size=6.8, align="left")

    assert wide <= (WIDTH - 2 * MARGIN + 0.2) / across, f"tiles need {wide:.2f} inches"
    return sheet(result, total, _n(result), paint)


def _caption(panel: Panel) -> str:
    about = panel.about
    parts = [
        words.dataset(about["dataset"]),
        words.victim(about["victim"]),
        words.many(about["local_samples"], "sample"),
    ]
    if "checkpoint" in about:
        parts.append(f"trained {words.many(about['checkpoint'], 'epoch')}")
    if "neuron" in about:
        parts.append(f"neuron {about['neuron']} (answers to sample {int(panel.sample[0]) + 1})")
    return " · ".join(parts)


def _full(panel: Panel, j: int) -> bool:
    return bool(panel.usable[j]) and float(panel.score[j]) >= THRESHOLD


def _r(score: float) -> str:
    # Three places, cut and not rounded: 0.9796 must not look like the threshold 0.98.
    value = float(score)
    if not math.isfinite(value):
        return "undefined"
    return f"{math.trunc(value * 1000) / 1000:.3f}".replace("-", "−")


def _scaling(rescaled: int, panel: Panel) -> str:
    live = int(np.count_nonzero(panel.usable))
    if not rescaled:
        return " (values as received, in [0, 1])"
    which = "each" if rescaled == live else f"{rescaled} of {live}"
    return f" ({which} normalised for display: own minimum black, own maximum white)"


def _legend(result: Result) -> str:
    panel = result.panels[0]
    features = panel.about.get("target") == "features"
    things = "channels of one neuron" if features else "reconstructions"
    shown = RULES.get(str(panel.about.get("rule")), "{m} {things}").format(
        m=max(len(p.guess) for p in result.panels), things="neurons" if features else "reconstructions"
    )
    if features:
        shown = f"{max(len(p.guess) for p in result.panels)} {things}"
        label = "r with the same channel of that sample's own features"
        return f"Shown: {shown}. Below each: {label}. Green frame: the sample that the neuron answers to."
    single = all(len(p.truth) == 1 for p in result.panels)
    label = "Pearson r with the sample" if single else "the sample it resembles most · Pearson r"
    black = (
        " Black: dead neuron, it sent no update." if any(not p.usable.all() for p in result.panels) else ""
    )
    return f"Shown: {shown}. Below each: {label}. Green frame: fully revealed, r ≥ 0.98.{black}"


def _legend_of_pairs(result: Result) -> str:
    best = str(result.panels[0].about.get("rule")) == "worst-median-best"
    shown = (
        "the worst, median and best pair by r"
        if best
        else "every sample with the reconstruction matched to it"
    )
    return f"Shown: {shown}. Green frame and bold: fully revealed, r ≥ 0.98."


def _n(result: Result) -> str:
    truths = sorted({len(panel.truth) for panel in result.panels})
    guesses = sorted({len(panel.guess) for panel in result.panels})
    pairs_only = all(panel.about.get("rule") in ("matched", "worst-median-best") for panel in result.panels)
    if pairs_only:
        return f"n = {words.listed(truths)} pairs in each panel"
    return f"n = {words.listed(truths)} private and {words.listed(guesses)} reconstructed images of one update in each panel"
