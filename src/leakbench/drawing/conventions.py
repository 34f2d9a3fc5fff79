"""One set of images under three conventions of PSNR, with what the thesis prints in the one that it is read in."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, MUTED, WIDTH, nothing, sheet

CONVENTIONS = {
    "psnr": "true PSNR",
    "psnr_of_rmse": "RMSE in\nplace of MSE",
    "psnr_uint8_wrap": "8-bit\nwrap-around",
}
READ_IN = "psnr_uint8_wrap"
# 10 log10(255² / 105.5): the mean of a wrapped square over all 256 differences is 105.5.
FLOOR = 27.9
PRINTED = {"mnist-32": "MNIST", "cifar100": "CIFAR-100", "lfw-32": "LFW"}
# Sets that anybody can fetch, beside numbers of those that they resemble.
LIKE = {"cifar10": "cifar100", "orl-32": "lfw-32"}
GREY = "#6e7781"
STAR: dict[str, Any] = {"marker": "*", "markersize": 8, "zorder": 4}
PLOT, GAP, FOOT, ACROSS = 3.0, 0.75, 0.5, 3
STEP = 0.1


def _look(colour: str, marker: str, open_: bool) -> dict[str, Any]:
    face = "white" if open_ else colour
    return {"color": colour, "marker": marker, "markerfacecolor": face, "markersize": 4.5}


# Name → (attack or baseline, whether the victim is converged) and look, in order from left to right in each column.
SERIES: dict[str, tuple[tuple[str, bool], dict[str, Any]]] = {
    "GRNN, untrained": (("grnn", False), _look(COLOURS[0], "o", False)),
    "GRNN, converged": (("grnn", True), _look(COLOURS[0], "o", True)),
    "DLG, untrained": (("dlg", False), _look(COLOURS[1], "s", False)),
    "DLG, converged": (("dlg", True), _look(COLOURS[1], "s", True)),
    "two unrelated images": (("unrelated-image", False), _look(COLOURS[3], "D", False)),
    "random noise": (("random-noise", False), _look(GREY, "X", False)),
    "data-set mean": (("dataset-mean", False), _look(GREY, "P", True)),
}
PLACES = {name: (number - (len(SERIES) - 1) / 2) * STEP for number, name in enumerate(SERIES)}
# GRNN on ResNet-18 is printed too, but is no series here: its stars stand left of the others.
RESNET = {False: (-4.2 * STEP, COLOURS[2]), True: (-3.6 * STEP, COLOURS[2])}


def figure(result: Result, folder: Path) -> Figure:
    """Draw one axes per data set; `folder` holds the CSV files of published numbers (thesis_table-3-4.csv)."""
    rows = result.rows[result.rows["metric"].isin(list(CONVENTIONS))]
    if rows.empty:
        return nothing(result)
    names = list(dict.fromkeys(rows["dataset"]))
    lines = math.ceil(len(names) / ACROSS)
    height = lines * (PLOT + GAP) + FOOT
    stars = printed(folder)

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.25) / min(len(names), ACROSS)
        for number, name in enumerate(names):
            line, column = divmod(number, ACROSS)
            bottom = height - (line + 1) * (PLOT + GAP) + 0.5
            axes = body.add_axes(
                ((0.55 + column * room) / WIDTH, bottom / height, (room - 0.45) / WIDTH, PLOT / height)
            )
            _measured(axes, rows[rows["dataset"] == name])
            own = name if name in PRINTED else "" if LIKE.get(name) in names else LIKE.get(name, "")
            _published(axes, stars[stars["dataset"] == PRINTED.get(own, "")])
            title = words.dataset(name)
            axes.set_title(f"{title} (stars: {PRINTED[own]})" if own not in ("", name) else title)
            _dress(axes, column == 0)
        handles = [
            Line2D([], [], linestyle="none", label=label, **look) for label, (_, look) in SERIES.items()
        ]
        handles += [
            Line2D([], [], linestyle="none", color=INK, label="printed in Table 3.4", **STAR),
            Line2D([], [], linestyle="none", color=COLOURS[2], label="printed, ResNet-18", **STAR),
            Line2D([], [], color=MUTED, linewidth=1, linestyle="--", label=f"{FLOOR} dB: chance, wrapped"),
        ]
        body.legend(handles=handles, loc="lower center", ncols=5, frameon=False)

    own = sorted(rows.loc[rows["baseline"] == "", "n"].unique())
    pairs = sorted(rows.loc[rows["baseline"] == "unrelated-image", "n"].unique())
    told = f"n = {words.listed(own)} reconstructions {words.steps(rows[rows['baseline'] == ''])}"
    told += f", {words.listed(pairs)} unrelated pairs" if pairs else ""
    return sheet(result, height, f"{told}; open: converged network; bars: 95 % interval of the mean", paint)


def printed(folder: Path) -> pd.DataFrame:
    """The decibels of Table 3.4: columns dataset and model as printed, attack and converged (bool) as here, value.

    Empty where the folder has no such table.
    """
    path, columns = folder / "thesis_table-3-4.csv", ["dataset", "model", "attack", "converged", "value"]
    if not path.is_file():
        return pd.DataFrame(columns=columns)
    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    value = pd.to_numeric(rows["value"], errors="coerce")
    rows = rows.assign(
        value=value, attack=rows["attack"].str.lower(), converged=rows["model_state"] == "converged"
    )
    return rows.loc[value.notna(), columns]


def _measured(axes: Axes, rows: pd.DataFrame) -> None:
    converged = rows["victim"].str.endswith("-converged")
    for label, ((name, trained), look) in SERIES.items():
        null = name not in ("grnn", "dlg")
        own = (rows["baseline"] == name) if null else (rows["baseline"] == "") & (rows["attack"] == name)
        for place, metric in enumerate(CONVENTIONS):
            part = rows[own & (converged == trained) & (rows["metric"] == metric)].head(1)
            at = [place + PLACES[label]] * len(part)
            # One identical pair makes a mean infinite: it is drawn at the upper edge.
            axes.vlines(at, part["ci_low"], part["ci_high"], color=look["color"], linewidth=1.2, zorder=2)
            axes.plot(at, part["mean"].clip(upper=60), linestyle="none", zorder=3, label=label, **look)


def _published(axes: Axes, stars: pd.DataFrame) -> None:
    place = list(CONVENTIONS).index(READ_IN)
    known = {key: (PLACES[label], look["color"]) for label, (key, look) in SERIES.items()}
    for star in stars.to_dict("records"):
        lenet = star["model"] == "LeNet"
        shift, colour = known[star["attack"], star["converged"]] if lenet else RESNET[star["converged"]]
        face = "white" if star["converged"] else colour
        axes.plot(
            place + shift, star["value"], linestyle="none", color=colour, markerfacecolor=face,
            label="printed", **STAR,
        )  # fmt: skip


def _dress(axes: Axes, first: bool) -> None:
    axes.axhline(FLOOR, color=MUTED, linewidth=1, linestyle="--", zorder=1, gid="floor")
    axes.set_xticks(range(len(CONVENTIONS)), list(CONVENTIONS.values()))
    axes.set_xlim(-0.5, len(CONVENTIONS) - 0.5)
    axes.set_ylim(0, 62)
    axes.grid(axis="x", visible=False)
    axes.tick_params(axis="x", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    if first:
        axes.set_ylabel("dB, mean over images")
