"""Quality of images against one quantity that varies: iterations, local steps, the ratio of layer weights."""

import math
import re
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FixedLocator, NullLocator

from leakbench.drawing import words
from leakbench.drawing.curve import line
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, WIDTH, nothing, sheet

SHOWN = {
    "psnr": "PSNR (dB), higher is better",
    "ssim": "SSIM, higher is better",
    "lpips_alex": "LPIPS (AlexNet), lower is better",
    "seconds": "seconds of attack per update",
}
# The paper's own ratios, which the names of its attacks do not spell out.
RATIO = {"untrained": 50, "trained": 2}
PLOT, LEGEND = 2.5, 0.62
# More places than this are not all named on an axis.
TICKS = 8


def by_iterations(result: Result, recorded: pd.DataFrame | None = None) -> Figure:
    """Quality against the steps that an attack has taken, one curve per attack; images kept on the way and the last.

    recorded: rows of longer runs (`leakbench.reference`), whose curves are dashed and named for their scale; the
    small print names their devices.
    """
    rows = _own(result.rows, ("", "snapshot"))
    if rows.empty or "iterations" not in rows:
        return nothing(result)
    rows = rows.assign(curve=rows["attack"].map(words.attack))
    if recorded is None or recorded.empty:
        return _figure(result, rows, "iterations", "iterations", log=False)
    longer = _own(recorded, ("", "snapshot"))
    longer = longer.assign(curve=longer["attack"].map(words.attack) + ", recorded at " + longer["scale"])
    both = pd.concat([rows, longer])
    devices = f"; dashed: recorded on {words.listed(sorted(longer['device'].unique()))}"
    return _figure(result, both, "iterations", "iterations (logarithmic)", log=True, told=devices)


def by_local_steps(result: Result) -> Figure:
    """Figure 8: quality against the number of local steps that the same images are split into, one curve per attack."""
    rows = _own(result.rows)
    if rows.empty:
        return nothing(result)
    steps = rows["federation"].str.extract(r"-steps-(\d+)$")[0].astype(float)
    rows = rows.assign(steps=steps, curve=rows["attack"].map(words.attack))
    return _figure(result, rows, "steps", "local steps")


def by_ratio(result: Result) -> Figure:
    """Figure 9: quality against the ratio of the last layer's weight to the first's, by state of the network."""
    rows = _own(result.rows)
    if rows.empty:
        return nothing(result)
    rows = rows.assign(ratio=rows["attack"].map(_ratio), curve=rows["attack"].map(_setting))
    return _figure(result, rows, "ratio", "weight of the last layer over that of the first, β (logarithmic)")


def _ratio(attack: str) -> float:
    found = re.search(r"-beta-(\d+)", attack)
    return float(found[1]) if found else float(RATIO["trained" if "trained" in attack else "untrained"])


def _setting(attack: str) -> str:
    network = "trained" if "trained" in attack else "untrained"
    if not attack.endswith(words.ORACLE):
        return f"{network}, labels inferred"
    return f"{network}, without ReLU modifier" if "plain" in attack else f"{network}, labels given"


def _own(rows: pd.DataFrame, baselines: Sequence[str] = ("",)) -> pd.DataFrame:
    return rows[rows["metric"].isin(list(SHOWN)) & rows["baseline"].isin(baselines)]


def _figure(
    result: Result, rows: pd.DataFrame, x: str, label: str, log: bool = True, told: str = ""
) -> Figure:
    """Draw one axes per metric, one curve for each value of `curve` in `rows`, and one legend below them; `told` ends the small print."""
    metrics = [metric for metric in SHOWN if metric in set(rows["metric"])]
    places = sorted(float(place) for place in rows[x].unique())
    curves = list(dict.fromkeys(rows["curve"]))
    styles: dict[str, dict[str, Any]] = {
        name: {"color": colour, "marker": marker}
        for name, colour, marker in zip(curves, COLOURS, "osD^vP", strict=False)
    }
    for name in curves:
        # A recorded curve looks like the measured one it continues.
        own, dashed, _ = name.partition(", recorded")
        if dashed:
            styles[name] = styles.get(own, styles.get(name, {})) | {"linestyle": (0, (3, 1.5))}
    height = PLOT + LEGEND

    def paint(body: SubFigure) -> None:
        room = (WIDTH - 0.2) / len(metrics)
        across, up = (room - 0.65) / WIDTH, (PLOT - 0.45) / height
        for column, metric in enumerate(metrics):
            axes = body.add_axes(((column * room + 0.55) / WIDTH, (LEGEND + 0.35) / height, across, up))
            part = rows[rows["metric"] == metric]
            for name in curves:
                line(axes, part[part["curve"] == name], x, name, styles[name])
            _axis(axes, places, label, log)
            axes.set_ylabel(SHOWN[metric])
            if metric == "seconds":
                axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
        handles, names = body.axes[0].get_legend_handles_labels()
        body.legend(handles, names, loc="lower center", ncols=min(len(names), 4), frameon=False)

    counts = sorted(rows["n"].unique())
    return sheet(
        result,
        height,
        f"n = {words.listed(counts)} images behind each point {words.steps(rows)}; bands: 95 % interval{told}",
        paint,
    )


def _axis(axes: Axes, places: Sequence[float], label: str, log: bool) -> None:
    axes.set_xlabel(label)
    if not log:
        return
    if len(places) > TICKS:
        axes.set_xscale("log")
        return
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{place:g}" for place in places])
    axes.set_xlim(min(places) / math.sqrt(1.5), max(places) * math.sqrt(1.5))
