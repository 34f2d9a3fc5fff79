"""The words that figures and the report use for metrics, axes, null baselines and threat models."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

# The names under which a figure's PNG keeps the heights of title and claim and of its small print, in pixels,
# and this print.
TOP, BOTTOM, FOOT = "Top", "Bottom", "Foot"
KEYS = {"own": "own key", "other": "another client's key", "random": "random key"}
METRICS = {
    "psnr": "PSNR (dB)", "ssim": "SSIM", "lpips_alex": "LPIPS (AlexNet)", "lpips_vgg": "LPIPS (VGG)",
    "lpips_alex_raw255_bgr": "LPIPS (AlexNet) of 0 to 255",
    "lpips_vgg_raw255_bgr": "LPIPS (VGG) of 0 to 255", "mse": "MSE of images",
    "gradient_mse": "MSE of gradients", "rmse_255": "RMSE of 0 to 255",
    "psnr_of_rmse": "PSNR, RMSE for MSE (dB)", "psnr_uint8_wrap": "PSNR, 8-bit wrap (dB)",
    "pearson": "Pearson r", "revealed": "revealed samples (r ≥ 0.98)",
    "revealed_fraction": "share revealed (r ≥ 0.98)", "exact": "share in every bit",
    "exact_fraction": "share of an update in every bit", "revealed_cumulative": "revealed over all rounds",
    "identified": "share identified", "exact_record": "records exact", "feature_accuracy": "features right",
    "token_accuracy": "tokens right at their place", "exact_sentence": "sentences exact",
    "rouge_1": "ROUGE-1", "rouge_2": "ROUGE-2", "label_accuracy": "labels right",
    "label_presence": "classes present", "label_counts": "class counts right",
    "membership_auc": "AUC of membership", "tpr_at_fpr_0": "TPR at FPR 0",
    "tpr_at_fpr_0_001": "TPR at FPR 0.1 %", "epsilon_low": "ε at least",
    "members_accepted": "members accepted", "false_acceptances": "others accepted",
    "false_accepted": "accepted, but not private", "agreement": "neurons and samples that agree (λ)",
    "span_distance": "distance from the span", "tv_ratio": "total variation, ratio",
    "seconds": "seconds per update", "accuracy": "test accuracy", "test_loss": "test loss",
    "weight": "weight in aggregation", "apart": "share of the plane classified otherwise",
    "update_bytes": "bytes of an update", "matching_success": "matched: labels and pooling",
    "matching_success_no_pooling": "matched: labels alone",
    "matching_success_no_labels": "matched: pooling alone", "matching_success_plain": "matched: neither",
    "success_mse": "successes by MSE", "success_psnr": "successes by PSNR",
    "success_ssim": "successes by SSIM", "alarm_d_snr": "alarm: D-SNR", "alarm_dynamics": "alarm: dynamics",
    "alarm_few_open": "alarm: few open", "alarm_isolation": "alarm: isolation",
    "alarm_one_sided_rows": "alarm: one-sided rows", "alarm_rows_alike": "alarm: rows alike",
}  # fmt: skip
AXES = {
    "local_samples": "private images in the local set, k",
    "checkpoint": "epochs of the victim's training",
    "iterations": "iterations of the attack",
    "share": "share of the attack's steps",
    "threshold": "normalised threshold",
    "round": "round",
}
# The fields of a threat model that a reader needs first; other fields follow in their own order.
FIRST = ("threat model", "shared", "labels", "batch size")


def called(column: str, value: str) -> str:
    """Return the words for a value of a column, which is returned as it is if it has none."""
    match column:
        case "metric":
            return METRICS.get(value, value.replace("_", " "))
        case "key":
            return KEYS.get(value, value)
        case "local_samples" if value:
            return many(int(float(value)), "image")
        case "client" | "seed" if value:
            return f"{column} {value}"
        case "checkpoint" if value:
            return f"epoch {value}"
        case "pass" if value:
            return f"pass {float(value) + 1:g}"
    return value


def merged(knows: Mapping[str, Any]) -> dict[str, str]:
    """Return the threat models of all cells (cell → field → value), or one of them, merged into one."""
    models = [value for value in knows.values() if isinstance(value, Mapping)] or ([knows] if knows else [])
    values: dict[str, dict[str, None]] = {field: {} for field in FIRST}
    for model in models:
        for field, value in model.items():
            values.setdefault(field, {})[str(value)] = None
    return {field: _either(list(different)) for field, different in values.items() if different}


def _either(values: list[str]) -> str:
    return values[0] if len(values) == 1 else " or ".join(f"({v})" if ";" in v else v for v in values)


def threat(knows: Mapping[str, Any]) -> str:
    """Return a threat model in one line: "honest-but-curious server; labels: unknown; ..."."""
    fields = merged(knows)
    return "; ".join(v if field == "threat model" else f"{field}: {v}" for field, v in fields.items())


def plain(value: Any) -> str:
    """Return a value as YAML writes it: a column with gaps holds 4.0 for 4, and NaN for no text."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:g}"
    return str(value)


def listed(values: list[Any], most: int = 6) -> str:
    """Return values with commas between them; of more than `most` values, the first two and the last."""
    words = list(map(str, values))
    return ", ".join(words) if len(words) <= most else f"{words[0]}, {words[1]} … {words[-1]}"


def span(values: Iterable[float]) -> str:
    """Return the range of some values: "20 to 200", "20" if all are equal, "0" if there are none."""
    known = sorted({value for value in values if value == value})
    if not known:
        return "0"
    return f"{known[0]:,.7g}" if len(known) == 1 else f"{known[0]:,.7g} to {known[-1]:,.7g}"


def steps(rows: pd.DataFrame) -> str:
    """Return how long the attacks behind some rows ran, "after 80 iterations", as far as the table says."""
    counts: Any = rows["iterations"].dropna() if "iterations" in rows else []
    return f"after {span(counts)} iterations" if len(counts) else ""


def many(count: int, thing: str) -> str:
    """Return a count with its noun, such as "2,000 images"."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
