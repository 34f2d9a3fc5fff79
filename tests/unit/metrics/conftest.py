"""Real images and, where a machine has them, the real LPIPS backbones."""

import os
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from safetensors.numpy import load_file
from skimage.transform import resize

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def photographs() -> np.ndarray:
    """Three unrelated photographs from scikit-image: float64 [3, 3, 64, 64] in [0, 1], of 256 levels."""
    pictures = (skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee())
    small = np.stack([resize(picture, (64, 64), anti_aliasing=True) for picture in pictures])
    return np.rint(np.moveaxis(small, -1, 1) * 255) / 255


@pytest.fixture(scope="session")
def real_backbones() -> dict[str, np.ndarray]:
    """What this machine has of the ImageNet backbones, named as in data/lpips-backbones.safetensors."""
    folders = [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]
    for folder in (ROOT / "data", *folders):
        if (folder / "lpips-backbones.safetensors").is_file():
            return load_file(folder / "lpips-backbones.safetensors")
    for folder in folders:
        if (folder / "lpips/alexnet_features_lpips.npz").is_file():
            with np.load(folder / "lpips/alexnet_features_lpips.npz") as arrays:
                return {f"alex/{name}": arrays[name] for name in arrays.files if name.startswith("features")}
    return {}
