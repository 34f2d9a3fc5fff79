"""Every attack against every defence: a map for each victim, with the worst attacker of each defence above
all others."""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.rows import chosen, counted, levels, word
from leakbench.drawing.sheet import Body

SQUARE, HEAD, FOOT = 0.27, 0.42, 1.1
WORST = "worst attacker"


def heat(
    result: Result,
    *,
    metric: str = "pearson",
    images: str = "psnr",
    apart: tuple[str, ...] = (),
    against: tuple[str, ...] = (),
    text: dict[str, str] | None = None,
) -> Body | None:
    """Draw attacks down and defences across, the mean of `metric` in each square.

    images: a metric that only reconstructed images have: the names of attacks without it, which reconstruct
    what the first dense layer reads, have an asterisk. apart: attacks that use no gradient; they stand below
    with the null baselines `against` and are no attacker. An empty square was not measured.
    """
    rows = chosen(result, [metric], baselines=["", *against])
    own = rows[rows["baseline"] == ""]
    if own.empty:
        return None
    defences = levels(result, own, "defence")
    defences.sort(key=lambda name: name != "none")
    pixels = {
        (r["victim"], r["attack"])
        for r in result.rows.loc[result.rows["metric"] == images].to_dict("records")
    }
    groups = [
        (key, _square(result, part, defences, apart))
        for key, part in rows.groupby(["dataset", "victim"], sort=False)
    ]
    heights = [HEAD + SQUARE * len(square) for _, square in groups]

    def paint(body: SubFigure) -> None:
        grid: Any = body.subplots(
            len(groups), 1, squeeze=False, gridspec_kw={"height_ratios": heights}, sharex=True
        )
        for number, (((dataset, victim), square), axes) in enumerate(zip(groups, grid.flat, strict=True)):
            _map(axes, square, words.called("metric", metric))
            axes.set_title(f"{words.dataset(str(dataset))} · {words.victim(str(victim))}")
            labels = [
                _line(name) + ("" if name in (WORST, *words.BASELINES) or (victim, name) in pixels else " *")
                for name in square.index
            ]
            axes.set_yticks(np.arange(len(square)) + 0.5, labels, rotation=0, fontsize=7)
            for label, name in zip(axes.get_yticklabels(), square.index, strict=True):
                label.set_fontweight("bold" if name == WORST else "normal")
            last = number == len(groups) - 1
            names = [word(result, "defence", name, text) for name in defences] if last else []
            axes.set_xticks(
                np.arange(len(names)) + 0.5,
                names,
                rotation=40,
                ha="right",
                rotation_mode="anchor",
                fontsize=7,
            )

    note = counted(own) + "; *: of the features that the first dense layer reads"
    return Body(sum(heights) + FOOT, note, paint)


def _square(result: Result, rows: pd.DataFrame, defences: list[str], apart: tuple[str, ...]) -> pd.DataFrame:
    """Return the numbers of one map, attacks down: the worst of all first, then each, then what uses no
    gradient."""
    own = rows[rows["baseline"] == ""]
    means = own.pivot_table(index="attack", columns="defence", values="mean", observed=True).reindex(
        columns=defences
    )
    attacks = [name for name in levels(result, own, "attack") if name not in apart]
    null = rows[rows["baseline"] != ""].pivot_table(index="baseline", columns="defence", values="mean")
    below = [*(name for name in apart if name in means.index)]
    worst = means.loc[attacks].max().to_frame(WORST).T
    return pd.concat([worst, means.loc[attacks], means.loc[below], null.reindex(columns=defences)])


def _line(name: str) -> str:
    return words.BASELINES.get(name, name if name == WORST else words.attack(name))


def _map(axes: Axes, square: pd.DataFrame, label: str) -> None:
    texts = square.map(lambda value: "" if pd.isna(value) else f"{value:.2f}".replace("-", "−"))
    sns.heatmap(
        square.clip(0, 1),
        ax=axes,
        cmap="rocket_r",
        vmin=0,
        vmax=1,
        annot=texts,
        fmt="",
        annot_kws={"fontsize": 6.3},
        linewidths=0.6,
        linecolor="white",
        xticklabels=False,
        yticklabels=False,
        cbar_kws={"label": label, "pad": 0.01},
    )
    axes.axhline(1, color="white", linewidth=4)
    axes.set(xlabel="", ylabel="")
    axes.tick_params(length=0)
    axes.grid(False)
