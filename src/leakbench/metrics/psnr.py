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

    The true PSNR of one image is twice this value less 20 log10 255 (48.13 dB).
    """
    return _decibels(255.0**2, rmse_255(reconstructions, truths))


def psnr_uint8_wrap(reconstructions: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the PSNR, in dB, of two uint8 images whose difference was squared without a cast, float64 [N].

    NumPy's difference of uint8 wraps modulo 256, which is harmless, and so does its square, which loses the
    size of the error. Over all differences the wrapped square has the mean 105.5, so unrelated images score
    10 log10(255² / 105.5) = 27.90 dB, where the lowest values of thesis Tables 3.4 and 3.16 lie (our
    inference; see docs/decisions.md). It is inf if every difference is a multiple of 16.
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
