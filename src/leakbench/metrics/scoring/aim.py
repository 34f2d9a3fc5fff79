"""What an attack aims at: the pixels of private images, or the features that a dense layer reads of them."""

from pathlib import Path

import numpy as np

from leakbench.base.pixels import pixels


def aim_at(target: str, images: np.ndarray, victim: Path) -> np.ndarray:
    """Return what an attack on images or on features aims at, float32 [m, …]."""
    seen = pixels(images)
    if target == "images":
        return seen
    import torch

    from leakbench.networks.layers import dense_input
    from leakbench.networks.victims.file import load_victim

    model, _ = load_victim(victim)
    found: np.ndarray = dense_input(model, torch.from_numpy(seen)).numpy()
    return found
