"""Checks of chapter 4 that no expression can make: boundaries, diverged trainings, words of an exhibit."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from leakbench.metrics.interval import wilson
from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.quantity import NAN, Measured, NotMeasured, Trials, from_trials

Row = Mapping[str, str]
# A training has diverged if the last round's accuracy is below this share of the best round's. The share was
# fixed before measuring.
COLLAPSED = 0.5
PLANE = "thesis-figure-4-2-seeds"


def _boundaries(evidence: Evidence, training: str) -> dict[str, dict[str, float]]:
    """Return the numbers `length` and `apart` of a training's decision boundary, by seed.

    `length` is the length of the boundary. `apart` is the share of the plane that is classified otherwise
    than by centralised training. Raises NotMeasured where no boundary of the training was drawn.
    """
    from skimage.measure import find_contours

    tensors, facts = evidence.exhibit(PLANE)
    found = {}
    for place, about in enumerate(facts.get("boundaries", [])):
        if about["training"] == training:
            surface, (left, right, bottom, top) = tensors[f"{place}/surface"], about["extent"]
            knots = np.array([top - bottom, right - left]) / (np.array(surface.shape) - 1)
            lines = find_contours(np.asarray(surface), 0.5)
            length = float(sum(np.hypot(*np.diff(line * knots, axis=0).T).sum() for line in lines))
            found[str(about["seed"])] = {"length": length, "apart": float(about["apart"])}
    if not found:
        raise NotMeasured(f"no boundary of {training} was drawn")
    return found


def _drawn(evidence: Evidence, key: str) -> Measured:
    """Return FedAvg's number minus FedBoosting's, where FedBoosting follows the released code.

    The note gives the same difference for FedBoosting by the printed equations.

    key: a number of `_boundaries`.
    """

    def against(training: str) -> Measured:
        plain, other = _boundaries(evidence, "gaussians-fedavg"), _boundaries(evidence, training)
        gaps = {seed: plain[seed][key] - other[seed][key] for seed in plain.keys() & other.keys()}
        return from_trials(
            Trials(dict(sorted(gaps.items())), {s: s for s in gaps}), Measured(NAN, n=len(gaps))
        )

    printed = against("gaussians-equations").value
    return replace(against("gaussians-code"), notes=(f"by the printed equations {printed:.3g}",))


def smoother(evidence: Evidence, row: Row) -> Measured:
    """Return by how much FedAvg's boundary in the plane is longer than FedBoosting's."""
    return _drawn(evidence, "length")


def closer(evidence: Evidence, row: Row) -> Measured:
    """Return the share of the plane that FedAvg classifies otherwise than centralised training does.

    The same share of FedBoosting is subtracted.
    """
    return _drawn(evidence, "apart")


def diverged(evidence: Evidence, row: Row) -> str:
    """Return "diverged" where a training lost the accuracy that it once had, else its accuracy in percent."""
    rounds = evidence.rows(baseline="snapshot", convention="standard").sort_values("round")["mean"]
    found, last = evidence.at(), float(rounds.iloc[-1])
    return "diverged" if math.isnan(last) or last < COLLAPSED * rounds.max() else f"{100 * found.value:.2f}"


def mostly_right(evidence: Evidence, row: Row) -> Measured:
    """Return the share of the example words that FedBoosting reads right.

    The examples are the first words of the test set of synth90k, or of words-plain where there are none of
    synth90k. Raises NotMeasured where there are no examples.
    """
    _, facts = evidence.exhibit("thesis-table-4-2")
    for dataset, training in (
        ("synth90k", "text-fedboosting-3e512b"),
        ("words-plain", "text-fedboosting-1e800b"),
    ):
        shown = [
            each
            for each in facts.get("examples", [])
            if (each["dataset"], each["training"]) == (dataset, training)
        ]
        right = [
            word == read for each in shown for word, read in zip(each["words"], each["read"], strict=True)
        ]
        if right:
            own = evidence.at(dataset=dataset, training=training, tested=dataset)
            note = () if dataset == "synth90k" else ("words-plain stands in for synth90k",)
            n, share = len(right), sum(right) / len(right)
            return Measured(share, *wilson(share, n), n, n, own.length, notes=(*own.notes, *note))
    raise NotMeasured(evidence.why("thesis-table-4-2") or "no example words were read")
