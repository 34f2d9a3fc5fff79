"""The same private images as several attacks reconstructed them: conditions down, attacks across."""

from collections.abc import Sequence
from typing import Any

from leakbench.base.cellname import CELL
from leakbench.results.figures import tile, words
from leakbench.results.figures.result import Panel, Result
from leakbench.results.figures.rows import several, too_short, word
from leakbench.results.figures.sheet import Body

# Whether the drawing shows the pictures of an exhibit, so that a record without them does not serve.
PICTURES = True

# Inches: the sides that a tile may have, and those of a figure with a single line.
SMALLEST, LARGEST, ALONE = 0.31, 0.8, 1.3
CONDITION = ("dataset", "victim", "defence")
# Further columns, which are named where those of CONDITION do not distinguish all panels.
FURTHER = ("local_samples", "checkpoint", "federation")
RANKS = ("worst ", "median ", "best ")


def side_by_side(
    result: Result,
    *,
    blocks: tuple[str, ...] = ("dataset",),
    most: int = 8,
    where: dict[str, str | float | list[str | float]] | None = None,
) -> Body | None:
    """Draw a line for each condition: the private images, then each attack's reconstructions.

    Lines with the same private images form a group, which shows these images once. If every group has one
    condition only and the attacks do not fit beside each other, each attack has a line. Below each
    reconstruction is its Pearson r; r >= 0.98 has a red frame. Attacks that ran for less than 1 % of their
    published length are not shown.

    blocks: columns whose values each have a group.
    most: the largest number of images of an update that are shown.
    where: column → the value, or list of values, of the panels that are shown.
    """
    short = {cell for cell, _ in too_short(result)}
    found: dict[Any, list[Panel]] = {}
    for panel in result.panels:
        fits = all(panel.about.get(column) in several(wanted) for column, wanted in (where or {}).items())
        if len(panel.truth) and _values(panel, CELL) not in short and fits:
            found.setdefault((*_values(panel, blocks), panel.truth.tobytes()), []).append(panel)
    if not found:
        return None
    if kept := tile.medians(result, [panel for own in found.values() for panel in own]):
        return kept
    laid = [(*_laid(result, own), own[0].truth) for own in found.values()]
    count = min(most, max(len(truth) for *_, truth in laid))
    across = 1 + max(len(attacks) for _, _, attacks, _ in laid)
    alone = all(len(lines) == 1 for _, lines, _, _ in laid)
    stacked = alone and _side(tile.ROOM, across, count) < 2 * SMALLEST
    if stacked:
        names = [word(result, "attack", attack) for _, _, attacks, _ in laid for attack in attacks]
        left, across = tile.left_of(["private", *names]), 1
    else:
        left = 0.0 if alone else tile.left_of(name for _, lines, _, _ in laid for name in lines)
    while count > 1 and _side(tile.ROOM - left, across, count) < SMALLEST:
        count -= 1
    groups = []
    for heading, lines, attacks, truth in laid:
        called = ["private", *(word(result, "attack", attack) for attack in attacks)]
        drawn: list[tile.Shelf] = []
        for name, line in lines.items():
            private: list[Any] = [None] * count if drawn else list(map(tile.Tile, truth[:count]))
            tiles = [private, *(_tiles(line.get(attack), count) for attack in attacks)]
            if stacked:
                drawn = [(each, [tile.Strip("", own)]) for each, own in zip(called, tiles, strict=True)]
            else:
                heads = [""] * len(called) if drawn else called
                drawn.append(("" if alone else name, list(map(tile.Strip, heads, tiles))))
        groups.append((heading, drawn))
    shown = words.span(min(len(truth), count) for *_, truth in laid)
    steps = words.steps(result.rows[result.rows["baseline"] == ""])
    note = f"n = {shown} image{'s' * (shown != '1')} of each attack {steps}".rstrip()
    note += f"; below each reconstruction: Pearson r; red frame: r ≥ {tile.THRESHOLD}"
    largest = ALONE if alone and not stacked and len(groups) == 1 else LARGEST
    return tile.tiled(groups, min(largest, _side(tile.ROOM - left, across, count)), note=note)


def _side(room: float, across: int, count: int) -> float:
    """Return the side of a tile where `across` strips of `count` tiles share a line of `room` inches."""
    return (room - tile.APART * (across - 1)) / (across * count) - tile.GAP


def _laid(result: Result, panels: Sequence[Panel]) -> tuple[str, dict[str, dict[str, Panel]], list[str]]:
    """Return what all panels of a group share, the panels by line and attack, and the attacks in order."""
    varied = [c for c in CONDITION if len({_values(panel, [c]) for panel in panels}) > 1]
    if len({_values(panel, ["attack", *varied]) for panel in panels}) < len(panels):
        varied += [c for c in FURTHER if len({_values(panel, [c]) for panel in panels}) > 1]
    lines: dict[str, dict[str, Panel]] = {}
    for panel in panels:
        name = tile.named_cell(result, panel, varied) or "no defence"
        lines.setdefault(name, {})[panel.about["attack"]] = panel
    met = dict.fromkeys(panel.about["attack"] for panel in panels)
    order = [name for name in result.parts("attack") if name in met]
    attacks = list(dict.fromkeys([*order, *met]))
    shared = [c for c in CONDITION if c not in varied]
    return tile.named_cell(result, panels[0], shared) or "no defence", lines, attacks


def _tiles(panel: Panel | None, count: int) -> list[tile.Tile | None]:
    """Return `count` tiles of an attack's reconstructions, with gaps where the attack has none."""
    tiles: list[tile.Tile | None] = []
    if panel is None:
        return [None] * count
    for place, image in enumerate(panel.guess[:count]):
        score, usable = float(panel.score[place]), bool(panel.usable[place])
        rank = RANKS[place] if panel.about.get("rule") == "worst-median-best" else ""
        marked = usable and score >= tile.THRESHOLD
        tiles.append(tile.Tile(image if usable else None, rank + tile.pearson(score), marked))
    return [*tiles, *[None] * (count - len(tiles))]


def _values(panel: Panel, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(panel.about.get(column, "none") for column in columns)
