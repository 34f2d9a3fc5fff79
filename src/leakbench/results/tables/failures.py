"""Which trials of an attack failed: a mean over images hides failures, and a share of failures shows them."""

import numpy as np
import pandas as pd

from leakbench.metrics import METRICS
from leakbench.metrics.baselines import DATASET_MEAN, SNAPSHOT

# The metrics by which a reconstruction is compared with the mean image; the first that was measured is used.
NEARNESS = ("mse", "psnr", "ssim", "pearson")


def failed(rows: pd.DataFrame, target: str) -> np.ndarray:
    """Return which score rows of one cell are failed trials, bool [N]."""
    # A trial failed if it gave nothing, or if the reconstructed image is no nearer to the private image than
    # the data set's mean image is. Null baselines, and attacks that reconstruct features, fail in the first
    # way alone.
    lost = (rows["status"] != "ok").to_numpy()
    means = rows[rows["baseline"] == DATASET_MEAN]
    metric = next((name for name in NEARNESS if name in rows and means[name].notna().any()), None)
    if target != "images" or metric is None:
        return lost
    image = ["client", "image"]
    # The mean image was scored for some of the private images only; for others the mean of the scores serves.
    of_image = means.drop_duplicates(image).set_index(image)[metric]
    reference = of_image.reindex(pd.MultiIndex.from_frame(rows[image])).fillna(means[metric].mean())
    sign = 1 if METRICS[metric].higher_is_better else -1
    nearer = sign * rows[metric].to_numpy() > sign * reference.to_numpy()
    return lost | (rows["baseline"].isin(["", SNAPSHOT]).to_numpy() & ~nearer)
