"""The form in which every metric sees images: float [N, C, H, W] in [0, 1], channel first."""

import numpy as np


def displayed(images: np.ndarray) -> np.ndarray:
    """Return images [N, C, H, W] as float64 clamped to [0, 1]; one with NaN or Inf becomes NaN as a whole."""
    images = np.asarray(images, dtype=np.float64)
    if images.ndim != 4 or images.shape[1] not in (1, 3):
        raise ValueError(f"images have shape {images.shape}, expected [N, C, H, W] with C = 1 or 3")
    # The code of InvG clamps the images that it scores (`rec_mult`) too.
    finite = np.isfinite(images).all(axis=(1, 2, 3), keepdims=True)
    return np.where(finite, np.clip(images, 0.0, 1.0), np.nan)


def pair(reconstructions: np.ndarray, truths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both batches as `displayed` does; nothing is broadcast."""
    if np.shape(reconstructions) != np.shape(truths):
        raise ValueError(f"reconstructions have shape {np.shape(reconstructions)}, truths {np.shape(truths)}")
    return displayed(reconstructions), displayed(truths)


def undisplayable(*batches: np.ndarray) -> np.ndarray:
    """Return the rows in which any of the batches from `displayed` holds no image (NaN), bool [N]."""
    return np.any([np.isnan(batch).any(axis=(1, 2, 3)) for batch in batches], axis=0)


def to_uint8(images: np.ndarray) -> np.ndarray:
    """Return images in [0, 1] as uint8, rounded to the nearest level as saving a file does; NaN becomes 0."""
    return np.rint(np.nan_to_num(np.clip(images, 0.0, 1.0)) * 255.0).astype(np.uint8)
