"""The published weights of BigGAN-deep at 256×256 (Brock et al. 2019), as converted from TF Hub to torch.

The reader divides the spectral norm out of the weights. Of the statistics of batch norm for 51 truncations
it keeps the last, which are those without truncation.
"""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Found, parsing

_NAMES = ("biggan-deep-256-pytorch_model.bin", "pytorch_model.bin")
_STATISTICS = {"running_means": "running_mean", "running_vars": "running_var"}


def folded(state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the weights that a generator uses when it is not trained, under its own names."""
    out = {}
    for name, value in state.items():
        layer, _, kind = name.removeprefix("generator.").rpartition(".")
        stem = name.removesuffix("_orig")
        if kind in ("weight_u", "weight_v"):
            continue
        if kind == "weight_orig":
            # The spectral norm of a matrix is u·Wv, with the vectors that the training left.
            norm = state[f"{stem}_u"] @ value.reshape(len(value), -1) @ state[f"{stem}_v"]
            kind, value = "weight", value / norm
        elif kind in _STATISTICS:
            kind, value = _STATISTICS[kind], value[-1]
        out[f"{layer}.{kind}"] = np.ascontiguousarray(value, np.float32)
    return out


def biggan_deep_256(folder: Path) -> Found:
    """Read the weights, float32 under the names of `generators.biggan_deep`.

    Raises Damaged if the file is malformed.
    """
    import torch

    file = next(folder / name for name in _NAMES if (folder / name).is_file())
    with parsing(file, "a checkpoint"):
        state = torch.load(file, map_location="cpu", weights_only=True)
        tensors = folded({name: value.numpy() for name, value in state.items()})
    return Found(tensors, dict.fromkeys(tensors, file), [])
