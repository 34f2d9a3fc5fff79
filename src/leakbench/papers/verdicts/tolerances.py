"""How near a measured number must come to a printed one: a table fixed before anything is measured."""

from fnmatch import fnmatchcase
from math import inf
from typing import NamedTuple

from leakbench.base.errors import UserError


class Tolerance(NamedTuple):
    """How near is near enough for a metric, in its own unit."""

    amount: float  # the tolerance; where `relative`, as a share of the printed number
    # The least value that its outcomes take, infinite where there is none; unseen outcomes are placed there.
    low: float
    high: float  # the greatest value, in the same way
    relative: bool = False  # whether the tolerance is a share of the printed number
    # Whether a larger number always says the same about quality; in a unit that is not, agreement is no
    # success by itself.
    monotone: bool = True


def _factor(times: float, low: float = 0, high: float = inf) -> Tolerance:
    return Tolerance(times - 1, low, high, relative=True)


SHARE = Tolerance(0.1, 0, 1)
CORRELATION = Tolerance(0.075, -1, 1)
ACCURACY = Tolerance(0.02, 0, 1)
COMPUTED = Tolerance(0.01, 0, 1)
COUNT = _factor(1.1)
RATIO = _factor(1.25)

# A name may hold the wildcards * and [...]; the longest name that fits counts.
TOLERANCES: dict[str, Tolerance] = {
    # Images. Above 60 dB two images are as good as identical.
    "psnr": Tolerance(1.5, 0, 60),
    # 10 log10(255² / RMSE): one dB of this unit is two of PSNR, and 24.07 to 54.07 is 0 to 60 dB.
    "psnr_of_rmse": Tolerance(0.75, 24.07, 54.07),
    "psnr_uint8_wrap": Tolerance(1.5, 0, 60, monotone=False),
    # Its range is -1 to 1, but unrelated images score 0.
    "ssim": Tolerance(0.075, 0, 1),
    # Unbounded in theory; unrelated images stay below 1.
    "lpips_*": Tolerance(0.05, 0, 1),
    "mse": _factor(1.25, high=1),
    "rmse_255": _factor(1.25, high=255),
    "tv_ratio": RATIO,
    "coarse_error": SHARE,
    "colour_error": _factor(1.25, high=3**0.5),
    # Correlations.
    "pearson": CORRELATION,
    "pearson_unrevealed": CORRELATION,
    "channel_pearson": CORRELATION,
    # Shares of images, labels, neurons.
    "success_*": SHARE,
    "identified": SHARE,
    "exact": SHARE,
    "membership_auc": SHARE,
    "tpr_at_fpr_*": SHARE,
    "members_accepted": SHARE,
    "span_distance": SHARE,
    # Shares of records and of their features.
    "exact_record": SHARE,
    **dict.fromkeys(("exact_sentence", "token_accuracy", "rouge_1", "rouge_2"), SHARE),
    "feature_accuracy": SHARE,
    "label_accuracy": SHARE,
    "label_presence": SHARE,
    "label_counts": SHARE,
    "label_ok": SHARE,
    "matching_success*": SHARE,
    "top[135]_*": SHARE,
    "revealed_fraction": SHARE,
    "exact_fraction": SHARE,
    "isolating_share": SHARE,
    "told_apart": SHARE,
    "failure_rate": SHARE,
    "agreement": SHARE,
    "alarm_*": SHARE,
    # Counts.
    "revealed": COUNT,
    "false_acceptances": COUNT,
    "revealed_cumulative": COUNT,
    "usable_neurons": COUNT,
    "isolating_neurons": COUNT,
    "false_accepted": COUNT,
    "update_bytes": COUNT,
    "upload_bytes": COUNT,
    "selected_round": COUNT,
    # Trainings.
    "accuracy": ACCURACY,
    "validation_accuracy": ACCURACY,
    "cross_accuracy": ACCURACY,
    "gap_to_random": Tolerance(0.02, -1, 1),
    "test_loss": RATIO,
    "validation_loss": RATIO,
    "training_loss": RATIO,
    "cross_loss": RATIO,
    "weight": Tolerance(0.05, 0, 1),
    "epsilon": RATIO,
    "epsilon_low": RATIO,
    "delta": _factor(1.25, high=1),
    # A network's locked share is computed, not sampled.
    "lock_share": COMPUTED,
    "lock_share_parameters": COMPUTED,
    # Attacks.
    "gradient_mse": RATIO,
    "seconds": RATIO,
    "seconds_per_round": RATIO,
    # Kinds, for printed quantities that are none of these metrics.
    "db": Tolerance(1.5, -inf, inf),
    "share": SHARE,
    "correlation": CORRELATION,
    "model_accuracy": ACCURACY,
    "count": COUNT,
    "ratio": RATIO,
    "deviation": RATIO,
    "other": _factor(1.1, low=-inf),
}

# Metrics that have values beyond the range within which two outcomes count as different.
_WIDER: dict[str, tuple[float, float]] = {
    "psnr": (0, inf), "psnr_uint8_wrap": (0, inf), "psnr_of_rmse": (-inf, inf), "ssim": (-1, 1),
    "lpips_*": (0, inf),
}  # fmt: skip


def possible(metric: str, low: float, high: float, unit: float = 1.0) -> tuple[float, float]:
    """Return the interval of a mean as it is shown: cut off at the least and greatest value of the metric."""
    names = [name for name in TOLERANCES if fnmatchcase(metric, name)]
    if not names:
        return low, high
    name = max(names, key=len)
    least, most = _WIDER.get(name, TOLERANCES[name][1:3])
    return max(low, least * unit), min(high, most * unit)


def tolerance_of(metric: str, published: float, unit: float = 1.0) -> tuple[float, tuple[float, float], bool]:
    """Return (tolerance, bounds, monotone) of a printed number of a metric, in the printed unit."""
    names = [name for name in TOLERANCES if fnmatchcase(metric, name)]
    if not names:
        raise UserError(f"verdicts/tolerances.py: no tolerance for '{metric}' (add a line to TOLERANCES)")
    found = TOLERANCES[max(names, key=len)]
    amount = found.amount * (abs(published) if found.relative else unit)
    return amount, (found.low * unit, found.high * unit), found.monotone
