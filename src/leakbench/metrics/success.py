"""How many images are at least as good as a threshold: the success rate of thesis Figure 3.5."""

import math

import numpy as np

# Thresholds are normalised, 0 to 1. MSE of images in [0, 1] and SSIM are normalised already. A PSNR is
# divided by that of an error of one 8-bit level everywhere (48.13 dB), beyond which no file of 8 bits shows a
# difference.
THRESHOLDS = tuple(step / 20 for step in range(21))
ONE_LEVEL = 20.0 * math.log10(255.0)
FULL = {"psnr": ONE_LEVEL, "ssim": 1.0, "mse": 1.0}
LOWER_IS_BETTER = {"mse"}
PREFIX = "success_"


def successes(values: np.ndarray, failures: np.ndarray, metric: str) -> np.ndarray:
    """Return whether each image is at least as good as each of THRESHOLDS, bool [21, N]."""
    if metric not in FULL:
        raise ValueError(f"no threshold is normalised for {metric} (there are {', '.join(FULL)})")
    values = np.ravel(np.asarray(values, dtype=np.float64))
    failures = np.ravel(np.asarray(failures, dtype=bool))
    if values.shape != failures.shape:
        raise ValueError(f"{values.size} values but {failures.size} failures")
    share, limits = values / FULL[metric], np.array(THRESHOLDS)[:, None]
    good = share <= limits if metric in LOWER_IS_BETTER else share >= limits
    return good & ~failures
