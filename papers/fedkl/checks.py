"""What no expression can say of chapter 5: gaps over curves, CIFAR-100 itself, an architecture."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from leakbench.scorecard.checking import Evidence
from leakbench.scorecard.quantity import Measured, NotMeasured, deviation, exactly, greatest, least, magnitude

Row = Mapping[str, str]
# Locked networks by their names in print, from the largest share of the lock to the smallest.
SMALL = {"ResNet-20": "resnet20", "ResNet-32": "resnet32"}
LARGE = {"ResNet-18": "resnet18-unpooled", "ResNet-34": "resnet34-unpooled", "VGG-16": "vgg16-batch-norm"}
LOCKED = {"LeNet": "lenet-dlg-running-norm", **SMALL, **LARGE}


def widest(evidence: Evidence, row: Row) -> Measured:
    """Return the largest gap in points between curves with and without a lock, in the last half of rounds."""
    gaps = []
    for dataset in ("cifar10", "cifar100"):
        for victim in SMALL.values():
            cell = {**evidence.condition, "dataset": dataset, "victim": victim, "baseline": "snapshot"}
            rows = evidence.rows(**cell, defence="none", key="")
            if rows.empty:
                raise NotMeasured(
                    evidence.why(cell.pop("experiment"), **cell) or f"no curve of {victim} on {dataset}"
                )
            late = [each for each in rows["round"] if each > rows["round"].max() / 2]
            for each in late:
                plain = evidence.at(**cell, defence="none", key="", round=each)
                locked = evidence.at(**cell, defence="key-lock", key="own", round=each)
                gaps.append(100 * magnitude(plain - locked))
    return greatest(gaps)


def _gap(evidence: Evidence, victim: str, dataset: str) -> Measured:
    """Return the points between own keys and a random one, on a data set that no other stands in for."""
    training = "sgd-federated-224" if victim in LARGE.values() else "sgd-federated"
    cell = {**evidence.condition, "victim": victim, "dataset": dataset, "training": training}
    if evidence.rows(**cell).empty:
        raise NotMeasured(evidence.why(cell.pop("experiment"), **cell) or f"no gap of {victim} on {dataset}")
    return 100 * evidence.at(**cell)


def hundred_wider(evidence: Evidence, row: Row) -> Measured:
    victims = [*SMALL.values(), *LARGE.values()]
    return least([_gap(evidence, v, "cifar100") - _gap(evidence, v, "cifar10") for v in victims])


def grows_with_share(evidence: Evidence, row: Row) -> Measured:
    """Return the least difference of neighbours on CIFAR-100, from the largest share to the smallest."""
    gaps = [_gap(evidence, victim, "cifar100") for victim in (*SMALL.values(), *LARGE.values())]
    return least([larger - smaller for larger, smaller in pairwise(gaps)])


def single_runs(evidence: Evidence, row: Row) -> Measured:
    """Return the standard deviation in points over seeds of one setting."""
    own = evidence.at()
    return deviation(100 * own.extra["std"], own.n or 0, replace(own, metric=""))


def models(evidence: Evidence, row: Row) -> str:
    """Return how many networks this scale trained that differ in the lock alone."""
    trained = 0
    for defence in ("none", "key-lock"):
        rows = evidence.rows("thesis-table-5-1", metric="lock_share", defence=defence)
        rows = rows[rows["victim"].isin(LOCKED.values())]
        trained += len(rows[["dataset", "victim", "training"]].drop_duplicates())
    return str(trained)


def lock_share(evidence: Evidence, row: Row) -> Measured:
    """Return the lock's share in percent of all tensors but the key of a network with 100 classes."""
    import torch

    from leakbench import victims
    from leakbench.defences.key_lock import first_norms

    entry = evidence.fact(f"networks.{LOCKED[row['model']]}")
    side = int(row["resolution"].partition("x")[0])
    with torch.device("meta"):
        network = victims.build(entry["module"], (side, side, 3), 100, entry["parameters"])
    state = network.state_dict()
    channels = state[f"{first_norms(network)[0]}.weight"].numel()
    locked = 2 * channels * (evidence.fact("defences.key-lock.key_length") + 1)
    return exactly(100 * locked / (sum(value.numel() for value in state.values()) - 2 * channels + locked))


def change(evidence: Evidence, row: Row) -> str:
    """Return SSIM of GGL without and with the lock, as the text prints it."""
    found = (evidence.at(metric="ssim", defence=defence).value for defence in ("none", "key-lock-sigmoid"))
    return " to ".join(f"{value:.3f}" for value in found)
