"""The pictures that a record keeps: for each cell, a private image and its reconstruction at the median."""

from collections.abc import Sequence

from leakbench.base.cellname import CELL
from leakbench.results.figures.result import Panel, Result
from leakbench.results.figures.rows import word
from leakbench.results.figures.sheet import Body
from leakbench.results.figures.tile import APART, GAP, ROOM, THRESHOLD, Strip, Tile, pearson, tiled

# Inches: the sides that a tile may have.
SMALLEST, LARGEST = 0.8, 1.6


def at_medians(panels: Sequence[Panel]) -> bool:
    """Return whether panels are pairs of a record instead of the pictures of an exhibit."""
    return any(panel.about.get("rule") == "median" for panel in panels)


def medians(result: Result, panels: Sequence[Panel]) -> Body:
    """Draw a pair for each cell, side by side: the private image and its reconstruction.

    Above each pair stand the parts that distinguish its cell from the others. The heading names the parts
    that all cells share. Below each pair is the Pearson r of the kept picture; r >= 0.98 has a red frame.

    panels: one or more, each with one private image and one reconstruction.
    """
    shared = [name for name in CELL if len({panel.about[name] for panel in panels}) == 1]
    order = {name: list(result.parts(name)) for name in CELL}
    place = {(name, value): number for name, values in order.items() for number, value in enumerate(values)}
    panels = sorted(panels, key=lambda panel: [place.get((n, panel.about[n]), -1) for n in CELL])
    strips = [
        Strip(_named(result, panel, [name for name in CELL if name not in shared]), _pair(panel))
        for panel in panels
    ]
    side = (ROOM - APART * (len(panels) - 1)) / (2 * len(panels)) - GAP
    note = (
        "a record keeps pictures of the strongest attacks alone; n = 1 image of each cell, the median of its "
        f"trials; below it: Pearson r; red frame: r ≥ {THRESHOLD}"
    )
    heading = _named(result, panels[0], shared)
    return tiled([(heading, [("", strips)])], min(LARGEST, max(SMALLEST, side)), note=note)


def _pair(panel: Panel) -> list[Tile | None]:
    score = float(panel.score[0])
    return [Tile(panel.truth[0], "private"), Tile(panel.guess[0], pearson(score), score >= THRESHOLD)]


def _named(result: Result, panel: Panel, columns: Sequence[str]) -> str:
    values = [(name, panel.about[name]) for name in columns if name != "federation"]
    return " · ".join(word(result, *each) for each in values if each != ("defence", "none"))
