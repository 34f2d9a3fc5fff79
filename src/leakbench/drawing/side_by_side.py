"""The same private images as several attacks reconstructed them: conditions down, attacks across."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Panel, Result
from leakbench.drawing.rows import RUN, too_short, word
from leakbench.drawing.sheet import MARGIN, WIDTH, Body
from leakbench.drawing.tile import THRESHOLD, canvas, dead, pearson, show, write

# Inches. LETTER: of a letter of a line's name, WIDE: of a column's. SMALLEST, LARGEST: side of a tile;
# LONE: that of a lone line.
HEADING, COLUMN, LABEL, GAP, APART, BETWEEN, LETTER, WIDE = 0.22, 0.13, 0.17, 0.05, 0.12, 0.16, 0.06, 0.068
SMALLEST, LARGEST, LONE = 0.31, 0.8, 1.15
CONDITION = ("dataset", "victim", "defence")
# What tells panels apart where these do not.
FURTHER = ("local_samples", "checkpoint", "federation")
RANKS = ("worst ", "median ", "best ")


@dataclass(frozen=True)
class Block:
    """Lines with the same private images: name → the panel of each attack."""

    heading: str
    lines: dict[str, dict[str, Panel]]
    attacks: list[str]

    @property
    def truth(self) -> Any:
        """Return the private images."""
        return next(panel.truth for line in self.lines.values() for panel in line.values())


def side_by_side(
    result: Result,
    *,
    blocks: tuple[str, ...] = ("dataset",),
    most: int = 8,
    where: dict[str, str | float | list[str | float]] | None = None,
    text: dict[str, str] | None = None,
) -> Body | None:
    """Draw a block for each set of private images: a line for each condition, in it each attack's
    reconstructions.

    The private images stand once, at the left of a block's first line. Where there is one condition and its
    attacks do not fit beside each other, each has a line of its own. Below each reconstruction is its Pearson
    r; r >= 0.98 has a red frame. blocks: what has a block of its own. most: so many images of an update.
    where: what a panel must be. text: value → words.
    """
    laid = _blocks(result, blocks, where or {}, text)
    if not laid:
        return None
    count = min(most, max(len(block.truth) for block in laid))
    lone = all(len(block.lines) == 1 for block in laid)
    widest = max(len(block.attacks) for block in laid) + 1
    beside = not lone or _side(count, widest, 0) >= 2 * SMALLEST
    if not beside:
        laid = [
            Block(block.heading, {words.attack(a): {"": line[a]} for a in block.attacks}, [""])
            for block in laid
            for line in block.lines.values()
        ]
        widest = 1
    longest = max(len(name) for block in laid for name in (*block.lines, "private"))
    names = 0.0 if lone and beside else min(1.75, LETTER * longest + 0.15)
    while count > 1 and _side(count, widest, names) < SMALLEST:
        count -= 1
    side = min(LONE if lone and beside else LARGEST, _side(count, widest, names))
    step = count * (side + GAP) + APART
    folds = [
        len(textwrap.wrap(words.attack(a), max(1, int(step / WIDE)))) for block in laid for a in block.attacks
    ]
    head = COLUMN * max(folds) if beside else 0.0
    heights = [HEADING + head + (len(block.lines) + (not beside)) * (side + LABEL) for block in laid]

    def tiles(axes: Axes, panel: Panel, x: float, y: float) -> None:
        for j, image in enumerate(panel.guess[:count]):
            left, score = x + j * (side + GAP), float(panel.score[j])
            if panel.usable[j]:
                show(axes, image, left, y, side, marked=score >= THRESHOLD)
            else:
                dead(axes, left, y, side, "none")
            rank = RANKS[j] if panel.about.get("rule") == "worst-median-best" else ""
            write(axes, left + side / 2, y + side + 0.015, rank + pearson(score), size=min(6, 12 * side + 1))

    def name_line(axes: Axes, name: str, y: float) -> None:
        folded = textwrap.wrap(name, max(1, int(names / LETTER)))
        for number, line in enumerate(folded):
            at = y + side / 2 + (number - len(folded) / 2) * 0.12
            write(axes, MARGIN, at, line, size=6.8, align="left")

    def draw(axes: Axes, block: Block, y: float) -> None:
        write(axes, MARGIN, y, block.heading, size=8.5, bold=True, align="left")
        y += HEADING
        if beside:
            for column, name in enumerate(["private", *map(words.attack, block.attacks)]):
                folded = textwrap.fill(name, max(1, int(step / WIDE)))
                write(
                    axes, MARGIN + names + column * step, y - 0.02, folded, size=6.8, bold=True, align="left"
                )
            y += head
        else:
            name_line(axes, "private", y)
        for j, image in enumerate(block.truth[:count]):
            show(axes, image, MARGIN + names + j * (side + GAP), y, side)
        y += 0 if beside else side + LABEL
        for name, line in block.lines.items():
            name_line(axes, name if names else "", y)
            for column, attack in enumerate(block.attacks):
                if attack in line:
                    tiles(axes, line[attack], MARGIN + names + (column + beside) * step, y)
            y += side + LABEL

    def paint(body: SubFigure) -> None:
        axes = canvas(body)
        y = 0.0
        for block, height in zip(laid, heights, strict=True):
            draw(axes, block, y)
            y += height + BETWEEN

    shown = [panel for block in laid for line in block.lines.values() for panel in line.values()]
    note = f"n = {words.span(min(len(p.truth), count) for p in shown)} images of each attack"
    note += f" {words.steps(result.rows[result.rows['baseline'] == ''])}".rstrip()
    note += f"; below each reconstruction: Pearson r; red frame: r ≥ {THRESHOLD}"
    return Body(sum(heights) + BETWEEN * len(laid), note, paint)


def _side(count: int, across: int, names: float) -> float:
    """Return the side of a tile where `across` groups of `count` images share a line."""
    return (WIDTH - 2 * MARGIN - names - APART * (across - 1)) / (across * count) - GAP


def _blocks(
    result: Result, by: Sequence[str], where: Mapping[str, Any], text: Mapping[str, str] | None
) -> list[Block]:
    """Return the blocks of all panels that are wanted and whose attack ran long enough."""
    short = {cell for cell, _ in too_short(result)}
    panels = [
        panel
        for panel in result.panels
        if len(panel.truth) and _cell(panel) not in short and _fits(panel.about, where)
    ]
    found: dict[tuple[Any, ...], list[Panel]] = {}
    for panel in panels:
        key = (*(panel.about[column] for column in by), panel.truth.tobytes())
        found.setdefault(key, []).append(panel)
    order = list(result.parts("attack"))
    out = []
    for own in found.values():
        # What is the same in all lines is said once, above them.
        varied = [
            c for c in CONDITION if len({panel.about.get(c, "none") for panel in own}) > 1 and c not in by
        ]
        if len({(p.about["attack"], *(p.about.get(c, "none") for c in varied)) for p in own}) < len(own):
            varied += [c for c in FURTHER if len({str(panel.about.get(c)) for panel in own}) > 1]
        lines: dict[str, dict[str, Panel]] = {}
        for panel in own:
            lines.setdefault(_named(result, panel, varied, text), {})[panel.about["attack"]] = panel
        attacks = sorted(
            dict.fromkeys(panel.about["attack"] for panel in own),
            key=lambda name: order.index(name) if name in order else len(order),
        )
        constant = [column for column in CONDITION if column not in varied]
        out.append(Block(_named(result, own[0], constant, text), lines, attacks))
    return out


def _named(result: Result, panel: Panel, columns: Sequence[str], text: Mapping[str, str] | None) -> str:
    about = {"defence": "none"} | panel.about
    names = [word(result, column, about[column], text) for column in columns if column in about]
    return " · ".join(name for name in names if name != words.defence("none")) or "no defence"


def _cell(panel: Panel) -> tuple[Any, ...]:
    return tuple(panel.about.get(column, "none") for column in RUN)


def _fits(about: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(about.get(c) in (v if isinstance(v, list | tuple) else [v]) for c, v in where.items())
