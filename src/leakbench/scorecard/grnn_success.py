"""Findings for Figure 3.5 of Ren's thesis: success rates against normalised thresholds (docs/decisions.md).

Its numbers are CIFAR-100's; its claim is judged on CIFAR-10 where CIFAR-100 is absent.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from leakbench.scorecard import grnn_evidence as grnn
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import ENOUGH, Build, Look, Quantity, at, minus, smallest
from leakbench.scorecard.measure import Measured, NotMeasured, average, difference, exactly, least, select
from leakbench.scorecard.verdict import Finding, Relation

EXPERIMENT = "thesis-figure-3-5"
OWN = "cifar100"
SIZES = (1, 4, 8, 16)
# The text says "around 0.05", "around 0.7"; half a step between our thresholds, and as much of a rate.
AROUND = 0.025
# A mean squared error of 0.5 is met by any image, and a PSNR of 24 dB by good ones only: SSIM has a middle.
JUDGED, MIDDLE = "success_ssim", 0.5


def rate(attack: str, size: int, metric: str, threshold: float) -> Quantity:
    """A point of a curve."""
    return at(
        EXPERIMENT, metric, grnn.LENGTH[attack], dataset=OWN, victim=grnn.LENET, attack=attack,
        federation=grnn.federation(OWN, size), convention="published", threshold=threshold,
    )  # fmt: skip


def crossing(curve: Sequence[tuple[float, float]], level: float) -> float:
    """Where a rising curve of (threshold, rate), in order, first reaches `level`, straight between points; NaN if never."""
    before = None
    for x, y in curve:
        if y >= level:
            if before is None:
                return x
            return before[0] + (x - before[0]) * (level - before[1]) / (y - before[1])
        before = (x, y)
    return math.nan


def threshold_of(attack: str, level: float) -> Build:
    """The threshold on MSE at which the success rate, averaged over batches of 4 and up, reaches `level`."""

    def finding(evidence: Evidence) -> Finding:
        # Each point is looked up by itself, so that only its own curves should be looked through.
        where = {"metric": "success_mse", "convention": "published", "dataset": OWN, "attack": attack}
        curves = select(evidence.table(EXPERIMENT), f"table {EXPERIMENT}", **where)
        look = Look(replace(evidence, tables={EXPERIMENT: curves}))
        points = sorted(float(x) for x in curves["threshold"].dropna().unique())
        found = {
            x: average([rate(attack, size, "success_mse", x)(look) for size in SIZES[1:]]) for x in points
        }
        if not found:
            why = evidence.why(EXPERIMENT, dataset=OWN, attack=attack)
            raise NotMeasured(why or f"table {EXPERIMENT} has no success rates of {OWN}")
        # A higher curve crosses at a lower threshold.
        value, low, high = (
            crossing([(x, getattr(point, key)) for x, point in found.items()], level)
            for key in ("value", "high", "low")
        )
        n = min(point.n for point in found.values())
        note = "; ".join(filter(None, ["mean over batches of 4, 8 and 16", look.note]))
        high = points[-1] if math.isnan(high) else high
        return Finding(Measured(value, low, high, n), tolerance=AROUND, convention="published", note=note)

    return finding


def point(quantity: Quantity, relation: Relation = "=") -> Build:
    """A success rate at one threshold."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        measured = quantity(look)
        return Finding(measured, relation=relation, tolerance=AROUND, convention="published", note=look.note)

    return finding


def _gain(size: int) -> Quantity:
    grnn_rate, dlg_rate = (rate(attack, size, JUDGED, MIDDLE) for attack in ("grnn", "dlg"))
    return minus(grnn_rate, dlg_rate)


def _above(evidence: Evidence) -> Finding:
    """GRNN minus DLG, the least over batches of 4 and up; at batch 1 it must not be above 0."""
    look = Look(evidence, ENOUGH, stand_ins=grnn.STAND_INS)
    gains = {size: _gain(size)(look) for size in SIZES}
    first = gains.pop(1)
    parts = [*gains.values(), *([difference(exactly(0), first)] if first.value > 0 else [])]
    rule = f"SSIM of at least {MIDDLE:g}; {first.value:+.2f} at batch 1"
    return Finding(least(parts), 0, ">", note="; ".join(filter(None, [rule, look.note])))


NUMBERS: dict[str, Build] = {
    "thesis.fig-3-5.1": threshold_of("grnn", 0.6),
    "thesis.fig-3-5.2": threshold_of("dlg", 0.6),
    "thesis.fig-3-5.3": point(rate("dlg", 1, "success_ssim", 0.2)),
    "thesis.fig-3-5.4": point(smallest(*(rate("grnn", size, "success_ssim", 0.2) for size in SIZES)), ">"),
}
CLAIMS: dict[str, Build] = {"thesis.fig-3-5.grnn-above": _above}
