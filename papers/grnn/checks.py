"""Checks of chapter 3 of Ren's thesis that no expression can make.

They read curves, images from during an attack, and an architecture.
"""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from leakbench.papers.scorecard.checking import Evidence
from leakbench.papers.scorecard.quantity import Measured, NotMeasured, least, mean

Words = Mapping[str, str]
SETS = {"MNIST": "mnist-32", "CIFAR-100": "cifar100", "LFW": "lfw-32"}
# An attack succeeds if its SSIM and its share of identified images are at least this.
RECOGNISABLE = 0.5


def _federation(dataset: str, batch: int) -> str:
    base = "grnn-faces" if dataset == "lfw-32" else "grnn"
    return base if batch == 1 else f"{base}-batch{batch}"


def _batched(size: int) -> str:
    """Return the experiment that has batches of `size` images on DLG's LeNet."""
    if size <= 16:
        return "thesis-figure-3-3"
    return "thesis-table-3-6" if size == 32 else f"thesis-table-3-6-batch{size}"


def _kept(evidence: Evidence, dataset: str, **where: Any) -> list[float]:
    """Return the iterations after which images were kept, and last the number of iterations that ran.

    dataset: the data set; its stand-in is read where it has no such images.
    where: further columns that name the rows.

    Raises NotMeasured where neither has images from during the attack.
    """
    for name in (dataset, evidence.stand_ins.get(dataset, dataset)):
        with suppress(NotMeasured):
            both = ("snapshot", "")
            way, ran = (
                evidence.values("iterations", dataset=name, metric="mse", baseline=each, **where)
                for each in both
            )
            return [*way, ran[0]]
    raise NotMeasured(
        evidence.why(str(evidence.condition["experiment"]), dataset=dataset)
        or f"no image on the way was kept of {dataset}"
    )


def gradually(evidence: Evidence, row: Words) -> Measured:
    """Return how much larger the image error is early in the attack than at its end.

    Early is the snapshot nearest to a tenth of the iterations that ran. The least difference over the data
    sets counts.
    """
    found = []
    for dataset in SETS.values():
        last = evidence.at(dataset=dataset)
        *kept, ran = _kept(evidence, dataset)
        early = evidence.at(
            dataset=dataset, baseline="snapshot", iterations=min(kept, key=lambda k: abs(k - ran / 10))
        )
        # Both numbers are of one run, so they have the same length.
        found.append(replace(early, length=last.length) - last)
    return least(found)


def _coarse(evidence: Evidence, attack: str) -> Measured:
    """Return the coarse share of the error of the first snapshot with at least half of the final SSIM.

    Without such a snapshot, the final image counts.
    """
    half = evidence.at(attack=attack, metric="ssim")
    last = evidence.at(attack=attack, metric="coarse_error")
    for steps in _kept(evidence, str(evidence.condition["dataset"]), attack=attack)[:-1]:
        way = {"attack": attack, "baseline": "snapshot", "iterations": steps}
        if evidence.at(metric="ssim", **way).value >= half.value / 2:
            return replace(evidence.at(metric="coarse_error", **way), length=last.length)
    return last


def coarse_to_fine(evidence: Evidence, row: Words) -> Measured:
    """Return the coarse share of the error of images with half of the final SSIM, GRNN minus DLG."""
    return _coarse(evidence, "grnn") - _coarse(evidence, "dlg")


def crossing(curve: Sequence[tuple[float, float]], level: float) -> float:
    """Return the threshold at which a rising curve reaches a rate, by linear interpolation.

    curve: points (threshold, rate), in the order of the thresholds.
    level: the rate.

    Returns NaN if the curve never reaches the rate. If it starts at the rate or above, the first threshold is
    returned.
    """
    before = None
    for x, y in curve:
        if y >= level:
            return (
                x if before is None else before[0] + (x - before[0]) * (level - before[1]) / (y - before[1])
            )
        before = (x, y)
    return math.nan


