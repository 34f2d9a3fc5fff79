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


# Tolerance → the metrics that have it. A name may hold the wildcards * and [...]; the longest name that fits
# counts. `ratio`, `deviation`, `share`, `correlation`, `count`, `model_accuracy`, `db` and `other` are kinds,
# for printed quantities that are none of our metrics.
_OF: list[tuple[Tolerance, str]] = [
    # Above 60 dB two images are as good as identical.
    (Tolerance(1.5, 0, 60), "psnr"),
    # 10 log10(255² / RMSE): one dB of this unit is two of PSNR, and 24.07 to 54.07 is 0 to 60 dB.
    (Tolerance(0.75, 24.07, 54.07), "psnr_of_rmse"),
    (Tolerance(1.5, 0, 60, monotone=False), "psnr_uint8_wrap"),
    # Its range is -1 to 1, but unrelated images score 0.
    (Tolerance(0.075, 0, 1), "ssim"),
    # LPIPS is unbounded in theory; unrelated images stay below 1.
    (Tolerance(0.05, 0, 1), "lpips_* weight"),
    (_factor(1.25, high=1), "mse delta"),
    (_factor(1.25, high=255), "rmse_255"),
    (_factor(1.25), """tv_ratio test_loss validation_loss training_loss cross_loss epsilon epsilon_low
     gradient_mse seconds seconds_per_round ratio deviation"""),
    # Shares of images, records, labels, neurons and so on.
    (Tolerance(0.1, 0, 1), """coarse_error success_* identified exact membership_auc tpr_at_fpr_*
     members_accepted span_distance exact_record exact_sentence token_accuracy rouge_1 rouge_2
     feature_accuracy label_accuracy label_presence label_counts label_ok matching_success* top[135]_*
     revealed_fraction exact_fraction isolating_share told_apart failure_rate agreement alarm_* share"""),
    (_factor(1.25, high=3**0.5), "colour_error"),
    (Tolerance(0.075, -1, 1), "pearson pearson_unrevealed channel_pearson correlation"),
    (_factor(1.1), """revealed false_acceptances revealed_cumulative usable_neurons isolating_neurons
     false_accepted update_bytes upload_bytes selected_round count"""),
    (Tolerance(0.02, 0, 1), "accuracy validation_accuracy cross_accuracy model_accuracy"),
    (Tolerance(0.02, -1, 1), "gap_to_random"),
    # A network's locked share is computed, not sampled.
    (Tolerance(0.01, 0, 1), "lock_share lock_share_parameters"),
    (Tolerance(1.5, -inf, inf), "db"),
    (_factor(1.1, low=-inf), "other"),
]  # fmt: skip
TOLERANCES = {name: tolerance for tolerance, names in _OF for name in names.split()}

# Metrics that have values beyond the range within which two outcomes count as different.
_WIDER: dict[str, tuple[float, float]] = {
    "psnr": (0, inf), "psnr_uint8_wrap": (0, inf), "psnr_of_rmse": (-inf, inf), "ssim": (-1, 1),
    "lpips_*": (0, inf),
}  # fmt: skip


def _line(metric: str) -> str:
    """Return the name in TOLERANCES that fits a metric, or ""."""
    return max((name for name in TOLERANCES if fnmatchcase(metric, name)), key=len, default="")


def possible(metric: str, low: float, high: float, unit: float = 1.0) -> tuple[float, float]:
    """Return the interval of a mean as it is shown: cut off at the least and greatest value of the metric."""
    if not (name := _line(metric)):
        return low, high
    least, most = _WIDER.get(name, TOLERANCES[name][1:3])
    return max(low, least * unit), min(high, most * unit)


def tolerance_of(metric: str, published: float, unit: float = 1.0) -> tuple[float, tuple[float, float], bool]:
    """Return (tolerance, bounds, monotone) of a printed number of a metric, in the printed unit."""
    if not (name := _line(metric)):
        raise UserError(f"verdicts/tolerances.py: no tolerance for '{metric}' (add a line to TOLERANCES)")
    found = TOLERANCES[name]
    amount = found.amount * (abs(published) if found.relative else unit)
    return amount, (found.low * unit, found.high * unit), found.monotone
