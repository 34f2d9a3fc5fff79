"""Grids of images: samples above their reconstructions, and pairs of sample and reconstruction."""

import math
import textwrap
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Panel, Result
from leakbench.drawing.sheet import MARGIN, WIDTH, nothing, sheet
from leakbench.drawing.tile import THRESHOLD, canvas, dead, displayable, show, write
from leakbench.errors import UserError

# All lengths are inches.
CAPTION, HEADING, LABEL, GAP, BETWEEN = 0.24, 0.17, 0.165, 0.06, 0.14
SIDE = 0.95
RULES = {
    "first": "the first {m} neurons in their own order",
    "usable": "the usable neurons in their own order, up to {m}",
    "best": "the {m} neurons with the highest r",
}
Draw = Callable[[Axes, Panel, float, float], None]


def samples_over_reconstructions(
    result: Result, *, columns: int = 12, tile: float = 0.63, beside: bool = False
) -> Figure:
    """Figures 5, 6, 9, 10, 11 and 15: the private samples, and the reconstructions that the exhibit chose.

    Under each reconstruction stands the sample that it resembles most and Pearson r; r >= 0.98 has a green
    frame; a dead neuron is a black tile. columns: tiles in a row. tile: side of a tile in inches. beside: two
    panels in a row. A lone sample stands to the left of its reconstructions, several stand above them.
    """
    single = all(len(panel.truth) == 1 for panel in result.panels)
    alone = 2 * (tile + LABEL) - LABEL

    def rows(images: np.ndarray) -> float:
        return HEADING + math.ceil(len(images) / columns) * (tile + LABEL)

    def place(index: int, x: float, y: float) -> tuple[float, float]:
        return x + index % columns * (tile + GAP), y + HEADING + index // columns * (tile + LABEL)

    def height(panel: Panel) -> float:
        if single:
            return CAPTION + max(rows(panel.guess), HEADING + alone)
        return CAPTION + rows(panel.truth) + rows(panel.guess)

    def samples(axes: Axes, panel: Panel, x: float, y: float) -> None:
        # Channels all come from one neuron, so the sample that it answers to is marked instead of them.
        answers = set(panel.sample.tolist()) if _features(panel) else set()
        write(axes, x, y, "private samples", bold=True, align="left")
        for i, image in enumerate(panel.truth):
            left, top = place(i, x, y)
            show(axes, image, left, top, tile, marked=i in answers)
            write(axes, left + tile / 2, top + tile + 0.02, f"{i + 1}")

    def reconstructions(axes: Axes, panel: Panel, x: float, y: float) -> None:
        plain = single or _features(panel)
        rescaled = 0
        for j, image in enumerate(panel.guess):
            left, top = place(j, x, y)
            if not panel.usable[j]:
                dead(axes, left, top, tile)
                continue
            rescaled += show(axes, image, left, top, tile, marked=_full(panel, j) and not _features(panel))
            score = _r(panel.score[j])
            label = score if plain else f"{panel.sample[j] + 1} · {score}"
            write(axes, left + tile / 2, top + tile + 0.02, label, size=min(6.3, 13 * tile))
        what = "channels" if _features(panel) else "reconstructions"
        write(axes, x, y, f"{what}{_scaling(rescaled, panel)}", bold=True, align="left")

    def draw(axes: Axes, panel: Panel, x: float, y: float) -> None:
        y += CAPTION
        if single:
            write(axes, x, y, "private sample", bold=True, align="left")
            show(axes, panel.truth[0], x, y + HEADING, alone)
            reconstructions(axes, panel, x + alone + 0.25, y)
        else:
            samples(axes, panel, x, y)
            reconstructions(axes, panel, x, y + rows(panel.truth))

    across = 2 if beside and len(result.panels) > 1 else 1
    wide = columns * (tile + GAP) - GAP + (alone + 0.25 if single else 0)
    return _panels(result, height, draw, _legend(result), across, wide)


def pairs(result: Result, *, columns: int = 10, tile: float = 0.68) -> Figure:
    """Figures 8 and 12: each private sample above the reconstruction matched with it, Pearson r below."""
    block = 2 * tile + GAP + LABEL + 0.05

    def height(panel: Panel) -> float:
        return CAPTION + math.ceil(len(panel.guess) / columns) * block

    def draw(axes: Axes, panel: Panel, x: float, y: float) -> None:
        rescaled = 0
        for j, image in enumerate(panel.guess):
            left, top = x + SIDE + j % columns * (tile + GAP), y + CAPTION + j // columns * block
            below, foot = top + tile + GAP, top + 2 * tile + GAP + 0.02
            if j % columns == 0:
                write(axes, x, top + tile / 2 - 0.05, "private", align="left")
                write(axes, x, below + tile / 2 - 0.05, "reconstructed", align="left")
                write(axes, x, foot, "Pearson r", align="left")
            show(axes, panel.truth[j], left, top, tile)
            if panel.usable[j]:
                rescaled += show(axes, image, left, below, tile, marked=_full(panel, j))
            else:
                dead(axes, left, below, tile, "none")
            score = _r(panel.score[j]) if panel.usable[j] else "none"
            write(axes, left + tile / 2, foot, _rank(panel, j) + score, size=6.8, bold=_full(panel, j))
        write(axes, x, y, _caption(panel) + _scaling(rescaled, panel), size=8.2, bold=True, align="left")

    kind = (
        "the worst, median and best pair by r"
        if _ranked(result)
        else "every sample with its matched reconstruction"
    )
    legend = f"Shown: {kind}. Green frame and bold: fully revealed, r ≥ 0.98."
    return _panels(result, height, draw, legend, 1, columns * (tile + GAP) - GAP + SIDE)


