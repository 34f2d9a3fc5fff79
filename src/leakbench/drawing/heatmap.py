"""Every attack against every defence: how alike reconstruction and image are, a square for each pair."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import INK, WIDTH, nothing, sheet

METRIC = "pearson"
# Only of images: an attack without it reconstructs what the victim's dense layer read.
OF_IMAGES = "psnr"
SQUARE, LEFT, TOP, FOOT = 0.3, 1.9, 0.3, 0.95
# From here on a number is written in white.
DARK = 0.6


def matrix(result: Result) -> Figure:
    """Draw one map per data set and victim: attacks down, defences across, the mean Pearson r in each square.

    Empty squares have not been measured, or cannot be: the reasons are below the figure. Numbers in italics are of features.
    """
    rows = result.rows[(result.rows["metric"] == METRIC) & (result.rows["baseline"] == "")]
    if rows.empty:
        return nothing(result)
    pixels = result.rows[result.rows["metric"] == OF_IMAGES]
    groups = list(rows.groupby(["dataset", "victim"], sort=False))
    attacks, defences = (list(dict.fromkeys(rows[name])) for name in ("attack", "defence"))
    defences.sort(key=lambda name: name != "none")
    each = TOP + SQUARE * len(attacks)
    height = each * len(groups) + FOOT

    def paint(body: SubFigure) -> None:
        for number, ((dataset, victim), own) in enumerate(groups):
            across = min(SQUARE * 2, (WIDTH - LEFT - 0.2) / len(defences)) * len(defences)
            up = height - each * (number + 1)
            axes = body.add_axes((LEFT / WIDTH, up / height, across / WIDTH, SQUARE * len(attacks) / height))
            axes.set_title(
                f"{words.dataset(str(dataset))} · {words.victim(str(victim))}", fontsize=8.2, loc="left"
            )
            _squares(axes, own, attacks, defences, set(pixels[pixels["victim"] == victim]["attack"]))
            axes.set_yticks(range(len(attacks)), [words.attack(name) for name in attacks], fontsize=7)
            labels = [words.defence(name) for name in defences] if number == len(groups) - 1 else []
            axes.set_xticks(range(len(labels)), labels, fontsize=7, rotation=40, ha="right")

    counts = sorted(rows["n"].unique())
    return sheet(
        result,
        height,
        f"Pearson r of image and reconstruction (in italics: of the features that the dense layer reads), "
        f"n = {words.listed(counts)} behind each square {words.steps(rows)}",
        paint,
    )


def _squares(
    axes: Axes, own: pd.DataFrame, attacks: list[str], defences: list[str], pictured: set[str]
) -> None:
    """Colour and number the squares of one map; `pictured` are the attacks that reconstruct images."""
    means = own.groupby(["attack", "defence"])["mean"].mean()
    values = np.array([[means.get((attack, defence), np.nan) for defence in defences] for attack in attacks])
    axes.imshow(np.clip(values, 0, 1), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "white" if value >= DARK else INK
            axes.text(
                column,
                row,
                f"{value:.2f}".replace("-", "−"),
                ha="center",
                va="center",
                fontsize=6.3,
                color=colour,
                style="normal" if attacks[row] in pictured else "italic",
            )
    axes.grid(False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
