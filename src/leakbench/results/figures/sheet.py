"""The look of every figure: title and claim, the drawings below each other, and the small print last."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

from leakbench.base.parts import part
from leakbench.results.figures import words
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import missing, too_short
from leakbench.results.figures.words import BOTTOM, FOOT, TOP

WIDTH, MARGIN, DPI = 9.0, 0.3, 170
INK, MUTED, FAINT, GREY = "#1b1f24", "#59636e", "#d5dae0", "#8c959f"
LOOK: Any = {
    "axes.grid": True, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.linewidth": 0.7, "axes.titlelocation": "left",
    "grid.color": "#e8ebee", "grid.linewidth": 0.7, "lines.solid_capstyle": "round", "image.cmap": "gray",
    "text.color": INK, "xtick.color": INK, "ytick.color": INK, "legend.frameon": False,
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"], "font.size": 8,
    "axes.labelsize": 8, "axes.titlesize": 8.5, "xtick.labelsize": 7.5, "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
}  # fmt: skip


@dataclass(frozen=True)
class Body:
    """A drawing, which is WIDTH inches wide."""

    height: float  # in inches
    note: str  # the part of the small print that says what is behind the drawing
    paint: Callable[[SubFigure], None]  # draws into the subfigure that it is given


def draw(result: Result) -> Figure | None:
    bodies = []
    for asked in result.spec["figure"]:
        arguments = {key: value for key, value in asked.items() if key != "drawing"}
        bodies.append(part("drawing", asked["drawing"])(result, **arguments))
    return lay_out(result, [body for body in bodies if body])


def lay_out(result: Result, bodies: Sequence[Body]) -> Figure | None:
    """Put title and claim above some drawings, and scale, n, seeds and threat model below them."""
    if not bodies:
        return None
    title = textwrap.wrap(result.spec["title"], 88)
    claim = textwrap.wrap(("" if result.own else "Claim: ") + result.spec["shows"], 128)
    # A number stays in one line with its unit.
    small = [text.replace(" %", "\xa0%").replace("≥ ", "≥\xa0") for text in _small_print(result, bodies)]
    foot = [line for text in small for line in textwrap.wrap(text, 154)]
    # Inches: lines of the title, of the claim and of the small print, each with its margins.
    top = 0.26 + 0.23 * len(title) + 0.165 * len(claim)
    bottom = 0.2 + 0.139 * len(foot)
    heights = [top, *(body.height for body in bodies), bottom]
    with mpl.rc_context(LOOK):
        layout = ConstrainedLayoutEngine(w_pad=0.09, h_pad=0.05)
        figure = Figure(figsize=(WIDTH, sum(heights)), dpi=DPI, facecolor="white", layout=layout)
        FigureCanvasAgg(figure)
        parts: Any = figure.subfigures(len(heights), 1, height_ratios=heights, hspace=0)
        above, *within, below = parts
        left = MARGIN / WIDTH
        above.text(left, 1 - 0.16 / top, "\n".join(title), va="top", fontsize=11.5, fontweight="bold")
        y = 1 - (0.16 + 0.23 * len(title)) / top
        above.text(left, y, "\n".join(claim), va="top", fontsize=8, color=MUTED, linespacing=1.3)
        # The rule is not snapped to pixels: between two pixels, rounding errors of the layout would choose.
        rule: Any = {"color": FAINT, "linewidth": 0.7, "snap": False}
        below.add_artist(Line2D([left, 1 - left], [1 - 0.05 / bottom] * 2, **rule))
        look: Any = {"va": "top", "fontsize": 7, "color": MUTED, "linespacing": 1.35}
        below.text(left, 1 - 0.12 / bottom, "\n".join(foot), **look)
        below.set_label("\n".join(small))
        for body, place in zip(bodies, within, strict=True):
            body.paint(place)
        layout.execute(figure)
        # The last bits of the solver depend on where its variables lie in memory, and would choose pixels.
        for each in parts:
            each.bbox_relative.set_points(np.round(each.bbox_relative.get_points(), 6))
        for axes in figure.axes:
            axes.set_position(np.round(axes.get_position().bounds, 6))
        # Everything has its place now. With a layout engine, `save` would compute all places once more.
        figure.set_layout_engine("none")
    return figure


def save(figure: Figure | None, out: str) -> None:
    """Write the figure as PNG, or an empty file, which page and report skip, if there is no figure."""
    if figure is None:
        Path(out).write_bytes(b"")
        return
    with mpl.rc_context(LOOK):
        # What a page that has title, claim and small print as text leaves out of the picture.
        above, below = figure.subfigs[0], figure.subfigs[-1]
        own = {TOP: str(int(above.bbox.height)), BOTTOM: str(int(below.bbox.height)), FOOT: below.get_label()}
        figure.savefig(Path(out), format="png", metadata={"Software": None, **own})


def _small_print(result: Result, bodies: Sequence[Body]) -> list[str]:
    of_panels = {str(i): panel.about.get("knows", {}) for i, panel in enumerate(result.panels)}
    knows = result.facts.get("knows", {}) or of_panels
    seeds = words.listed(result.facts.get("seeds", []))
    notes = "; below: ".join(dict.fromkeys(body.note for body in bodies))
    scale = " · ".join(filter(None, [f"Scale {result.spec['scale']}", result.recorded]))
    lines = [f"{scale} · seed {seeds or 'not stated'} · {notes}"]
    if result.said:
        lines.insert(0, f"Printed: {'; '.join(result.said)}.")
    if model := words.threat(knows):
        lines.append(f"Threat model: {model}")
    if short := dict.fromkeys(text for _, text in too_short(result)):
        lines.append(f"Not drawn, too short to say anything: {', '.join(short)}")
    if reasons := missing(result):
        lines.append(f"Not measured: {reasons}")
    return lines
