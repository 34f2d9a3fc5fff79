"""Observations for the gradient-matching attacks: photographs behind a small network's gradients."""

from pathlib import Path
from typing import Any

import numpy as np
import skimage.data
import torch
import yaml
from observing import seen_of, sent_by
from skimage.transform import resize
from torch import Tensor

from leakbench import attacks
from leakbench.attacks.matching.terms import Weights
from leakbench.base.parts import SECTIONS
from leakbench.catalogue.sections import as_parts
from leakbench.networks import victims
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

ROOT = Path(__file__).parents[3]
LEVEL = {"lr": 1.0, "batch_size": None, "epochs": 1}
# The sections and parameters of an attack, side by side (`entry`).
BOXED = {"dummies": {"boxed": True}}
QUICK: dict[str, Any] = {
    "objective": "cosine", "unknowns": BOXED, "optimiser": {"adam": {"lr": 0.1, "signed": True}},
    "iterations": 4,
}  # fmt: skip


# Weight one for every layer.
EQUAL = Weights(lambda group: lambda seen: {name: torch.ones(len(value)) for name, value in seen.items()})


def photographs(count: int, size: int) -> Tensor:
    """Return squares cut out of one photograph: float32 [count, 3, size, size] in [0, 1]."""
    whole = resize(skimage.data.astronaut(), (4 * size, 4 * size), anti_aliasing=True)
    squares = [
        whole[r * size : (r + 1) * size, c * size : (c + 1) * size] for r in range(4) for c in range(4)
    ]
    return torch.from_numpy(np.stack(squares[:count])).permute(0, 3, 1, 2).float()


def observe(
    images: Tensor, labels: Tensor, victim: str = "lenet-dlg", parameters: dict[str, Any] | None = None,
    kind: str = "gradient", local: dict[str, Any] = LEVEL, classes: int = 10, seed: int = 0,
) -> Observation:  # fmt: skip
    """Return what the server saw of one client with images [rounds, k, …] and given labels."""
    torch.manual_seed(seed)
    shape = (images.shape[3], images.shape[4], images.shape[2])
    model = victims.build(victim, shape, classes, parameters or {}).eval()
    update = sent_by(model, images, labels, kind, local)
    network = {"module": victim, "parameters": parameters or {}, "shape": shape, "classes": classes}
    known = {"local": dict(local), "labelling": "oracle", "labels": [labels.numpy()]}
    return seen_of(model, network, update, images.shape[1], kind=kind, **known)


def small(rounds: int = 2, k: int = 1, **options: Any) -> Observation:
    labels = (torch.arange(rounds * k) % options.get("classes", 10)).view(rounds, k)
    return observe(photographs(rounds * k, 8).unflatten(0, (rounds, k)), labels, **options)


def entry(adaptive: bool = False, module: str = "gradient-matching", **values: Any) -> dict[str, Any]:
    """Return an attack's entry; what is no section among `values` is a parameter."""
    sections = {key: as_parts(values[key]) for key in SECTIONS if key in values}
    parameters = {key: value for key, value in values.items() if key not in SECTIONS}
    return {"module": module, "adaptive": adaptive, **sections, "parameters": parameters}


def run(observation: Observation, seed: int = 0, **values: Any) -> Reconstruction:
    return attacks.run(entry(**values), observation, torch.Generator().manual_seed(seed))


def psnr(found: Tensor, truth: Tensor) -> list[float]:
    return (-10 * torch.log10((found - truth).square().flatten(1).mean(1))).tolist()


def configured(name: str) -> dict[str, Any]:
    """Return sections and parameters of an attack as its catalogue file has them."""
    value = yaml.safe_load((ROOT / "config" / "attacks" / f"{name}.yaml").read_text())
    return {key: value[key] for key in SECTIONS if key in value} | value["parameters"]
