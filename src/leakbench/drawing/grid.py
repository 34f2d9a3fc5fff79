"""A grid of images: private samples, and below or beside them the reconstructions that the exhibit chose."""

import math
import textwrap
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Panel, Result
from leakbench.drawing.sheet import MARGIN, WIDTH, Body
from leakbench.drawing.tile import THRESHOLD, canvas, caption, dead, displayable, pearson, show, write
from leakbench.errors import UserError

# All lengths are inches.
CAPTION, HEADING, LABEL, GAP, BETWEEN, NOTE, SPLIT = 0.24, 0.17, 0.165, 0.06, 0.14, 0.14, 0.3
RULES = {
    "first": "the first {m} neurons in their own order",
    "usable": "the usable neurons in their own order, up to {m}",
    "best": "the {m} neurons with the highest r",
}


def grid(
    result: Result, *, columns: int = 12, tile: float = 0.63, beside: bool = False, most: int | None = None
) -> Body | None:
    """Draw each panel's private samples and its reconstructions.

    Under each reconstruction stands the sample that it resembles most and Pearson r; r >= 0.98 has a red
    frame; a dead neuron is a black tile. columns: tiles in a row. tile: side of a tile in inches. beside: two
    panels in a row. most: only so many reconstructions, those with the highest r. A lone sample, and few,
    stand to the left of their reconstructions.
    """
    panels = [_best(panel, most) for panel in result.panels]
    if not panels:
        return None
    single = all(len(panel.truth) == 1 for panel in panels)
    alone = 2 * (tile + LABEL) - LABEL
    across = 2 if beside and len(panels) > 1 else 1
    pitch = (WIDTH - 2 * MARGIN + 0.2) / across
    wide = columns * (tile + GAP) - GAP + (alone + 0.25 if single else 0)
    if wide > pitch:
        raise UserError(
            f"figure: tiles: a row needs {wide:.2f} of {pitch:.2f} inches (fewer columns, or smaller)"
        )

    def tall(images: np.ndarray) -> float:
        return HEADING + math.ceil(len(images) / columns) * (tile + LABEL)

    def inline(panel: Panel) -> bool:
        return (len(panel.truth) + len(panel.guess)) * (tile + GAP) + SPLIT < pitch

    def height(panel: Panel) -> float:
        if single:
            return CAPTION + max(tall(panel.guess), HEADING + alone)
        if inline(panel):
            return CAPTION + tall(panel.truth)
        return CAPTION + tall(panel.truth) + tall(panel.guess)

    def place(index: int, x: float, y: float) -> tuple[float, float]:
        return x + index % columns * (tile + GAP), y + HEADING + index // columns * (tile + LABEL)

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
            marked = float(panel.score[j]) >= THRESHOLD and not _features(panel)
            rescaled += show(axes, image, left, top, tile, marked=marked)
            score = pearson(panel.score[j])
            label = score if plain else f"{panel.sample[j] + 1} · {score}"
            write(axes, left + tile / 2, top + tile + 0.02, label, size=min(6.3, 13 * tile))
        what = "channels" if _features(panel) else "reconstructions"
        write(axes, x, y, f"{what}{_scaling(rescaled, panel)}", bold=True, align="left")

    def draw(axes: Axes, panel: Panel, x: float, y: float) -> None:
        write(axes, x, y, caption(panel.about), size=8.2, bold=True, align="left")
        y += CAPTION
        if single:
            write(axes, x, y, "private sample", bold=True, align="left")
            show(axes, panel.truth[0], x, y + HEADING, alone)
            reconstructions(axes, panel, x + alone + 0.25, y)
        else:
            samples(axes, panel, x, y)
            right = x + len(panel.truth) * (tile + GAP) + SPLIT
            reconstructions(axes, panel, *((right, y) if inline(panel) else (x, y + tall(panel.truth))))

    rows = [panels[i : i + across] for i in range(0, len(panels), across)]
    heights = [max(height(panel) for panel in row) for row in rows]
    notes = textwrap.wrap(_legend(panels, most), 150)
    total = sum(heights) + BETWEEN * len(rows) + 0.1 + NOTE * len(notes)

    def paint(body: SubFigure) -> None:
        axes = canvas(body)
        y = 0.0
        for row, high in zip(rows, heights, strict=True):
            for column, panel in enumerate(row):
                draw(axes, panel, MARGIN + column * pitch, y)
            y += high + BETWEEN
        for number, note in enumerate(reversed(notes)):
            write(axes, MARGIN, total - 0.16 - NOTE * number, note, size=6.8, align="left")

    return Body(total, _counted(panels), paint)


def _best(panel: Panel, most: int | None) -> Panel:
    """Return a panel with its `most` reconstructions of highest r, in order of the sample that they
    resemble."""
    if most is None or len(panel.guess) <= most:
        return panel
    kept = np.argsort(-np.nan_to_num(panel.score, nan=-1), kind="stable")[:most]
    kept = kept[np.lexsort((-panel.score[kept], panel.sample[kept]))]
    return replace(
        panel,
        guess=panel.guess[kept],
        usable=panel.usable[kept],
        sample=panel.sample[kept],
        score=panel.score[kept],
    )


def _features(panel: Panel) -> bool:
    return panel.about.get("target") == "features"


def _scaling(rescaled: int, panel: Panel) -> str:
    live = int(np.count_nonzero(panel.usable))
    if not rescaled:
        return " (values as received)"
    return f" ({'all' if rescaled == live else f'{rescaled} of {live}'} normalised for display)"


def _legend(panels: list[Panel], most: int | None) -> str:
    count = max(len(panel.guess) for panel in panels)
    single = all(len(panel.truth) == 1 for panel in panels)
    if _features(panels[0]):
        text = f"Shown: {count} channels of one neuron. "
        text += "Below each: r with the same channel of the sample's own features."
        text += "" if len(panels[0].truth) == 1 else " Red frame: the sample that the neuron answers to."
    else:
        rule = RULES.get(str(panels[0].about.get("rule")), "{m} neurons").format(m=count)
        shown = f"the {most} with the highest r, by the sample that they resemble" if most else rule
        label = "Pearson r" if single else "the sample it resembles most · Pearson r"
        text = f"Shown: {shown}. Below each: {label}. Red frame: fully revealed, r ≥ {THRESHOLD}."
        text += " Black: dead neuron, sent nothing." if any(not p.usable.all() for p in panels) else ""
    guesses = [guess for panel in panels for guess in panel.guess[panel.usable]]
    some = any(displayable(guess)[1] for guess in guesses)
    return text + (" Normalised: own minimum black, own maximum white." if some else "")


def _counted(panels: list[Panel]) -> str:
    truths = words.span(len(panel.truth) for panel in panels)
    guesses = words.span(len(panel.guess) for panel in panels)
    return f"n = {truths} private and {guesses} reconstructed images of one update in each panel"
