"""Methods against conditions, one line each: what was measured, and what the paper prints beside it."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.printed import named, printed
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

SHOWN = {
    "psnr": "PSNR (dB)",
    "ssim": "SSIM",
    "lpips_alex": "LPIPS (AlexNet)",
    "identified": "told apart (of 1,000)",
    "label_accuracy": "labels right",
    "matching_success": "matched rightly: labels and pooling",
    "matching_success_no_pooling": "labels alone",
    "matching_success_no_labels": "pooling alone",
    "matching_success_plain": "neither",
}
GROUP = ["dataset", "victim", "federation", "defence", "pass"]
KEY = ["dataset", "attack", "local_samples", "pass"]
NULL = "random-gradient"
ROW, LEFT, FOOT = 0.21, 2.75, 0.62
# Inches of a bold letter of a heading, on average.
LETTER = 0.063
STAR, GREY = COLOURS[3], "#8c959f"


def table(result: Result, item: str, folder: Path) -> Figure:
    """Draw one line per method and condition, one axes per metric, with the published number as a star.

    item: the paper's table (`table-4`), if it is one, whose numbers stand in the CSV files of `folder`.
    """
    rows = result.rows[result.rows["metric"].isin(list(SHOWN))]
    if rows.empty:
        return nothing(result)
    rows = _placed(rows)
    own, stars = rows[rows["baseline"] == ""], printed(folder, item)
    metrics = [metric for metric in SHOWN if metric in set(own["metric"])]
    places, texts = _lines(own)
    bottom = len(texts)
    height = ROW * bottom + FOOT
    left = max(LEFT, LETTER * max(map(len, texts.values())))
    room = (WIDTH - left - 0.15) / len(metrics)

    def paint(body: SubFigure) -> None:
        for column, metric in enumerate(metrics):
            axes = body.add_axes(
                ((left + column * room) / WIDTH, FOOT / height, (room - 0.2) / WIDTH, ROW * bottom / height)
            )
            null, mine = (each[each["metric"] == metric] for each in (rows[rows["baseline"] == NULL], own))
            null = null[null["place"].isin(list(places))]
            axes.plot(
                null["mean"], null["place"].map(places), ".", color=GREY, label="a random gradient attacked"
            )
            at = mine["place"].map(places)
            axes.hlines(at, mine["ci_low"], mine["ci_high"], color=COLOURS[0], linewidth=1.2)
            axes.plot(mine["mean"], at, "o", color=COLOURS[0], markersize=4, label="measured, 95 % interval")
            both = named(mine).merge(stars[stars["metric"] == metric], on=KEY)
            if len(both):
                at = both["place"].map(places)
                axes.plot(both["value"], at, "*", color=STAR, markersize=7, label="published")
            axes.set_ylim(bottom - 0.5, -0.6)
            axes.set_yticks(list(texts), list(texts.values()) if column == 0 else [""] * bottom)
            for y, text in enumerate(axes.get_yticklabels()):
                text.set(fontweight="normal" if y in places.values() else "bold", color=INK, fontsize=6.8)
            axes.tick_params(axis="y", length=0)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.set_xlabel(SHOWN[metric])
        handles, entries = body.axes[0].get_legend_handles_labels()
        body.legend(handles, entries, loc="lower center", ncols=3, frameon=False)

    counts = sorted(own["n"].unique())
    return sheet(result, height, f"n = {words.listed(counts)} behind each point {words.steps(own)}", paint)


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """Add `label`, what a line is called, and `place`, which tells lines apart."""
    rows = rows.assign(**{"label": rows["attack"].map(words.attack), "pass": rows.get("pass", 0)})
    return rows.assign(place=rows[[*GROUP, "label"]].astype(str).agg(" · ".join, axis=1))


def _lines(own: pd.DataFrame) -> tuple[dict[str, int], dict[int, str]]:
    """Return the line of each place, and what stands on each line: a method, or the heading of a condition."""
    places: dict[str, int] = {}
    texts: dict[int, str] = {}
    several = own["pass"].nunique() > 1
    for _, part in own.groupby(GROUP, sort=False):
        first = part.iloc[0]
        epoch = f", epoch {first['pass'] + 1}" if several else ""
        guard = "" if first["defence"] == "none" else f", {words.defence(first['defence'])}"
        texts[len(texts)] = (
            f"{words.dataset(first['dataset'])}, {words.victim(first['victim'])}, {first['federation']}{guard}{epoch}"
        )
        for place, label in dict(zip(part["place"], part["label"], strict=True)).items():
            places[place] = len(texts)
            texts[len(texts)] = label
    return places, texts
