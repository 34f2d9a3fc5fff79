"""The convolutions under LPIPS (Zhang et al. 2018): ImageNet AlexNet and VGG16 of torchvision.

Tensors are `alex/features.N.weight` and `.bias`, `vgg/features.N.weight` and `.bias`: float32, weights
[out, in, rows, columns], N as in torchvision. The linear layers of LPIPS come with the package `lpips`.
"""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.datasets.canonical import Damaged, Found, parsing, reading
from leakbench.datasets.unpickle import read_pickle

# The package holds only these layers; the official files hold the same bytes and are twelve times its size.
_CONVOLUTIONS = {"alex": (0, 3, 6, 8, 10), "vgg": (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)}
_PICKLED = {"alex": "AlexNet_0", "vgg": "VGG16_0"}
_PATTERNS = {
    "alex": ("alexnet_features*.npz", "alexnet.ckpt", "alexnet-owt-7be5be79.pth"),
    "vgg": ("vgg16_features*.npz", "vgg16.ckpt", "vgg16-397923af.pth"),
}


def lpips_backbones(folder: Path) -> Found:
    """Read the networks that `folder` holds, both or one.

    Raises Damaged if a file is malformed or lacks a layer.
    """
    tensors: dict[str, np.ndarray] = {}
    files: dict[str, Path] = {}
    read = {".npz": _from_npz, ".ckpt": _from_pickle, ".pth": _from_torch}
    nets = []
    for net, patterns in _PATTERNS.items():
        file = next((file for pattern in patterns for file in folder.glob(pattern)), None)
        if file is None:
            continue
        nets.append(net)
        with reading(f"{net}/features.0.weight"):
            arrays = read[file.suffix](file, net)
        for layer, part in product(_CONVOLUTIONS[net], ("weight", "bias")):
            name = f"features.{layer}.{part}"
            array = arrays.get(name)
            if not isinstance(array, np.ndarray) or array.dtype != np.float32:
                raise Damaged(file, f"no float32 array {name}", f"{net}/{name}")
            tensors[f"{net}/{name}"], files[f"{net}/{name}"] = np.ascontiguousarray(array), file
    return Found(tensors, files, [], "" if len(nets) == len(_CONVOLUTIONS) else f"only {nets[0]}")


def _from_npz(file: Path, net: str) -> dict[str, np.ndarray]:
    with parsing(file, "an npz"), np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _from_pickle(file: Path, net: str) -> dict[str, np.ndarray]:
    """Read the package's nested dict Conv_K → kernel [rows, columns, in, out] and bias [out]."""
    content = read_pickle(file)
    layers = content.get(_PICKLED[net]) if isinstance(content, dict) else None
    out: dict[str, np.ndarray] = {}
    for position, layer in enumerate(_CONVOLUTIONS[net]):
        values: Any = layers.get(f"Conv_{position}") if isinstance(layers, dict) else None
        kernel = values.get("kernel") if isinstance(values, dict) else None
        if not isinstance(kernel, np.ndarray) or kernel.ndim != 4:
            raise Damaged(file, f"no kernel of convolution {position}")
        out[f"features.{layer}.weight"] = kernel.transpose(3, 2, 0, 1)
        out[f"features.{layer}.bias"] = values.get("bias")
    return out


def _from_torch(file: Path, net: str) -> dict[str, np.ndarray]:
    import torch

    with parsing(file, "a checkpoint"):
        state = torch.load(file, map_location="cpu", weights_only=True)
        return {name: value.numpy() for name, value in state.items()}
