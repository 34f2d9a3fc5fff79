"""Which trials of an attack failed: a mean over images hides them, and a share of failures shows them."""

import numpy as np
import pandas as pd

from leakbench.metrics import METRICS
from leakbench.metrics.baselines import DATASET_MEAN, SNAPSHOT

# By what a reconstruction is compared with the mean image: by the first of these that was measured.
NEARNESS = ("mse", "psnr", "ssim", "pearson")


def failed(rows: pd.DataFrame, target: str) -> np.ndarray:
    """Return which of one cell's score rows are failed trials, bool [N].

    A trial failed if nothing came of it, or if the image that an attack reconstructed is no nearer to the
    private image than the mean image of the data set is. The mean image was scored for some of the private
    images only; for another one the mean of those scores serves. What reconstructs features and not images
    (`target`), and null baselines, fail in the first way alone.
    """
    lost = (rows["status"] != "ok").to_numpy()
    means = rows[rows["baseline"] == DATASET_MEAN]
    metric = next((name for name in NEARNESS if name in rows and means[name].notna().any()), None)
    if target != "images" or metric is None:
        return lost
    image = ["client", "image"]
    of_image = means.drop_duplicates(image).set_index(image)[metric]
    reference = (
        of_image.reindex(pd.MultiIndex.from_frame(rows[image])).fillna(means[metric].mean()).to_numpy()
    )
    sign = 1 if METRICS[metric].higher_is_better else -1
    nearer = sign * rows[metric].to_numpy() > sign * reference
    return lost | (rows["baseline"].isin(["", SNAPSHOT]).to_numpy() & ~nearer)
