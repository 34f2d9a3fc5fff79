"""Every attack against every defence, in a map for each victim.

The row above all others shows the strongest attacker of each defence.
"""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from leakbench.results.figures import words
from leakbench.results.figures.facet import faceted, shaded
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import chosen, counted, levels, word
from leakbench.results.figures.sheet import Body

SQUARE, HEAD, FOOT = 0.27, 0.42, 1.1
STRONGEST = "strongest attacker"
# A square is marked if at least this share of the trials failed.
FAILED = 0.5
# Only reconstructed images have one of these metrics.
OF_IMAGES = ("psnr", "ssim")


def heat(
    result: Result,
    *,
    metric: str = "pearson",
    apart: tuple[str, ...] = (),
    against: tuple[str, ...] = (),
) -> Body | None:
    """Draw attacks down and defences across, with the mean of a metric in each square.

    An empty square was not measured. † marks squares of which at least half of the trials failed, and ‡ marks
    a strongest attacker that is no better than the null. Attacks without a PSNR or an SSIM reconstruct the
    features that the first dense layer reads, and their names have an asterisk. They count for the strongest
    attacker only where no attack reconstructs images. The name of an attack that searches has its iterations.

    metric: the metric, which a perfect reconstruction brings to 1.
    apart: attacks that use no gradient. They stand below the others, and do not count for the strongest
    attacker.
    against: null baselines, which stand at the bottom and do not count for the strongest attacker either.
    They are those of the images where any attack reconstructs images: features have other nulls.
    """
    rows = chosen(result, [metric], baselines=["", *against])
    own = rows[rows["baseline"] == ""]
    if own.empty:
        return None
    defences = sorted(levels(result, own, "defence"), key=lambda name: name != "none")
    of_images = result.rows[result.rows["metric"].isin(OF_IMAGES)]
    pixels = set(zip(of_images["victim"], of_images["attack"], strict=True))
    rows = rows.assign(image=[pair in pixels for pair in zip(rows["victim"], rows["attack"], strict=True)])
    parts = rows.groupby(["dataset", "victim"], sort=False)
    groups = [(key, *_square(result, _of_images(part), defences, apart)) for key, part in parts]
    steps = own.groupby("attack")["iterations"].max().to_dict() if "iterations" in own else {}
    heights = [HEAD + SQUARE * len(square) for _, square, _ in groups]

    def mark(axes: Axes, key: tuple[str, str], square: pd.DataFrame, marks: pd.DataFrame) -> None:
        dataset, victim = key
        attacks = {name for name in square.index if name not in (STRONGEST, *words.BASELINES)}
        left = [
            _line(result, name, steps.get(name)) + " *" * (name in attacks and (victim, name) not in pixels)
            for name in square.index
        ]
        numbers = square.map(_number) + marks.reindex_like(square).astype(object).fillna("")
        look: Any = {"vmax": 1, "annot": numbers, "fmt": "", "annot_kws": {"fontsize": 6.3}}
        names = word(result, "dataset", dataset), word(result, "victim", victim)
        title = " · ".join([*names, words.called("metric", metric)])
        below = [word(result, "defence", name) for name in defences]
        shaded(axes, square.clip(0, 1), title, left, below, cbar_kws={"pad": 0.01}, **look)
        axes.axhline(1, color="white", linewidth=4)
        last = key == groups[-1][0]
        axes.tick_params(labelsize=7, labelbottom=last)
        axes.tick_params(axis="y", rotation=0)
        axes.get_yticklabels()[0].set_fontweight("bold")
        for label in axes.get_xticklabels() if last else ():
            label.set(rotation=40, ha="right", rotation_mode="anchor")

    null = rows[rows["baseline"] != ""]
    note = counted(own, intervals=False) + (f"; nulls: n = {words.span(null['n'])}" if len(null) else "")
    note += (
        "; *: of the features that the first dense layer reads, not counted for the strongest attacker "
        "where an attack reconstructs images; †: at least half of the trials failed; ‡: no better than the "
        "null; in brackets: iterations"
    )
    return faceted(mark, groups, note, heights=heights, below=FOOT, sharex=True)


def _of_images(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one map without the nulls of features, if it has nulls of images."""
    null, image = rows["baseline"] != "", rows["image"]
    return rows[~null | image] if (null & image).any() else rows


def _square(
    result: Result, rows: pd.DataFrame, defences: list[str], apart: tuple[str, ...]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    # The strongest attacker, then each attack, then the attacks `apart`, then the null baselines.
    own, null = rows[rows["baseline"] == ""], rows[rows["baseline"] != ""]
    means = own.pivot_table(index="attack", columns="defence", values="mean")
    below = null.pivot_table(index="baseline", columns="defence", values="mean")
    attacks = [name for name in levels(result, own, "attack") if name not in apart]
    others = [name for name in apart if name in means.index]
    of_images = [name for name in attacks if name in set(own.loc[own["image"], "attack"])]
    able = means.loc[of_images or attacks].dropna(axis="columns", how="all")
    square = pd.concat([able.max().to_frame(STRONGEST).T, means.loc[attacks], means.loc[others], below])
    marks, top = _failed(own), {}
    for defence, column in able.items():
        failed = marks[str(defence)][str(column.idxmax())] if len(marks) else ""
        beaten = defence in below and column.max() <= below[defence].max()
        top[defence] = f"{failed}{'‡' if beaten else ''}"
    return square.reindex(columns=defences), pd.concat([pd.DataFrame(top, [STRONGEST]), marks])


def _failed(own: pd.DataFrame) -> pd.DataFrame:
    """Return a mark for each attack and defence of which at least a share FAILED of the trials failed."""
    if "failure_rate" not in own:
        return pd.DataFrame()
    shares = own.pivot_table(index="attack", columns="defence", values="failure_rate")
    return shares.ge(FAILED).map(lambda failed: "†" if failed else "")


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−").replace("nan", "")


def _line(result: Result, name: str, steps: float | None) -> str:
    searched = f" ({steps:,.0f})" if steps and steps == steps else ""
    return words.BASELINES.get(name) or word(result, "attack", name) + searched