def threshold_of_rate(evidence: Evidence, row: Words) -> Measured:
    """Return the threshold on MSE at which the mean success rate reaches the level that the row prints.

    The mean is that of batches of 4, 8 and 16.
    """
    found = re.fullmatch(r"success rate (\S+), (\w+)", row["condition"])
    assert found
    level, attack = float(found[1]), found[2].lower()
    where = {
        "experiment": "thesis-figure-3-5",
        "metric": "success_mse",
        "convention": "published",
        "dataset": "cifar100",
        "victim": "lenet-dlg",
        "attack": attack,
    }
    points = evidence.values("threshold", **where)
    curve = {
        x: mean(evidence.at(federation=_federation("cifar100", n), threshold=x, **where) for n in (4, 8, 16))
        for x in points
    }
    # A higher curve crosses at a lower threshold.
    value, low, high = (
        crossing([(x, getattr(point, key)) for x, point in curve.items()], level)
        for key in ("value", "high", "low")
    )
    high = points[-1] if math.isnan(high) and not math.isnan(low) else high
    return replace(least(curve.values()), value=value, low=low, high=high)


def largest_batch(evidence: Evidence, row: Words) -> Measured:
    """Return the largest batch size at which an attack succeeds, or 0 if there is none.

    The interval runs from the largest batch size at which the attack surely succeeds to the largest one at
    which it may succeed.
    """
    attack, _, name = row["condition"].split()[:3]
    parts: dict[int, Measured] = {}
    for size in (1, 4, 8, 16, 32, 64, 128, 256):
        where = {
            "experiment": _batched(size), "victim": "lenet-dlg",
            "dataset": SETS[name], "attack": attack.lower(), "federation": _federation(SETS[name], size),
        }  # fmt: skip
        # How far the lower one of both metrics is above the bound of a success.
        parts[size] = least(
            evidence.at(metric=metric, **where) - RECOGNISABLE for metric in ("ssim", "identified")
        )
    value, low, high = (
        float(max([0, *(size for size, part in parts.items() if getattr(part, end) >= 0)]))
        for end in ("value", "low", "high")
    )
    unknown = any(math.isnan(part.low) for part in parts.values())
    low, high = (math.nan, math.nan) if unknown else (low, high)
    return replace(least(parts.values()), value=value, low=low, high=high, metric="count", beats_null=None)


def upsampling_block(evidence: Evidence, row: Words) -> str:
    """Return a setting of Table 3.1 as printed, if torch's layers with it compute what the block computes.

    The block is the project's own. If the outputs differ, the text "another" is returned. The kernel size is
    read off the block's weights.
    """
    import torch
    from torch.nn import functional

    from leakbench.attacks.matching.engines.upsampling_block import normalised_gate, upsampled_convolution
    from leakbench.attacks.matching.generator_weights import GeneratorWeights

    assert evidence.row is not None
    rng = torch.Generator().manual_seed(0)
    weight = GeneratorWeights(32, 3, 2, 10).draw(rng, 1)[0]["block0.weight"]
    if row["metric"] == "kernel_size":
        return str(weight.shape[2])
    printed: dict[str, Any] = {"scale_factor": 2, "mode": "nearest", "stride": 1, "padding": 1}
    if row["metric"] in printed:
        text = evidence.row.published
        printed[row["metric"]] = int(text) if text.isdigit() else text
    x = torch.randn(1, 2, 4, 4, weight.shape[1], generator=rng)
    ones, zeros = torch.ones(1, weight.shape[-1]), torch.zeros(1, weight.shape[-1])
    ours = normalised_gate(upsampled_convolution(x, weight), ones, zeros)[0].permute(0, 3, 1, 2)
    larger = functional.interpolate(
        x[0].permute(0, 3, 1, 2), scale_factor=printed["scale_factor"], mode=printed["mode"]
    )
    theirs = functional.conv2d(
        larger, weight[0].permute(3, 0, 1, 2), stride=printed["stride"], padding=printed["padding"]
    )
    theirs = functional.glu(functional.batch_norm(theirs, None, None, training=True), 1)
    same = ours.shape == theirs.shape and torch.allclose(ours, theirs, atol=1e-4)
    return evidence.row.published if same else "another"
