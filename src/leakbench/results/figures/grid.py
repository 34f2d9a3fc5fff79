"""A grid of images: private samples, and beside or below them the reconstructions that the exhibit chose."""

from dataclasses import replace

import numpy as np

from leakbench.results.figures import words
from leakbench.results.figures.result import Panel, Result
from leakbench.results.figures.sheet import Body
from leakbench.results.figures.tile import (
    THRESHOLD,
    Strip,
    Tile,
    displayable,
    medians,
    named_cell,
    pearson,
    tiled,
)

# Whether the drawing shows the pictures of an exhibit, so that a record without them does not serve.
PICTURES = True

RULES = {
    "first": "the first {m} neurons in their own order",
    "usable": "the usable neurons in their own order, up to {m}",
    "best": "the {m} neurons with the highest r",
}


def grid(result: Result, *, tile: float = 0.63, most: int | None = None) -> Body | None:
    """Draw each panel's private samples and its reconstructions.

    Below each reconstruction stand the number of the sample that it resembles most and Pearson r. A
    reconstruction with r >= 0.98 has a red frame. A dead neuron is a black tile.

    tile: the side of a tile in inches.
    most: the largest number of reconstructions in a panel. If there are more, those with the highest r are
    shown.
    """
    panels = [_best(panel, most) for panel in result.panels]
    if not panels:
        return None
    if kept := medians(result, panels):
        return kept
    groups = [(_caption(result, each), [("", [_samples(each), _reconstructions(each)])]) for each in panels]
    truths, guesses = (words.span(len(getattr(p, name)) for p in panels) for name in ("truth", "guess"))
    note = f"n = {truths} private and {guesses} reconstructed images of one update in each panel"
    return tiled(groups, tile, note=note, legend=_legend(panels, most))


def _best(panel: Panel, most: int | None) -> Panel:
    """Return a panel with the best reconstructions, in the order of the samples that they resemble."""
    if most is None or len(panel.guess) <= most:
        return panel
    kept = np.argsort(-np.nan_to_num(panel.score, nan=-1), kind="stable")[:most]
    kept = kept[np.lexsort((-panel.score[kept], panel.sample[kept]))]
    arrays = {name: getattr(panel, name)[kept] for name in ("guess", "usable", "sample", "score")}
    return replace(panel, **arrays)


def _features(panel: Panel) -> bool:
    return panel.about.get("target") == "features"


def _caption(result: Result, panel: Panel) -> str:
    about = panel.about
    called = {"local_samples": "k =", "checkpoint": "epoch", "neuron": "neuron"}
    parts = [f"{name} {about[key]}" for key, name in called.items() if key in about]
    return " · ".join([named_cell(result, panel, ["dataset", "victim"]), *parts])


def _samples(panel: Panel) -> Strip:
    # All channels come from one neuron, so the sample to which that neuron answers is marked instead.
    answers = set(panel.sample.tolist()) if _features(panel) else set()
    several = len(panel.truth) > 1
    tiles = [
        Tile(image, f"{i + 1}" * several, several and i in answers) for i, image in enumerate(panel.truth)
    ]
    return Strip(f"private sample{'s' * several}", tiles)


def _reconstructions(panel: Panel) -> Strip:
    features = _features(panel)
    tiles = []
    for image, usable, sample, score in zip(
        panel.guess, panel.usable, panel.sample, panel.score, strict=True
    ):
        label = pearson(score) if features or len(panel.truth) == 1 else f"{sample + 1} · {pearson(score)}"
        tile = Tile(image, label, bool(score >= THRESHOLD) and not features)
        tiles.append(tile if usable else Tile(None))
    scaled = [displayable(guess)[1] for guess in panel.guess[panel.usable]]
    counted = "all" if all(scaled) else f"{sum(scaled)} of {len(scaled)}"
    how = f"{counted} normalised for display" if any(scaled) else "values as received"
    return Strip(f"{'channels' if features else 'reconstructions'} ({how})", tiles)


def _legend(panels: list[Panel], most: int | None) -> str:
    count = max(len(panel.guess) for panel in panels)
    single = all(len(panel.truth) == 1 for panel in panels)
    if _features(panels[0]):
        text = f"Shown: {count} channels of one neuron. "
        text += "Below each: r with the same channel of the sample's own features."
        text += "" if single else " Red frame: the sample that the neuron answers to."
    else:
        rule = RULES.get(str(panels[0].about.get("rule")), "{m} neurons").format(m=count)
        shown = f"the {most} with the highest r, by the sample that they resemble" if most else rule
        label = "Pearson r" if single else "the sample it resembles most · Pearson r"
        text = f"Shown: {shown}. Below each: {label}. Red frame: fully revealed, r ≥ {THRESHOLD}."
        text += (
            " none: the neuron is dead and sent nothing." if any(not p.usable.all() for p in panels) else ""
        )
    some = any(displayable(guess)[1] for panel in panels for guess in panel.guess[panel.usable])
    return text + (" Normalised: own minimum black, own maximum white." if some else "")
