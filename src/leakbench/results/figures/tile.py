"""Images as tiles. Tiles that belong together form a strip; strips stand beside each other in lines."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import SubFigure
from matplotlib.patches import Rectangle

from leakbench.base.cellname import CELL
from leakbench.results.figures.result import Panel, Result
from leakbench.results.figures.rows import word
from leakbench.results.figures.sheet import FAINT, INK, MARGIN, MUTED, WIDTH, Body

THRESHOLD = 0.98
# The frame of a leak is red, because a leak is bad for the person on the image.
REVEALED = "#cf222e"
# Rounding of a division leaves values just beyond [0, 1]; such values alone are no reason to rescale.
SLACK = 0.02
# In inches: the room of a line, the space between tiles and between strips, a heading, a line of a name and a
# letter of it, the label below a tile, a line of the legend.
ROOM, GAP, APART = WIDTH - 2 * MARGIN, 0.06, 0.15
HEADING, NAME, LETTER, LABEL, LEGEND = 0.22, 0.13, 0.066, 0.19, 0.14
# Letters of a name at the left, before it is folded.
LETTERS = 26
# In inches: the side that a tile of a record's picture may have. More than MANY pairs stand in a grid.
LARGEST, MANY = 1.6, 12


@dataclass(frozen=True)
class Tile:
    """One image, or None for a neuron that sent nothing. Its frame is red if it is marked."""

    image: np.ndarray | None
    label: str = ""
    marked: bool = False


@dataclass(frozen=True)
class Strip:
    """Tiles that belong together, from left to right, with None for a gap, and the text above them."""

    name: str
    tiles: Sequence[Tile | None]


# A line: the text at its left, and its strips.
Shelf = tuple[str, Sequence[Strip]]


def displayable(image: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return an image [C, H, W] of any range as [H, W] or [H, W, 3] in [0, 1], and whether it was rescaled.

    An image that leaves [0, 1] is stretched from its own minimum to its own maximum, all channels together.
    Values that are not finite count as 0.
    """
    values = np.nan_to_num(np.asarray(image, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = values.min(), values.max()
    rescaled = bool(low < -SLACK or high > 1 + SLACK)
    if rescaled:
        values = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
    values = values.clip(0, 1)
    return (values[0] if len(values) == 1 else values[:3].transpose(1, 2, 0)), rescaled


def pearson(score: float) -> str:
    """Return a correlation with three decimal places, which are not rounded up to the threshold."""
    value = float(score)
    if not np.isfinite(value):
        return "undefined"
    shown = round(value, 3)
    if value < THRESHOLD <= shown:
        shown = THRESHOLD - 0.001
    return f"{shown:.3f}".replace("-", "−")


def tiled(groups: Sequence[tuple[str, Sequence[Shelf]]], side: float, *, note: str, legend: str = "") -> Body:
    tiles: list[tuple[float, float, Tile]] = []
    texts: list[tuple[float, float, str, Any]] = []
    bold: Any = {"color": INK, "fontweight": "bold"}
    left, y = left_of(name for _, lines in groups for name, _ in lines), 0.0
    for heading, lines in groups:
        texts.append((0, y, heading, bold | {"fontsize": 8.4}))
        y += HEADING
        for beside, strips in lines:
            for row in _rows(strips, side, ROOM - left):
                wide = [max(1, len(strip.tiles)) * (side + GAP) + APART for _, strip in row]
                names = [textwrap.wrap(s.name, int(w / LETTER)) for (_, s), w in zip(row, wide, strict=True)]
                top = y + NAME * max(map(len, names)) + 0.02
                texts.append((0, top + side / 2, textwrap.fill(beside, LETTERS), {"va": "center"}))
                for (x, strip), name in zip(row, names, strict=True):
                    texts.append((left + x, y, "\n".join(name), bold))
                    places = (left + x + place * (side + GAP) for place in range(len(strip.tiles)))
                    tiles += [
                        (place, top, tile) for place, tile in zip(places, strip.tiles, strict=True) if tile
                    ]
                beside, y = "", top + side + LABEL
        y += 0.1
    wrapped = textwrap.wrap(legend, 150)
    texts.append((0, y, "\n".join(wrapped), {"fontsize": 6.8}))
    height = y + LEGEND * len(wrapped) + 0.05

    def paint(body: SubFigure) -> None:
        # One invisible axes whose units are inches, downwards from the top.
        axes = body.add_axes((0, 0, 1, 1))
        axes.axis("off")
        for x, y, text, look in texts:
            axes.text(x, y, text, {"fontsize": 6.5, "va": "top", "color": MUTED} | look)
        for x, y, tile in tiles:
            centre = x + side / 2
            frame = Rectangle((x, y), side, side, facecolor="none", edgecolor=FAINT, linewidth=0.6)
            if tile.image is None:
                frame.set(facecolor="black", edgecolor="black")
                axes.text(centre, y + side / 2, "none", color="white", fontsize=6, ha="center", va="center")
            else:
                pixels, extent = displayable(tile.image)[0], (x, x + side, y + side, y)
                axes.imshow(pixels, vmin=0, vmax=1, interpolation="nearest", extent=extent, aspect="auto")
            if tile.marked:
                frame.set(edgecolor=REVEALED, linewidth=1.8)
            axes.add_patch(frame)
            size = min(6.3, 115 * (side + GAP) / max(1, len(tile.label)))
            below = {"color": MUTED, "ha": "center", "va": "top", "fontsize": size}
            axes.text(centre, y + side + 0.02, tile.label, below)
        axes.set(xlim=(-MARGIN, WIDTH - MARGIN), ylim=(height, 0))

    return Body(height, note, paint)


def left_of(names: Iterable[str]) -> float:
    """Return the width in inches that the names at the left of lines take."""
    longest = max(map(len, names), default=0)
    return LETTER * min(longest, LETTERS) + APART if longest else 0.0


def _rows(strips: Sequence[Strip], side: float, room: float) -> Iterator[list[tuple[float, Strip]]]:
    """Yield a line row by row: how far from the left each strip starts, and the strip."""
    row: list[tuple[float, Strip]] = []
    pitch, x = side + GAP, 0.0
    for strip in strips:
        if row and x + min(len(strip.tiles) * pitch, room / 2) > room + GAP:
            yield row
            row, x = [], 0.0
        fitting = max(1, int((room + GAP - x) / pitch + 1e-6))
        for start in range(0, len(strip.tiles), fitting):
            if start:
                yield row
                row = []
            row.append((x, Strip("" if start else strip.name, strip.tiles[start : start + fitting])))
        x += min(len(strip.tiles), fitting) * pitch + APART
    yield row


def medians(result: Result, panels: Sequence[Panel]) -> Body | None:
    """Draw the pairs that a record keeps: for each cell, a private image and its median reconstruction."""
    # Many pairs stand in a grid, with networks and defences down, and data sets and attacks across.
    if not any(panel.about.get("rule") == "median" for panel in panels):
        return None
    place = {(name, value): n for name in CELL for n, value in enumerate(result.parts(name))}
    panels = sorted(panels, key=lambda panel: [place.get((n, panel.about[n]), -1) for n in CELL])
    columns = [name for name in CELL if name != "federation"]
    shared = [name for name in columns if len({panel.about[name] for panel in panels}) == 1]
    grid = ("victim", "defence") if len(panels) > MANY else ()
    heads = [name for name in columns if name in shared or name in grid[:1]]
    beside = [name for name in grid[1:] if name not in heads]
    above = [name for name in columns if name not in (*heads, *beside)]
    found: dict[str, dict[str, dict[str, list[Tile | None]]]] = {}
    for panel in panels:
        score = float(panel.score[0])
        guess = Tile(panel.guess[0], pearson(score), score >= THRESHOLD)
        heading, line, name = (named_cell(result, panel, each) for each in (heads, beside, above))
        found.setdefault(heading, {}).setdefault(line or "no defence" * bool(beside), {})[name] = [
            Tile(panel.truth[0], "private"),
            guess,
        ]
    # Panels come data set by data set, so that each group has its columns in this order.
    ordered = [named_cell(result, panel, above) for panel in panels]
    most, groups = 1, []
    for heading, lines in found.items():
        names = [name for name in dict.fromkeys(ordered) if any(name in line for line in lines.values())]
        most = max(most, len(names))
        strips = [
            [Strip("" if number else name, line.get(name, [None, None])) for name in names]
            for number, line in enumerate(lines.values())
        ]
        groups.append((heading, list(zip(lines, strips, strict=True))))
    note = (
        "a record keeps pictures of the strongest attacks alone; n = 1 image of each cell, the median of its "
        f"trials, so that cells have other images; below it: Pearson r; red frame: r ≥ {THRESHOLD}"
    )
    room = ROOM - left_of(line for _, lines in groups for line, _ in lines) - APART * (most - 1)
    return tiled(groups, min(LARGEST, room / (2 * most) - GAP), note=note)


def named_cell(result: Result, panel: Panel, columns: Sequence[str]) -> str:
    values = [(name, panel.about.get(name, "none")) for name in columns]
    return " · ".join(word(result, *each) for each in values if each != ("defence", "none"))
