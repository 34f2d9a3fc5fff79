"""The same private images as several attacks reconstructed them, one attack a row."""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Panel, Result
from leakbench.drawing.sheet import MARGIN, WIDTH, nothing, sheet
from leakbench.drawing.tile import THRESHOLD, canvas, dead, show, write

# Inches. LETTER: of a bold letter of a caption, on average.
CAPTION, LINE, LABEL, GAP, SIDE, BETWEEN, LETTER = 0.24, 0.16, 0.17, 0.06, 1.45, 0.16, 0.075


def attacks(result: Result, *, columns: int = 8, tile: float = 0.8) -> Figure:
    """Figures 6, 7 and 10: the private images above, then a row of reconstructions for each attack, Pearson r below.

    columns: at most so many images. tile: side of a tile in inches. Where images are few, conditions stand beside each other.
    """
    if not result.panels:
        return nothing(result)
    groups: dict[tuple[str, ...], list[Panel]] = {}
    for panel in result.panels:
        about = panel.about
        condition = (about["dataset"], about["victim"], about["federation"], about.get("defence", "none"))
        groups.setdefault(condition, []).append(panel)
    width = SIDE + min(columns, max(len(p.truth) for p in result.panels)) * (tile + GAP)
    assert width <= WIDTH - MARGIN, f"{width:.1f} inches of tiles on a sheet of {WIDTH}"
    lanes = min(len(groups), max(1, int((WIDTH - 2 * MARGIN) / (width + BETWEEN))))
    lane = (WIDTH - 2 * MARGIN) / lanes
    blocks = [(_caption(condition, int(lane / LETTER)), panels) for condition, panels in groups.items()]
    rows = [blocks[first : first + lanes] for first in range(0, len(blocks), lanes)]
    heights = [max(_height(*block, tile) for block in row) for row in rows]

    def strip(axes: Axes, panel: Panel, left: float, y: float) -> None:
        write(axes, left, y + tile / 2 - 0.05, words.attack(panel.about["attack"]), size=7, align="left")
        for j, image in enumerate(panel.guess[:columns]):
            x, score = left + SIDE + j * (tile + GAP), float(panel.score[j])
            if panel.usable[j]:
                show(axes, image, x, y, tile, marked=score >= THRESHOLD)
            else:
                dead(axes, x, y, tile, "none")
            write(axes, x + tile / 2, y + tile + 0.02, f"{score:.3f}".replace("-", "−"), size=6.5)

    def block(axes: Axes, caption: list[str], panels: list[Panel], left: float, y: float) -> None:
        for number, line in enumerate(caption):
            write(axes, left, y + number * LINE, line, size=8.2, bold=True, align="left")
        y += CAPTION + (len(caption) - 1) * LINE
        write(axes, left, y + tile / 2 - 0.05, "private", size=7, align="left")
        for j, image in enumerate(panels[0].truth[:columns]):
            show(axes, image, left + SIDE + j * (tile + GAP), y, tile)
        for number, panel in enumerate(panels):
            strip(axes, panel, left, y + tile + GAP + number * (tile + LABEL))

    def paint(body: SubFigure) -> None:
        axes = canvas(body)
        y = 0.0
        for row, height in zip(rows, heights, strict=True):
            for number, (caption, panels) in enumerate(row):
                block(axes, caption, panels, MARGIN + number * lane, y)
            y += height + BETWEEN

    own = result.rows[result.rows["baseline"] == ""]
    count = np.unique([min(len(panel.truth), columns) for panel in result.panels]).tolist()
    return sheet(
        result,
        sum(heights) + BETWEEN * len(rows),
        f"n = {words.listed(count)} images of each attack {words.steps(own)}; below each: Pearson r, green frame: r ≥ {THRESHOLD}",
        paint,
    )


def _caption(condition: tuple[str, ...], letters: int) -> list[str]:
    """Return what stands above a condition, in lines of at most so many letters."""
    dataset, victim, _, defence = condition
    guard = "" if defence == "none" else f" · {words.defence(defence)}"
    return textwrap.wrap(f"{words.dataset(dataset)} · {words.victim(victim)}{guard}", letters)


def _height(caption: list[str], panels: list[Panel], tile: float) -> float:
    """Return the inches of a condition: its caption, private images and attacks."""
    return CAPTION + (len(caption) - 1) * LINE + tile + GAP + len(panels) * (tile + LABEL)
