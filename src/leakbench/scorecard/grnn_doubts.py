"""Findings for doubts about chapter 3 of Ren's thesis: what its PSNR is, and what of it contradicts itself."""

from functools import partial

from leakbench.scorecard import grnn_evidence as grnn
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import Build, Look, Quantity, claim, minus
from leakbench.scorecard.measure import Measured, NotMeasured, average, difference, exactly, least, within
from leakbench.scorecard.verdict import Finding

FLOOR, ROOM, BELOW = 27.9, 0.3, 12.0
# Pictures and faces. MNIST's digits share a black background, whose differences wrap to nothing.
NATURAL = {"cifar100": "CIFAR-100", "cifar10": "CIFAR-10", "lfw-32": "LFW", "orl-32": "ORL"}
# Half a unit in the last place of a printed percentage.
ROUNDING = 0.005


def unrelated(evidence: Evidence, dataset: str, metric: str) -> Measured:
    """A metric's mean over pairs of unrelated images; the pairs are the same in every cell of the data set."""
    return evidence.pick(
        "thesis-conventions", metric=metric, dataset=dataset, victim=grnn.LENET, attack="grnn",
        baseline="unrelated-image", convention="published" if metric.startswith("psnr_") else "standard",
    )  # fmt: skip


def _floor(evidence: Evidence) -> Finding:
    """Margin by which unrelated pairs keep to 27.9 ± 0.3 dB when wrapped, and below 12 dB in truth: the least of all."""
    wrapped: list[Measured] = []
    true: list[Measured] = []
    told, reason = [], ""
    for dataset, name in (NATURAL | {"mnist-32": "MNIST"}).items():
        try:
            wrap, psnr, rmse = (
                unrelated(evidence, dataset, metric) for metric in ("psnr_uint8_wrap", "psnr", "psnr_of_rmse")
            )
        except NotMeasured as missing:
            reason = reason or str(missing)
            continue
        judged = dataset in NATURAL
        if judged:
            wrapped.append(within(wrap, FLOOR, ROOM))
            true.append(difference(exactly(BELOW, psnr.n), psnr))
        told.append(
            f"{name} {wrap.value:.2f} dB wrapped, {psnr.value:.1f} true, {rmse.value:.1f} with RMSE for MSE"
            + ("" if judged else ", not judged: its backgrounds are equal")
        )
    if not wrapped:
        raise NotMeasured(reason)
    return Finding(
        least([*wrapped, *true]), 0, ">=", direction_holds=least(wrapped).value >= 0,
        note="the least margin in dB; " + "; ".join(told),
    )  # fmt: skip


def largest(attack: str, dataset: str) -> Quantity:
    """The largest batch whose mean SSIM is at least 0.5, 0 if none; the interval is of batches that may be."""

    def quantity(look: Look) -> Measured:
        found = {
            size: grnn.batch(attack, grnn.LENET, dataset, size)(look)
            for size in grnn.BATCHES
        }  # fmt: skip
        value, low, high = (
            max([0, *(size for size, ssim in found.items() if getattr(ssim, key) >= grnn.RECOGNISABLE)])
            for key in ("value", "low", "high")
        )
        return Measured(value, low, high, min(ssim.n for ssim in found.values()))

    return quantity


def printed(evidence: Evidence, row: int) -> Measured:
    """A printed mean of Table 3.13, with what its rounding leaves open."""
    value = float(evidence.fact("printed", f"thesis.table-3-13.{row}"))
    return Measured(value, value - ROUNDING, value + ROUNDING, 1)


def _off(evidence: Evidence, first: int) -> Measured:
    """Mean of the eight printed cells from row `first` on, minus the average printed after them.

    All roundings may err the same way, so that the interval of the mean is that of one cell.
    """
    cells = [printed(evidence, first + step) for step in range(8)]
    mean = average(cells).value
    gap = mean - printed(evidence, first + 8).value
    return Measured(gap, gap - 2 * ROUNDING, gap + 2 * ROUNDING, 8)


def _averages(evidence: Evidence) -> Finding:
    other = _off(evidence, 28)
    return Finding(
        _off(evidence, 1), 0.05, ">",
        note=f"arithmetic on printed numbers, with their rounding; GRNN MNIST is off by {other.value:+.2f}",
    )  # fmt: skip


_works = partial(largest, "grnn")

CLAIMS: dict[str, Build] = {
    "thesis.doubt-11.swapped-batches": claim(minus(_works("CIFAR-100"), _works("LFW")), ">", 0),
    "thesis.doubt-13.psnr-floor": _floor,
    "thesis.doubt-16.label-averages": _averages,
}
