"""Peak signal-to-noise ratio, and two other numbers that were published under its name."""

import numpy as np

from leakbench.metrics.images import pair, to_uint8, undisplayable
from leakbench.metrics.metric import Metric
from leakbench.metrics.mse import mse, rmse_255


def psnr(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return 10 log10(1 / MSE) of images [N, C, H, W], peak 1, in dB, float64 [N]; inf if identical."""
    return _decibels(1.0, mse(reconstructions, truths))


def psnr_of_rmse(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return 10 log10(255² / RMSE), RMSE on 0..255: the "PSNR" of thesis Table 5.6, in dB, float64 [N].

    For one image the true PSNR is 2 × this value − 20 log10 255 (48.13 dB); for a mean over images the
    relation holds only roughly.
    """
    return _decibels(255.0**2, rmse_255(reconstructions, truths))


def psnr_uint8_wrap(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the PSNR, in dB, of two uint8 images whose difference was squared without a cast, float64 [N].

    In NumPy `(a - b) ** 2` of uint8 arrays stays uint8: the difference wraps modulo 256, and so does its
    square. The first wrap alone is harmless, since (d + 256 m)² = d² modulo 256. The wrapped *square* loses
    the size of the error. Averaged over all 256 differences the wrapped square is 105.5, so two unrelated
    images score 10 log10(255² / 105.5) = 27.90 dB whatever they show. The lowest values of thesis Tables 3.4
    and 3.16 lie there (our inference; see docs/decisions.md). The value is inf if every difference is a
    multiple of 16.
    """
    a, b = pair(reconstructions, truths)
    difference = to_uint8(a) - to_uint8(b)
    wrapped = (difference * difference).mean(axis=(1, 2, 3), dtype=np.float64)
    return np.where(undisplayable(a, b), np.nan, _decibels(255.0**2, wrapped))


def _decibels(signal: float, noise: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return 10.0 * np.log10(signal / noise)


METRICS = (
    Metric("psnr", psnr, "standard", higher_is_better=True),
    Metric("psnr_of_rmse", psnr_of_rmse, "published", higher_is_better=True),
    Metric("psnr_uint8_wrap", psnr_uint8_wrap, "published", higher_is_better=True),
)