def _panels(
    result: Result, height: Callable[[Panel], float], draw: Draw, legend: str, across: int, wide: float
) -> Figure:
    """Place panels in rows of `across`, each under its caption, the legend below them all."""
    if not result.panels:
        return nothing(result)
    pitch = (WIDTH - 2 * MARGIN + 0.2) / across
    if wide > pitch:
        raise UserError(
            f"figure: tiles: a row needs {wide:.2f} of {pitch:.2f} inches (fewer columns, or smaller)"
        )
    rows = [result.panels[i : i + across] for i in range(0, len(result.panels), across)]
    heights = [max(height(panel) for panel in row) for row in rows]
    notes = textwrap.wrap(legend + _normalised(result), 168)
    total = sum(heights) + BETWEEN * len(rows) + 0.1 + 0.14 * len(notes)

    def paint(body: SubFigure) -> None:
        axes = canvas(body)
        y = 0.0
        for row, tall in zip(rows, heights, strict=True):
            for column, panel in enumerate(row):
                x = MARGIN + column * pitch
                if not _paired(panel):
                    write(axes, x, y, _caption(panel), size=8.2, bold=True, align="left")
                draw(axes, panel, x, y)
            y += tall + BETWEEN
        for row_of_note, note in enumerate(reversed(notes)):
            write(axes, MARGIN, total - 0.16 - 0.14 * row_of_note, note, size=6.8, align="left")

    return sheet(result, total, _n(result), paint)


def _features(panel: Panel) -> bool:
    return panel.about.get("target") == "features"


def _paired(panel: Panel) -> bool:
    return panel.about.get("rule") in ("matched", "worst-median-best")


def _ranked(result: Result) -> bool:
    return any(panel.about.get("rule") == "worst-median-best" for panel in result.panels)


def _rank(panel: Panel, j: int) -> str:
    ranks = ("worst ", "median ", "best ")
    return ranks[j] if panel.about.get("rule") == "worst-median-best" and len(panel.guess) == 3 else ""


def _caption(panel: Panel) -> str:
    about = panel.about
    parts = [words.dataset(about["dataset"]), words.victim(about["victim"])]
    parts.append(f"k = {about['local_samples']}")
    if "checkpoint" in about:
        parts.append(f"epoch {about['checkpoint']}")
    if "neuron" in about:
        parts.append(f"neuron {about['neuron']}")
    return " · ".join(parts)


def _full(panel: Panel, j: int) -> bool:
    return bool(panel.usable[j]) and float(panel.score[j]) >= THRESHOLD


def _r(score: float) -> str:
    # Rounding must not lift a score over the threshold: 0.9796 is 0.979 here.
    value = float(score)
    if not math.isfinite(value):
        return "undefined"
    shown = round(value, 3)
    if value < THRESHOLD <= shown:
        shown = THRESHOLD - 0.001
    return f"{shown:.3f}".replace("-", "−")


def _normalised(result: Result) -> str:
    guesses = [guess for panel in result.panels for guess in panel.guess[panel.usable]]
    some = any(displayable(guess)[1] for guess in guesses)
    return " Normalised: own minimum black, own maximum white." if some else ""


def _scaling(rescaled: int, panel: Panel) -> str:
    live = int(np.count_nonzero(panel.usable))
    if not rescaled:
        return "" if _paired(panel) else " (values as received)"
    which = "all" if rescaled == live else f"{rescaled} of {live}"
    return f" ({which}{' reconstructions' if _paired(panel) else ''} normalised for display)"


def _legend(result: Result) -> str:
    if not result.panels:
        return ""
    most = max(len(panel.guess) for panel in result.panels)
    if _features(result.panels[0]):
        what = "r with the same channel of the sample's own features"
        frame = (
            "" if len(result.panels[0].truth) == 1 else " Green frame: the sample that the neuron answers to."
        )
        return f"Shown: {most} channels of one neuron. Below each: {what}.{frame}"
    shown = RULES.get(str(result.panels[0].about.get("rule")), "{m} neurons").format(m=most)
    single = all(len(panel.truth) == 1 for panel in result.panels)
    label = "Pearson r" if single else "the sample it resembles most · Pearson r"
    black = " Black: dead neuron, sent nothing." if any(not p.usable.all() for p in result.panels) else ""
    return f"Shown: {shown}. Below each: {label}. Green: fully revealed, r ≥ 0.98.{black}"


def _n(result: Result) -> str:
    truths = sorted({len(panel.truth) for panel in result.panels})
    guesses = sorted({len(panel.guess) for panel in result.panels})
    if all(_paired(panel) for panel in result.panels):
        return f"n = {words.listed(truths)} pairs in each panel"
    counts = f"{words.listed(truths)} private and {words.listed(guesses)} reconstructed images"
    return f"n = {counts} of one update in each panel"
