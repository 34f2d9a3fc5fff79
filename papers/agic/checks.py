"""What no expression can say about AGIC: its overview of attacks, and settings of code and networks."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from leakbench.scorecard.checking import Evidence
from leakbench.scorecard.quantity import Measured, NotMeasured, exactly, rank_correlation

# Table VII's methods -> our attack.
ATTACKS = {"DLG": "dlg", "iDLG": "idlg", "InvG": "invg", "AGIC": "agic"}
# Ratios of the last layer's weight to the first's in Figure 10.
BETAS = (1, 5, 10, 20)
Row = Mapping[str, str]


def overview(evidence: Evidence, row: Row) -> str:
    """One property of one of our attacks, in the words of Table VII."""
    name = ATTACKS[row["attack"]]
    attack: Mapping[str, Any] = evidence.fact(f"attacks.{name}")
    match row["property"]:
        case "main_loss":
            return {"squares": "L2", "cosine": "Cosine"}[attack["distance"]]
        case "other_loss":
            return "Total variation" if attack["tv"] > 0 else "None"
        case "optimizer":
            return {"adam": "Adam", "lbfgs": "L-BFGS"}[attack["optimiser"]]
        case "label_inference":
            if attack["labels"] == "joint":
                return "No use"
            return "One" if attack["inference"] == "idlg" else "Multiple"
        case "extra_knowledge":
            return "a trained generator" if attack["generator"] else "No"
        case "multiple_epochs":
            return "yes" if f"{name}-joint" in evidence.fact("attacks") else "no"
        case "fedavg":
            return "yes"
    return _reads_trained_network(evidence, name)


def _reads_trained_network(evidence: Evidence, name: str) -> str:
    if name != "agic":
        raise NotMeasured("no experiment attacks a trained network with it")
    where = {"experiment": "agic-figure-9", "victim": "resnet20-4-trained", "attack": "agic-trained"}
    gain = evidence.at(metric="psnr", **where) - evidence.at(
        metric="psnr", baseline="random-gradient", **where
    )
    if math.isnan(gain.low):
        raise NotMeasured("too few updates tell")
    return "yes" if gain.low > 0 else "no"


def convolutions(evidence: Evidence, row: Row) -> str:
    """How many convolutions ResNet20-4 has as built, its projections included."""
    shapes = evidence.fact("network.victims/cifar10/resnet20-4.tensors")
    return str(sum(len(shape) == 4 for shape in shapes))


def pooling(evidence: Evidence, row: Row) -> str:
    """Kernel and stride of the pooling before images are matched."""
    # The room of matching loads torch, which reading this file must not.
    from leakbench.matching.update_matching import KERNEL

    return f"{KERNEL}x{KERNEL},{KERNEL}"


def first_weight(evidence: Evidence, row: Row) -> str:
    """The weight of the first epoch, against which our joint attack weights the later ones."""
    evidence.fact("attacks.agic-joint")
    return "1"


def one_image(evidence: Evidence, row: Row) -> Measured:
    """Rank correlation of beta and PSNR for the first image that was attacked; one image is one trial."""
    points = [evidence.at(attack=f"agic-beta-{beta}-oracle") for beta in BETAS]
    kept = [point.trials.values for point in points if point.trials]
    if len(kept) < len(BETAS):
        raise NotMeasured("the single images behind Figure 10 were not kept")
    image = min(kept[0])
    found = rank_correlation(BETAS, [exactly(values[image]) for values in kept])
    return replace(rank_correlation(BETAS, points), value=found.value, n=1, independent=1)
