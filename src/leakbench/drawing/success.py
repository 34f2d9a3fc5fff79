"""Success rates against a normalised threshold: one curve per batch and method (thesis Figure 3.5)."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, WIDTH, nothing, sheet

SHOWN = {
    "success_mse": "MSE no higher than",
    "success_psnr": "PSNR over 48.13 dB no lower than",
    "success_ssim": "SSIM no lower than",
}
DASHES: dict[str, Any] = {"grnn": "-", "dlg": (0, (3, 1.5))}
NULL: dict[str, Any] = {"color": "#8c959f", "linestyle": ":", "linewidth": 1.4}
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 9,
    "linestyle": "none",
    "color": "white",
    "markeredgecolor": INK,
}
PUBLISHED = "cifar100"
# Which coordinate the text tells for a metric; for PSNR it tells none.
READ_OFF = {"success_mse": "mse_threshold", "success_ssim": "success_rate"}
PLOT, GAP, FOOT = 2.1, 0.75, 0.6


def curves(result: Result, folder: Path) -> Figure:
    """Draw a row of three axes per data set; `folder` holds what the text prints (thesis_text.csv)."""
    rows = result.rows[result.rows["metric"].isin(list(SHOWN))]
    if rows.empty:
        return nothing(result)
    names, sizes = list(dict.fromkeys(rows["dataset"])), sorted(rows["local_samples"].unique())
    colours = dict(zip(sizes, COLOURS, strict=False))
    height = len(names) * (PLOT + GAP) + FOOT

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.25) / len(SHOWN)
        for line, name in enumerate(names):
            bottom = height - (line + 1) * (PLOT + GAP) + 0.45
            for column, metric in enumerate(SHOWN):
                axes = body.add_axes(
                    ((0.55 + column * room) / WIDTH, bottom / height, (room - 0.4) / WIDTH, PLOT / height)
                )
                part = rows[(rows["dataset"] == name) & (rows["metric"] == metric)]
                _curves(axes, part, colours)
                for x, y in printed(folder, metric) if name == PUBLISHED else ():
                    axes.plot(x, y, zorder=5, label="printed", **STAR)
                axes.set(xlim=(0, 1), ylim=(-0.02, 1.04), xlabel=f"{SHOWN[metric]} threshold")
                axes.set_ylabel(f"{words.dataset(name)}: success rate" if column == 0 else "")
                axes.spines[["top", "right"]].set_visible(False)
        body.legend(handles=_entries(colours, PUBLISHED in names), loc="lower center", ncols=5, frameon=False)

    counts = sorted(rows.loc[rows["baseline"] == "", "n"].unique())
    told = f"n = {words.listed(counts)} images behind each curve {words.steps(rows[rows['baseline'] == ''])}"
    return sheet(result, height, f"{told}; bands: 95 % interval over updates", paint)


def printed(folder: Path, metric: str) -> list[tuple[float, float]]:
    """The points (threshold, success rate) that the text reads off Figure 3.5 for a metric of SHOWN.

    None where the folder has no thesis_text.csv.
    """
    path = folder / "thesis_text.csv"
    rows = pd.read_csv(path, dtype=str, keep_default_na=False) if path.is_file() else pd.DataFrame()
    points = []
    for row in rows.to_dict("records"):
        # The condition states the other coordinate: "success rate 0.6, GRNN", "SSIM threshold 0.2, worst GRNN".
        stated = re.search(r"\d\.\d+", row["condition"])
        if not row["id"].startswith("thesis.fig-3-5.") or stated is None:
            continue
        point = float(row["value"]), float(stated[0])
        if row["metric"] == READ_OFF.get(metric):
            points.append(point if metric == "success_mse" else point[::-1])
    return points


def _curves(axes: Axes, rows: pd.DataFrame, colours: dict[Any, str]) -> None:
    own = rows[rows["baseline"] == ""].sort_values("threshold")
    for (size, attack), part in own.groupby(["local_samples", "attack"]):
        look = {"color": colours[size], "linestyle": DASHES.get(str(attack), "-.")}
        axes.plot(part["threshold"], part["mean"], linewidth=1.4, zorder=3, label=f"{attack} {size}", **look)
        low, high = part["ci_low"].to_numpy(float), part["ci_high"].to_numpy(float)
        axes.fill_between(
            part["threshold"], low, high, color=look["color"], alpha=0.13, linewidth=0, zorder=2
        )
    noise = rows[(rows["baseline"] == "random-noise")].groupby("threshold")["mean"].mean()
    axes.plot(noise.index, noise, zorder=1, label="random noise", **NULL)


def _entries(colours: dict[Any, str], stars: bool) -> list[Line2D]:
    lines = [Line2D([], [], color=colour, label=f"batch of {size}") for size, colour in colours.items()]
    lines += [Line2D([], [], color=INK, linestyle=DASHES[name], label=words.attack(name)) for name in DASHES]
    lines.append(Line2D([], [], label="random noise", **NULL))
    return lines + ([Line2D([], [], label="printed in the text", **STAR)] if stars else [])
