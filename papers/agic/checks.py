"""What no expression can say about AGIC."""

import math
from collections.abc import Mapping
from dataclasses import replace

from leakbench.scorecard.checking import Evidence
from leakbench.scorecard.quantity import Measured, NotMeasured, exactly, rank_correlation

# Ratios of the last layer's weight to the first's in Figure 10.
BETAS = (1, 5, 10, 20)
Row = Mapping[str, str]


def reads_trained_network(evidence: Evidence, row: Row) -> str:
    """Whether an attack on a trained network surely beats one on a random gradient."""
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
    """Kernel and stride of the pooling before images are matched."""
    # The room of matching loads torch, which reading this file must not.
    from leakbench.matching.update_matching import KERNEL

    return f"{KERNEL}x{KERNEL},{KERNEL}"


def one_image(evidence: Evidence, row: Row) -> Measured:
    """Rank correlation of beta and PSNR for the first image that was attacked; one image is one trial."""
    points = [evidence.at(attack=f"agic-beta-{beta}-oracle") for beta in BETAS]
    kept = [point.trials.values for point in points if point.trials]
    if len(kept) < len(BETAS):
        raise NotMeasured("the single images behind Figure 10 were not kept")
    image = min(kept[0])
    found = rank_correlation(BETAS, [exactly(values[image]) for values in kept])
    return replace(rank_correlation(BETAS, points), value=found.value, n=1, independent=1)
