"""Checks of AGIC that no expression can make."""

import math
from collections.abc import Mapping
from dataclasses import replace

from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.quantity import Measured, NotMeasured, exactly, rank_correlation

# The ratios of the last layer's weight to the first layer's weight in Figure 10.
BETAS = (1, 5, 10, 20)
Row = Mapping[str, str]


def reads_trained_network(evidence: Evidence, row: Row) -> str:
    """Return "yes" if an attack on a trained network surely beats an attack on a random gradient, else "no".

    The attack surely beats the other if the interval of the difference of PSNR lies above 0. Raises
    NotMeasured for attacks other than AGIC, and where the difference has no interval.
    """
    if row["attack"] != "AGIC":
        raise NotMeasured("no experiment attacks a trained network with it")
    where = {"experiment": "agic-figure-9", "victim": "resnet20-4-trained", "attack": "agic-trained"}
    gain = evidence.at(metric="psnr", **where) - evidence.at(
        metric="psnr", baseline="random-gradient", **where
    )
    if math.isnan(gain.low):
        raise NotMeasured("too few updates tell")
    return "yes" if gain.low > 0 else "no"


def pooling(evidence: Evidence, row: Row) -> str:
    """Return the kernel and the stride of the pooling before images are matched."""
    # The room of matching loads torch, which must not be loaded when this file is read.
    from leakbench.attacks.matching.update_matching import KERNEL

    return f"{KERNEL}x{KERNEL},{KERNEL}"


def one_image(evidence: Evidence, row: Row) -> Measured:
    """Return the rank correlation of beta and PSNR for the first image that was attacked.

    One image is one trial. Raises NotMeasured where the single images were not kept.
    """
    points = [evidence.at(attack=f"agic-beta-{beta}-oracle") for beta in BETAS]
    kept = [point.trials.values for point in points if point.trials]
    if len(kept) < len(BETAS):
        raise NotMeasured("the single images behind Figure 10 were not kept")
    image = min(kept[0])
    found = rank_correlation(BETAS, [exactly(values[image]) for values in kept])
    return replace(rank_correlation(BETAS, points), value=found.value, n=1, independent=1)
