"""Makes small results to draw, and finds what a figure drew."""

from typing import Any

import numpy as np
import pandas as pd
from invented import row
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from spread import spread

from leakbench.results.figures.result import Panel, Result
from leakbench.results.figures.sheet import INK, draw
from leakbench.results.figures.tile import REVEALED

CELL = {
    "dataset": "mnist-32", "victim": "lenet-dlg", "federation": "grnn", "defence": "none", "attack": "grnn",
    "checkpoint": 0, "local_samples": 1, "metric": "psnr", "iterations": 1000,
    "mean": 20.0, "ci_low": 18.0, "ci_high": 22.0,
}  # fmt: skip
TITLES = {
    "dataset": {"mnist-32": "MNIST at 32×32", "mnist": "MNIST", "cifar10": "CIFAR-10", "orl": "ORL faces"},
    "victim": {"lenet-dlg": "DLG's LeNet"},
    "attack": {"dlg": "DLG", "grnn": "GRNN", "invg": "InvG", "class-mean": "class mean"},
    "defence": {"none": "no defence"},
    "training": {"gaussians-centralised": "centralised", "gaussians-code": "FedBoosting, code"},
}


def titled(parts: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return the parts of an experiment: those given, or else all that have a title here."""
    names = {
        kind: [{"name": name, "parameters": {}} for name in titles] for kind, titles in TITLES.items()
    } | parts
    return {
        kind: [
            {"title": TITLES[kind].get(each["name"], ""), "summary": "", "parameters": {}} | each
            for each in own
        ]
        for kind, own in names.items()
    }


def cell(**more: Any) -> dict[str, Any]:
    return row(**CELL | more)


def result(
    rows: list[dict[str, Any]] | None = None, drawing: dict[str, Any] | None = None, **more: Any
) -> Result:
    """Return a result of some rows whose figure is one drawing."""
    spec = {
        "work": "grnn", "item": "fig-1", "title": "A title", "shows": "One sentence.", "scale": "quick",
        "figure": [drawing or {"drawing": "dots", "metrics": ["psnr"]}],
        "parts": titled(more.pop("parts", {})),
    }  # fmt: skip
    facts = {"seeds": [0], "knows": {}} | more.pop("facts", {})
    given: dict[str, Any] = {"panels": [], "tensors": {}} | more
    return Result(pd.DataFrame(rows or [cell()]).fillna({"baseline": ""}), facts=facts, spec=spec, **given)


def panel(k: int = 2, m: int = 2, dead: Any = (), beyond: bool = False, **more: Any) -> Panel:
    """Return pictures of one cell: the first reconstruction is perfect, all others are worse.

    dead: the reconstructions that got nothing. beyond: whether images leave the range.
    """
    truth = np.linspace(0, 1, k * 16, dtype=np.float32).reshape(k, 1, 4, 4)
    score = np.array(more.pop("score", np.where(np.arange(m) == 0, 1.0, 0.5)), np.float32)
    sample = np.broadcast_to(more.pop("sample", np.arange(m) % k), m)
    about = {k: CELL[k] for k in ("dataset", "victim", "federation", "defence", "attack")}
    about |= {"local_samples": k, "rule": "matched", "target": "images"} | more
    guess = truth[np.arange(m) % k] * (3 if beyond else 1) - beyond
    return Panel(about, truth, guess, ~np.isin(np.arange(m), dead), sample, score)


def of_case(case: dict[str, Any]) -> Result:
    """Return the result of a case of drawings.yaml."""
    more = {key: case[key] for key in ("facts", "parts", "said") if key in case}
    more |= {"panels": [panel(**each) for each in case["panels"]]} if "panels" in case else {}
    more |= {"marks": pd.DataFrame(spread(case["marks"]))} if "marks" in case else {}
    found = result([cell(**each) for each in spread(case.get("rows", [{}]))], case.get("drawing"), **more)
    found.spec.update(case.get("spec", {}))
    return found


def seen(figure: Figure) -> dict[str, Any]:
    return {
        "entries": entries(figure), "texts": texts(figure), "framed": framed(figure),
        "images": len(figure.findobj(AxesImage)), "none": texts(figure).count("none"),
        "heights": len({round(axes.get_position().y0, 3) for axes in axes_of(figure)}),
        "axes": [_seen(axes) for axes in axes_of(figure)],
    }  # fmt: skip


def _seen(axes: Axes) -> dict[str, Any]:
    own = [line for line in axes.lines if line.get_gid() != "everything"]
    sizes = {tuple(at): size for d in dots_of(axes)
             for at, size in zip(d.get_offsets(), d.get_sizes(), strict=False)}  # fmt: skip
    return {
        "points": [list(each) for each in points(axes)], "sizes": [sizes[at] for at in sorted(sizes)],
        "lines": [np.round(line.get_ydata(), 4).tolist() for line in own],
        "xs": [np.round(line.get_xdata(), 4).tolist() for line in own],
        "everything": [y for line in axes.lines if line not in own for y in line.get_ydata()],
        "black": [line.get_color() == INK for line in own], "widths": [line.get_linewidth() for line in own],
        "collections": len(axes.collections), "title": axes.get_title("left"), "xlabel": axes.get_xlabel(),
        "ylabel": axes.get_ylabel(), "left": [label.get_text() for label in axes.get_yticklabels()],
        "below": [label.get_text() for label in axes.get_xticklabels()],
        "cells": [text.get_text() for text in axes.texts],
        "shades": [each for mesh in axes.collections if isinstance(mesh, QuadMesh)
                   for each in np.ma.filled(mesh.get_array().astype(float), -1).round(4).tolist()],
        "bars": any(len(each.get_segments()) for each in axes.collections if hasattr(each, "get_segments")),
    }  # fmt: skip


def drawn(given: Result) -> Figure:
    figure = draw(given)
    assert figure is not None
    return figure


def axes_of(figure: Figure) -> list[Axes]:
    return [axes for part in figure.subfigs[1:-1] for axes in part.axes]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def entries(figure: Figure) -> list[str]:
    return [
        text.get_text() for part in figure.subfigs for legend in part.legends for text in legend.get_texts()
    ]


def points(axes: Axes) -> list[tuple[float, float]]:
    """Return the places of all dots of some axes, rounded."""
    return sorted((round(x, 4), round(y, 4)) for each in dots_of(axes) for x, y in each.get_offsets())


def dots_of(axes: Axes) -> list[PathCollection]:
    return [each for each in axes.collections if isinstance(each, PathCollection)]


def framed(figure: Figure) -> int:
    """Return how many tiles have the frame of a leak."""
    return sum(patch.get_edgecolor() == to_rgba(REVEALED) for patch in figure.findobj(Rectangle))
