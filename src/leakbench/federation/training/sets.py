"""The images of a training study: what it trains on, from one data set or several, and what it tests on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from leakbench.base.artefacts import open_tensors

# Limits of the published test of word recognition: the smallest width at a height of 32, and the lengths of
# words (thesis, section 4.3.2.1; its code).
NARROWEST, SHORTEST, LONGEST = 100, 3, 25
COARSE = 4


@dataclass(frozen=True)
class Examined:
    """Images to measure a model on; `counted` are those that the published rule counts, bool [n], if any."""

    images: Tensor
    labels: Tensor
    counted: Tensor | None = None


def training_images(paths: Sequence[Path], most: int | None) -> tuple[Tensor, np.ndarray, np.ndarray | None]:
    """Return images, labels and owners (one of several sets, or a stated client) of the train splits."""
    found = [open_tensors(path)[0] for path in paths]
    images, labels = (
        np.concatenate([np.asarray(arrays[f"train/{kind}"][:most]) for arrays in found])
        for kind in ("images", "labels")
    )
    owners: np.ndarray | None
    if len(found) > 1:
        counts = [len(arrays["train/labels"][:most]) for arrays in found]
        owners = np.repeat(np.arange(len(found)), counts)
    else:
        own = found[0].get("train/clients")
        owners = None if own is None else np.array(own[:most])
    return torch.from_numpy(images), labels, owners


def told_apart(images: Tensor, owners: np.ndarray) -> float:
    """Return how well a linear classifier tells to whom images belong, in [0, 1] (thesis, Figure 4.3)."""
    # Least squares with a ridge, on grey images at a quarter of the size, and how bright and varied they are.
    grey = images.float().mean(3)
    window = [min(COARSE, side) for side in grey.shape[1:]]
    coarse = torch.nn.functional.avg_pool2d(grey[:, None], window).flatten(1)
    colours = images.float().std(3, correction=0).mean((1, 2))
    down, across = (grey.diff(dim=axis).abs().mean((1, 2)) for axis in (1, 2))
    looks = torch.stack([grey.mean((1, 2)), grey.std((1, 2), correction=0), colours, down + across], 1)
    x = torch.cat([coarse, looks], 1).double()
    x = (x - x.mean(0)) / x.std(0).clamp_min(1e-6)
    y = torch.nn.functional.one_hot(torch.from_numpy(owners)).double()
    y = y - y.mean(0)
    ridge = len(x) * torch.eye(x.shape[1], dtype=x.dtype) / 10
    right = 0
    for fitted, tested in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        weights = torch.linalg.solve(x[fitted].T @ x[fitted] + ridge, x[fitted].T @ y[fitted])
        right += int(((x[tested] @ weights).argmax(1) == torch.from_numpy(owners[tested])).sum())
    return right / len(x)


def examined(path: Path, most: int | None) -> Examined:
    """Return a data set's first test images, and which of its words the thesis counts (section 4.3.2.1)."""
    arrays, _ = open_tensors(path)
    own = {
        kind: np.array(arrays[f"test/{kind}"][:most])
        for kind in ("images", "labels", "widths", "lengths")
        if f"test/{kind}" in arrays
    }
    counted = None
    if "widths" in own:
        length = own["lengths"]
        plain = (own["labels"] >= 0).sum(1) == length
        kept = (own["widths"] >= NARROWEST) & (length >= SHORTEST) & (length <= LONGEST) & plain
        counted = torch.from_numpy(kept)
    return Examined(torch.from_numpy(own["images"]), torch.from_numpy(own["labels"]), counted)
