"""How the findings of FedBoosting (thesis, chapter 4) read the tables of training studies and drawn boundaries."""

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np
import pandas as pd

from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.measure import Measured, NotMeasured, average, exactly, scaled, select

# The released configuration, and the words of both sets in millions; the thesis states no number of rounds.
ROUNDS, MILLIONS = 100, 12.5
# Test set as printed → its name here.
TESTS = {"IIIT5K": "iiit5k", "SVT": "svt", "SCUT": "scut-foru", "IC15": "icdar2015"}
# The set that clients' studies are named after, and what stands in for it; the other client has the second of each.
PUBLISHED, STAND_IN = "synth90k", "words-plain"
STANDING_IN = "words-plain and words-over-photos stand in for synth90k and synthtext"
PLANE = "gaussians"
NETWORKS = {PLANE: "perceptron"}
# A network that reads fewer words has learnt too little to compare ways of training: fixed before measuring.
LEARNT = 0.5
# In points, fixed before measuring: what single runs may differ by.
TOLERANCE = 1.0
Place = tuple[str, str]
Found = TypeVar("Found")


def training(method: str, batch: object, epochs: object) -> str:
    """The name of a training, by method and setting as printed; epochs "-" is training in one place."""
    if epochs == "-":
        return f"text-{batch}" if method == "CRNN" else f"text-both-{batch}"
    return f"text-{method.casefold()}-{epochs}e{batch}b"


def condition(dataset: str, name: str) -> dict[str, object]:
    """The condition of a study by the data set that it is named after and its training."""
    return {
        "dataset": dataset,
        "victim": NETWORKS.get(dataset, "crnn"),
        "training": name,
        "defence": "none",
        "client": "",
        "key": "",
    }


def accuracy(
    evidence: Evidence, experiment: str, dataset: str, name: str, tested: str, convention: str = "standard"
) -> Measured:
    """Accuracy in percent of a study's selected round on the test images of one data set.

    Words: convention `published` counts those that the thesis' filter lets through. Raises NotMeasured with what is missing.
    """
    found = evidence.pick(
        experiment, metric="accuracy", convention=convention, tested=tested, **condition(dataset, name)
    )
    return scaled(found, 100)


def curve(evidence: Evidence, experiment: str, dataset: str, name: str) -> "pd.Series[float]":
    """Word accuracy in percent by round, the mean over the thesis' test sets that are present, else on the study's own set."""
    rows = select(
        evidence.table(experiment), f"table {experiment}", metric="accuracy", baseline="snapshot", **condition(dataset, name)
    )  # fmt: skip
    if rows.empty:
        why = evidence.why(experiment, **condition(dataset, name))
        raise NotMeasured(why or f"no results of experiment {experiment} for {dataset}")
    read = rows[rows["tested"].isin(TESTS.values())]
    if read.empty:
        read = rows[rows["tested"] == dataset]
    return 100 * read.groupby("round")["mean"].mean()


def length(evidence: Evidence, experiment: str, dataset: str, name: str) -> str:
    """How long a study trained and on how much, where that is less than published, in words."""
    rows = select(
        evidence.table(experiment), f"table {experiment}", metric="lock_share", **condition(dataset, name)
    )
    if rows.empty:
        return ""
    rounds, images = int(rows["rounds"].min()), int(rows["images"].min())
    if rounds >= ROUNDS and images >= 1e6 * MILLIONS:
        return ""
    return f"after {rounds} of {ROUNDS} rounds over {images:,} of {MILLIONS} million words"


def learnt(evidence: Evidence, experiment: str, dataset: str, name: str) -> None:
    """Raise NotMeasured where a network reads too few test words of its own set to judge by."""
    own = accuracy(evidence, experiment, dataset, name, dataset).value
    if math.isnan(own) or own < 100 * LEARNT:
        how = length(evidence, experiment, dataset, name) or "at the end"
        raise NotMeasured(f"needs paper scale: {how} {name} reads {own:.0f} % of the test words of {dataset}")


def of_either(measure: Callable[[str, str], Found]) -> Found:
    """Return `measure(dataset, words about it)` of the published set, or where that is not measured of its stand-in.

    Raises NotMeasured with the reasons of both.
    """
    reasons = []
    for dataset, told in ((PUBLISHED, ""), (STAND_IN, STANDING_IN)):
        try:
            return measure(dataset, told)
        except NotMeasured as missing:
            reasons.append(str(missing))
    raise NotMeasured("; ".join(dict.fromkeys(reasons)))


def readers(evidence: Evidence, experiment: str, names: Iterable[str]) -> tuple[str, str]:
    """Return the data set whose networks, one for each training, have all learnt, and words about it; see `of_either`."""
    trainings = list(names)

    def learners(dataset: str, told: str) -> tuple[str, str]:
        for name in trainings:
            learnt(evidence, experiment, dataset, name)
        long = length(evidence, experiment, dataset, trainings[0])
        return dataset, "; ".join(filter(None, (told, long)))

    return of_either(learners)


def tests(evidence: Evidence, experiment: str, dataset: str, name: str) -> list[str]:
    """The test sets that a study was measured on: the thesis' that are present, else its own."""
    there = evidence.values(experiment, "tested", metric="accuracy", **condition(dataset, name))
    return [each for each in TESTS.values() if each in there] or [dataset]


def overall(evidence: Evidence, experiment: str, dataset: str, name: str) -> Measured:
    """Word accuracy in percent of the selected round, the mean over `tests`."""
    names = tests(evidence, experiment, dataset, name)
    return average([accuracy(evidence, experiment, dataset, name, each) for each in names])


def boundary_length(surface: np.ndarray, extent: list[float]) -> float:
    """The length of the lines on which a surface [steps, steps] of probabilities is 0.5, in units of the plane.

    extent: left, right, bottom and top of the square that the surface's knots span, corners included.
    """
    from skimage.measure import find_contours

    rows, columns = surface.shape
    left, right, bottom, top = extent
    knots = np.array([(top - bottom) / (rows - 1), (right - left) / (columns - 1)])
    lines = find_contours(surface, 0.5)
    return float(sum(np.hypot(*np.diff(line * knots, axis=0).T).sum() for line in lines))


def of_seeds(values: list[float]) -> Measured:
    """The mean of runs that differ in their seeds, from the least to the greatest of them; of one run no interval."""
    if not values:
        raise NotMeasured("no results of experiment thesis-figure-4-2")
    return Measured(sum(values) / len(values), min(values), max(values), len(values))


def printed(evidence: Evidence, key: str, rounding: float = 0.005) -> Measured:
    """A printed number with what it may have been rounded from."""
    value = float(evidence.fact("printed", key))
    return Measured(value, value - rounding, value + rounding, 1)


def steady(value: float) -> Measured:
    """A number that is exact to what floating point loses in a subtraction of printed ones."""
    return exactly(round(value, 9))
