"""The table of metrics: every name keeps its convention, and the conventions never mix."""

from pathlib import Path

import numpy as np
import pytest

import leakbench.metrics
from leakbench.metrics import METRICS, measure

OF_TEXT = ("token_accuracy", "exact_sentence", "rouge_1", "rouge_2")
# Direction → names. Those that a paper prints are PUBLISHED, and all others are what the field means.
NAMES = {
    True: [
        "exact", "exact_record", "feature_accuracy", *OF_TEXT, "psnr", "ssim", "pearson", "channel_pearson",
        "psnr_of_rmse", "psnr_uint8_wrap", "identified", "agreement", "alarm_d_snr", "alarm_dynamics",
        "alarm_few_open", "alarm_isolation", "alarm_one_sided_rows", "alarm_rows_alike", "label_ok",
        "label_accuracy", "label_presence", "label_counts", "membership_auc", "tpr_at_fpr_0",
        "tpr_at_fpr_0_001", "epsilon_low", "members_accepted", "accuracy", "matching_success",
        "matching_success_no_labels", "matching_success_no_pooling", "matching_success_plain",
        "top1_resnet18", "top3_resnet18", "top5_resnet18", "top1_densenet121",
        "top3_densenet121", "top5_densenet121",
    ],
    False: [
        "mse", "tv_ratio", "coarse_error", "colour_error", "gradient_mse", "lpips_alex", "lpips_vgg",
        "rmse_255", "lpips_alex_raw255_bgr", "lpips_vgg_raw255_bgr", "seconds", "false_accepted",
        "span_distance", "false_acceptances", "update_bytes",
    ],
}  # fmt: skip
PUBLISHED = {"rmse_255", "psnr_of_rmse", "psnr_uint8_wrap", "lpips_alex_raw255_bgr", "lpips_vgg_raw255_bgr"}
CONVENTIONS = {
    name: ("published" if name in PUBLISHED else "standard", higher)
    for higher, names in NAMES.items()
    for name in names
}
# What the scorer measures on its own match, and not on pairs of images.
OF_UPDATES = {name for name, metric in METRICS.items() if metric.of in ("updates", "models", "candidates")}
WITHOUT_WEIGHTS = sorted(
    name
    for name in set(CONVENTIONS) - OF_UPDATES
    if not name.startswith(("lpips", "top"))
    and name not in ("identified", "exact_record", "feature_accuracy", *OF_TEXT)
)


def test_every_name_has_its_convention_and_direction() -> None:
    assert {name: (m.convention, m.higher_is_better) for name, m in METRICS.items()} == CONVENTIONS
    assert all(metric.name == name for name, metric in METRICS.items())
    assert all(METRICS[name].function.__name__ == name for name in WITHOUT_WEIGHTS)
    weighty = set(CONVENTIONS) - set(WITHOUT_WEIGHTS) - OF_UPDATES
    assert {name for name, metric in METRICS.items() if metric.needs} == weighty


def test_adding_a_metric_is_adding_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "largest_error.py").write_text(
        "import numpy as np\n"
        "from leakbench.metrics.metric import Metric\n"
        "def largest_error(a, b):\n"
        "    return np.abs(a - b).max(axis=(1, 2, 3))\n"
        "METRICS = (Metric('largest_error', largest_error, 'standard', higher_is_better=False),)\n"
    )
    monkeypatch.setattr(leakbench.metrics, "__path__", [*leakbench.metrics.__path__, str(tmp_path)])
    table = leakbench.metrics._declared()
    assert set(table) == set(METRICS) | {"largest_error"}
    (tmp_path / "again.py").write_text("from leakbench.metrics.mse import METRICS\n")
    with pytest.raises(ImportError, match="same name"):
        leakbench.metrics._declared()


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_the_better_of_two_reconstructions_scores_better(name: str, photographs: np.ndarray) -> None:
    noise = np.random.default_rng(0).standard_normal(photographs.shape)
    # Exact is what would be stored in the same bytes, so the nearer one has less than half a level of noise.
    little = 1e-4 if name == "exact" else 0.01
    near, far = np.rint(255 * photographs) / 255 + little * noise, photographs + 0.2 * noise
    near, far = (measure([name], guess, np.rint(255 * photographs) / 255)[name] for guess in (near, far))
    better = near > far if METRICS[name].higher_is_better else near < far
    assert better.all()


def test_published_numbers_differ_from_the_standard_ones_of_like_name(photographs: np.ndarray) -> None:
    scores = measure(WITHOUT_WEIGHTS, photographs, photographs[[1, 2, 0]])
    assert list(scores) == WITHOUT_WEIGHTS
    assert all(score.shape == (3,) and score.dtype == np.float64 for score in scores.values())
    assert (scores["rmse_255"] > 100 * scores["mse"]).all()
    assert (scores["psnr_of_rmse"] > scores["psnr"] + 10).all()
    assert (scores["psnr_uint8_wrap"] > scores["psnr"] + 10).all()
