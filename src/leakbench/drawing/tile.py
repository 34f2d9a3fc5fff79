"""One image as a tile, and a canvas in inches to put tiles on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Rectangle

from leakbench.drawing import words
from leakbench.drawing.sheet import FAINT, INK, MUTED, WIDTH

THRESHOLD = 0.98
# A leak is bad news for whoever is on the image.
REVEALED = "#cf222e"
# Rounding of a division leaves values just beyond [0, 1]; that alone is no reason to rescale.
SLACK = 0.02
TOLD = {"checkpoint": "epoch", "neuron": "neuron"}


def displayable(image: np.ndarray) -> tuple[np.ndarray, bool]:
    """Return an image [C, H, W] of any range as [H, W] or [H, W, 3] in [0, 1], and whether it was rescaled.

    An image that stays in [0, 1] is shown as it is. Any other is stretched linearly from its own minimum
    (black) to its own maximum (white), all channels together. Values that are not finite count as 0.
    """
    values = np.nan_to_num(np.asarray(image, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = values.min(), values.max()
    rescaled = bool(low < -SLACK or high > 1 + SLACK)
    if rescaled:
        values = (values - low) / (high - low) if high > low else np.full_like(values, 0.5)
    values = values.clip(0, 1)
    return (values[0] if len(values) == 1 else values[:3].transpose(1, 2, 0)), rescaled


def pearson(score: float) -> str:
    """Return a correlation as text. Rounding must not lift it over the threshold: 0.9796 is 0.979 here."""
    value = float(score)
    if not np.isfinite(value):
        return "undefined"
    shown = round(value, 3)
    if value < THRESHOLD <= shown:
        shown = THRESHOLD - 0.001
    return f"{shown:.3f}".replace("-", "−")


def caption(about: Mapping[str, Any]) -> str:
    """Return what stands above a panel: data set, victim, size of the local set, epoch and neuron."""
    parts = [words.dataset(about["dataset"]), words.victim(about["victim"]), f"k = {about['local_samples']}"]
    return " · ".join([*parts, *(f"{name} {about[key]}" for key, name in TOLD.items() if key in about)])


def canvas(body: SubFigure) -> Axes:
    """An invisible axes over the whole body whose units are inches, y downwards from the top."""
    axes = body.add_axes((0, 0, 1, 1))
    height = body.bbox.height / body.figure.dpi
    axes.set(xlim=(0, WIDTH), ylim=(height, 0), autoscale_on=False)
    axes.axis("off")
    return axes


def show(axes: Axes, image: np.ndarray, x: float, y: float, size: float, *, marked: bool = False) -> bool:
    """Draw an image with its upper left corner at (x, y), framed in red if marked. True if rescaled."""
    pixels, rescaled = displayable(image)
    axes.imshow(
        pixels,
        cmap="gray",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=(x, x + size, y + size, y),
        aspect="auto",
    )
    axes.set(xlim=(0, WIDTH))
    frame(axes, x, y, size, REVEALED if marked else FAINT, 1.8 if marked else 0.6)
    return rescaled


def dead(axes: Axes, x: float, y: float, size: float, label: str = "dead") -> None:
    """Draw the black tile of a neuron that sent nothing."""
    axes.add_patch(
        Rectangle((x, y), size, size, facecolor="black", edgecolor="black", linewidth=0.6, gid="dead")
    )
    axes.text(x + size / 2, y + size / 2, label, color="white", fontsize=6, ha="center", va="center")


def frame(axes: Axes, x: float, y: float, size: float, colour: str, width: float) -> None:
    """Draw the outline of a tile."""
    axes.add_patch(Rectangle((x, y), size, size, facecolor="none", edgecolor=colour, linewidth=width))


def write(
    axes: Axes, x: float, y: float, text: str, *, size: float = 6.3, bold: bool = False, align: str = "center"
) -> None:
    """Write small text with its top at y."""
    axes.text(
        x,
        y,
        text,
        fontsize=size,
        ha=align,
        va="top",
        color=INK if bold else MUTED,
        fontweight="bold" if bold else "normal",
    )
