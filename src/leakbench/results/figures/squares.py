"""Maps of squares: conditions down and across, and in each square a number with what it is compared with."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from leakbench.metrics.baselines import WORDS
from leakbench.papers.verdicts.tolerances import possible
from leakbench.results.figures.facet import bare, faceted, grouped
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import OUTCOMES, SAID, chosen, counted, ordered, word
from leakbench.results.figures.sheet import FAINT, INK, WIDTH, Body

# In inches: a row with one line, each further line, a heading, a line of words below a map, the room between
# maps, and a letter of those words, of a row's name, and of a line below a number. LETTERS: of a row's name.
SQUARE, FURTHER, HEAD, BELOW, APART = 0.2, 0.1, 0.2, 0.13, 0.15
LETTER, WIDER, SMALLER, LETTERS = 0.056, 0.064, 0.05, 40
# From this shade on numbers are white.
DARK = 0.45
# A number is in brackets if at least this share of the trials failed.
FAILED = 0.5
# From here on, a number is whole.
MANY = 100
BEST = "strongest attacker"
# Only reconstructed images have one of these metrics.
OF_IMAGES = ("psnr", "ssim")
NULLS = [name for name, called in WORDS.items() if called.startswith("null: ")]
SIGNS = {OUTCOMES["success"]: "✓", OUTCOMES["failure"]: "✗"}
# What names a square: a row of maps, one of them, and a row and a column of it.
AT = ["block", "panel", "row", "column"]


def squares(
    result: Result,
    *,
    metrics: tuple[str, ...],
    down: tuple[str, ...],
    across: tuple[str, ...] = ("metric",),
    blocks: tuple[str, ...] = (),
    where: dict[str, str | float | list[str | float]] | None = None,
    columns: dict[str, dict[str, str | float | list[str | float]]] | None = None,
    text: dict[str, str] | None = None,
    beside: tuple[str, ...] = (),
    against: tuple[str, ...] = (),
    intervals: bool = False,
    strongest: bool = False,
    apart: tuple[str, ...] = (),
) -> Body | None:
    """Draw maps with the mean of what was measured in each square, and below it interval, null and print.

    A square is the darker, the further its number lies above the null, if there is one. A grey square was not
    measured.

    metrics: the metrics that are drawn. Each has a map of its own, unless metrics stand across.
    down: columns that name the rows of a map.
    across: columns that name the columns of a map.
    blocks: columns whose values each have a row of maps.
    where: column → the value, or list of values, of the rows that are drawn.
    columns: new column → how it follows from other columns (`derived` in `drawing/rows.py`).
    text: value → the words that are shown in its place.
    beside: other experiments, whose recorded tables are drawn in the same map.
    against: null baselines, of which a square shows the greatest number.
    intervals: whether a square shows its interval.
    strongest: whether attacks stand down, the strongest above all others and the nulls below them. Attacks
    without a PSNR or an SSIM reconstruct the features that the first dense layer reads, and the strongest of
    them has a row of its own. A number is in brackets if at least half of the trials failed.
    apart: attacks that use no gradient. They stand below the others and are never the strongest.
    """
    found = [result, *(result.others[name] for name in beside if name in result.others)]
    shown: Any = {"where": where, "columns": columns, "baselines": ["", *against], "unmeasured": True}
    parts = [chosen(each, metrics, **shown) for each in found]
    rows = pd.concat([part for part in parts if len(part)] or parts).dropna(subset=[*down, *across])
    if not (rows["baseline"] == "").any():
        return None
    order: Any = {"metric": {name: name for name in metrics}} | (columns or {})
    rows = rows.assign(panel="" if "metric" in across else rows["metric"]).reset_index(drop=True)
    rows = grouped(result, rows, order, text, block=blocks, row=down, column=across).reset_index(drop=True)
    listed = list(dict.fromkeys(ordered(result, rows, across, order)["column"]))
    own = _own(rows, against, intervals, not strongest)
    note = counted(rows, "below a number" if intervals else "")
    if strongest:
        own = _ranked(result, own, rows, apart)
        note += "; in brackets: at least half of the trials failed"
    called = [WORDS[name].removeprefix("null: ") for name in against if name in NULLS]
    if called:
        note += f"; the darker, the further above the null ({' or '.join(called)})"
    said = rows[rows["baseline"].isin(SAID)].drop_duplicates(AT)
    printed = [SIGNS.get(b, f"{mean:.3g}") for b, mean in zip(said["baseline"], said["mean"], strict=True)]
    said = said.assign(below=[f"printed {each}" for each in printed])
    if said["baseline"].isin(list(SIGNS)).any():
        note += "; ✓, ✗: the source prints success or failure"
    if len(found) > 1:
        note += f"; with the records of {', '.join(each for each in beside if each in result.others)}"
    # What is not measured stands at its place too, but behind what is measured in the same square.
    cells = pd.concat([own, said])
    names = list(dict.fromkeys((cells if strongest else cells.sort_index())["row"]))
    cells = cells.fillna({"number": ""})
    lines = cells.groupby(AT)["below"].agg(lambda each: "\n".join(filter(None, each))).to_dict()
    rows_of = {
        str(block): [name for name in names if name in set(part["row"])]
        for block, part in cells.groupby("block", sort=False)
    }
    columns_of = {
        key: [name for name in listed if name in set(part["column"])]
        for key, part in cells.groupby(["block", "panel"], sort=False)
    }
    panels = [""] if "metric" in across else [m for m in metrics if m in set(cells["panel"])]
    # Maps beside others have all columns, unless some would be mostly grey.
    if len(panels) > 1 and all(2 * len(each) >= len(listed) for each in columns_of.values()):
        columns_of = dict.fromkeys(columns_of, listed)
    most = [max(len(columns_of.get((block, panel), ())) for block in rows_of) for panel in panels]
    left = WIDER * min(LETTERS, max(len(name) for names in rows_of.values() for name in names))
    room = (WIDTH - 0.3 - left - APART * len(panels)) / sum(most)
    # Short lines stand beside each other.
    if SMALLER * max(map(len, lines.values())) < room:
        lines = {at: below.replace("\n", " · ") for at, below in lines.items()}
    pitch = SQUARE + FURTHER * max(len(below.splitlines()) for below in lines.values())
    named = {name: textwrap.fill(name, max(5, int(room / LETTER)), break_long_words=False) for name in listed}

    def labelled(block: str) -> bool:
        """Return whether the columns have names below a block: the next one may have the same columns."""
        following = dict(zip(rows_of, [*rows_of][1:], strict=False)).get(block)
        return any(columns_of.get((block, p)) != columns_of.get((following, p)) for p in panels)

    def mark(axes: Axes, block: str, panel: str) -> None:
        names, across = rows_of[block], columns_of[block, panel]
        own = cells[(cells["block"] == block) & (cells["panel"] == panel)].drop_duplicates(["row", "column"])
        shades = own.dropna(subset="shade").pivot(index="row", columns="column", values="shade")
        shades = shades.reindex(index=names, columns=across)
        axes.set_facecolor(FAINT)
        axes.pcolormesh(shades, cmap="rocket_r", vmin=0, vmax=1, edgecolors="white", linewidth=1.2)
        for row, column, shade, number in own[["row", "column", "shade", "number"]].to_numpy(object):
            x, y = across.index(column) + 0.5, names.index(row)
            below, middle = lines[block, panel, row, column], 0.5
            look: Any = {"ha": "center", "color": "white" if shade > DARK else INK}
            if below:
                middle = 0.53 * SQUARE / pitch
                small: Any = {"va": "top", "fontsize": 6.3, "linespacing": 1.1}
                axes.text(x, y + 0.82 * SQUARE / pitch, below, small | look)
            axes.text(x, y + middle, number, {"va": "center", "fontsize": 7.3} | look)
        axes.set(xlim=(0, len(across)), ylim=(len(names), 0))
        first, whole = panel == panels[0], labelled(block)
        axes.set_xticks(np.arange(len(across)) + 0.5, [named[n] if whole else "" for n in across], fontsize=7)
        folded = [textwrap.fill(name, LETTERS) if first else "" for name in names]
        axes.set_yticks(np.arange(len(names)) + 0.5, folded, fontsize=7)
        for label, name in zip(axes.get_yticklabels(), names, strict=True):
            label.set_fontweight("bold" if name.startswith("strongest") else "normal")
        metric = word(result, "metric", panel, text) if panel else ""
        between = " · " if len(panels) == 1 else "\n"
        axes.set_title(between.join(filter(None, [block if first else "", metric])))
        bare(axes)

    head = HEAD * (1 + (len(panels) > 1 and any(rows_of)))
    foot = BELOW * max(len(name.splitlines()) for name in named.values())
    below = sum(head + 0.15 + foot * labelled(block) for block in rows_of)
    places = [(b, panel) if (b, panel) in columns_of else () for b in rows_of for panel in panels]
    heights = [pitch * len(names) for names in rows_of.values()]
    return faceted(mark, places, note, heights=heights, below=below, across=len(panels), widths=most)


def _own(rows: pd.DataFrame, against: Sequence[str], intervals: bool, beneath: bool) -> pd.DataFrame:
    """Return the row of each square with its number, what stands below it, and how dark it is."""
    own = rows[rows["baseline"] == ""].sort_values("client", na_position="first", kind="stable")
    own = own.drop_duplicates(AT).sort_index()
    compared = rows[rows["baseline"].isin(list(against))]
    for name, these in (("null", NULLS), ("transformed", ["transformed"])):
        greatest = compared[compared["baseline"].isin(these)].groupby(AT)["mean"].max()
        own = own.join(greatest.rename(name), on=AT)
    # Shares and correlations go up to 1, all else to its greatest number.
    own["share"] = [possible(str(metric), -math.inf, math.inf)[1] == 1 for metric in own["metric"]]
    low = own["null"].where(own["share"]).fillna(0)
    high = own[["mean", "null"]].max(axis=1).groupby(own["metric"]).transform("max").where(~own["share"], 1)
    own["shade"] = ((own[["mean", "transformed"]].max(axis=1) - low) / (high - low)).clip(0, 1).fillna(0)
    number, null, transformed, *ends = (
        [_number(*each) for each in zip(own[name], own["share"], strict=True)]
        for name in ("mean", "null", "transformed", "ci_low", "ci_high")
    )
    spans = [_span(*each) if all(each) and intervals else "" for each in zip(*ends, strict=True)]
    nulls = [f"null {each}" if each and beneath else "" for each in null]
    others = [f"transformed {each}" if each else "" for each in transformed]
    below = ["\n".join(filter(None, each)) for each in zip(spans, others, nulls, strict=True)]
    return own.assign(number=number, below=below)


def _number(value: float, share: bool) -> str:
    """Return a number, or no text for none."""
    form = ".2f" if share else ",.0f" if abs(value) >= MANY else ".3g" if abs(value) >= 1 else ".2g"
    return "" if math.isnan(value) else f"{value:{form}}".replace("-", "−")


def _span(low: str, high: str) -> str:
    return low + (" to " if "−" in low else "–") + high


def _ranked(result: Result, own: pd.DataFrame, rows: pd.DataFrame, apart: Sequence[str]) -> pd.DataFrame:
    """Return the squares of attacks with the strongest before them, and the nulls behind."""
    pictured = result.rows[result.rows["metric"].isin(OF_IMAGES)]
    pixels = set(zip(pictured["victim"], pictured["attack"], strict=True))
    pairs = ["victim", "attack"]
    rows, own = (
        part.assign(features=[each not in pixels for each in part[pairs].itertuples(index=False, name=None)])
        for part in (rows, own)
    )
    steps = own.get("iterations", own["mean"] * math.nan).fillna(0)
    own["row"] += [f", {each:,.0f} steps" if each else "" for each in steps]
    own["row"] += np.where(own["features"], ": features", "")
    failed = own.get("failure_rate", own["mean"] * 0) >= FAILED
    own["number"] = own["number"].where(~failed, "(" + own["number"] + ")")
    able = own[~own["attack"].isin(list(apart))]
    best = able.loc[able.groupby(["block", "column", "features"])["mean"].idxmax()].sort_values("features")
    both = best.groupby("block")["features"].transform("nunique") > 1
    best["row"] = np.where(both, "strongest, of " + np.where(best["features"], "features", "images"), BEST)
    null: Any = rows[rows["baseline"] != ""]
    # Features have other nulls than images.
    null = null[~null["features"] | ~null["block"].isin(null.loc[~null["features"], "block"])]
    null = null.groupby([*AT[:2], "column", "baseline"], as_index=False)["mean"].first()
    null = null.assign(row=null["baseline"].map(WORDS), shade=0.0, below="", share=True)
    null["number"] = [_number(mean, True) for mean in null["mean"]]
    last = own["features"] + 2 * own["attack"].isin(list(apart))
    return pd.concat([best, own.loc[last.sort_values(kind="stable").index], null])
