"""The same private images as several attacks reconstructed them, one attack a row."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Panel, Result
from leakbench.drawing.sheet import MARGIN, WIDTH, nothing, sheet
from leakbench.drawing.tile import THRESHOLD, canvas, dead, show, write

# Inches.
CAPTION, LABEL, GAP, SIDE, BETWEEN = 0.24, 0.17, 0.06, 1.45, 0.16


def attacks(result: Result, *, columns: int = 8, tile: float = 0.8) -> Figure:
    """Figures 6, 7 and 10: the private images above, then a row of reconstructions for each attack, Pearson r below.

    columns: at most so many images. tile: side of a tile in inches.
    """
    if not result.panels:
        return nothing(result)
    groups: dict[tuple[str, ...], list[Panel]] = {}
    for panel in result.panels:
        about = panel.about
        condition = (about["dataset"], about["victim"], about["federation"], about.get("defence", "none"))
        groups.setdefault(condition, []).append(panel)
    heights = [CAPTION + tile + GAP + len(panels) * (tile + LABEL) for panels in groups.values()]
    total = sum(heights) + BETWEEN * len(groups)

    def row(axes: Axes, panel: Panel, y: float) -> None:
        write(axes, MARGIN, y + tile / 2 - 0.05, words.attack(panel.about["attack"]), size=7, align="left")
        for j, image in enumerate(panel.guess[:columns]):
            x, score = MARGIN + SIDE + j * (tile + GAP), float(panel.score[j])
            if panel.usable[j]:
                show(axes, image, x, y, tile, marked=score >= THRESHOLD)
            else:
                dead(axes, x, y, tile, "none")
            write(axes, x + tile / 2, y + tile + 0.02, f"{score:.3f}".replace("-", "−"), size=6.5)

    def paint(body: SubFigure) -> None:
        axes = canvas(body)
        y = 0.0
        for ((dataset, victim, _, defence), panels), height in zip(groups.items(), heights, strict=True):
            guard = "" if defence == "none" else f" · {words.defence(defence)}"
            caption = f"{words.dataset(dataset)} · {words.victim(victim)}{guard}"
            write(axes, MARGIN, y, caption, size=8.2, bold=True, align="left")
            write(axes, MARGIN, y + CAPTION + tile / 2 - 0.05, "private", size=7, align="left")
            for j, image in enumerate(panels[0].truth[:columns]):
                show(axes, image, MARGIN + SIDE + j * (tile + GAP), y + CAPTION, tile)
            for number, panel in enumerate(panels):
                row(axes, panel, y + CAPTION + tile + GAP + number * (tile + LABEL))
            y += height + BETWEEN

    width = SIDE + min(columns, max(len(p.truth) for p in result.panels)) * (tile + GAP)
    assert width <= WIDTH - MARGIN, f"{width:.1f} inches of tiles on a sheet of {WIDTH}"
    own = result.rows[result.rows["baseline"] == ""]
    count = np.unique([min(len(panel.truth), columns) for panel in result.panels]).tolist()
    return sheet(
        result,
        total,
        f"n = {words.listed(count)} images of each attack {words.steps(own)}; below each: Pearson r, green frame: r ≥ {THRESHOLD}",
        paint,
    )
