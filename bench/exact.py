"""Exact attacks: the seconds of one core for an update, beside Fidel and gradient matching.

All attacks read the same update. Peeling reconstructs 64 CIFAR-10 images and SPEAR 32, both from gradients of
1,000 neurons in single precision. InvG runs for as many iterations as take the exact attack's seconds.
"""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from bench.ceiling import Ceiling
from bench.matching import photographs
from bench.measure import Row, Side, compare
from leakbench import attacks
from leakbench.networks import victims
from leakbench.observations.observation import Observation

SHAPE, CLASSES = (32, 32, 3), 10
WORK: dict[str, dict[str, Any]] = {
    "peel": {"batch": 64, "network": {}},
    "spear": {"batch": 32, "network": {"hidden": [1000, 200, 200, 200, 200], "normalise": "cifar10"}},
}
INVG = {
    "module": "gradient-matching",
    "objective": {"cosine": {}},
    "unknowns": {"dummies": {"boxed": True}},
    "optimiser": {"adam": {"lr": 0.1, "signed": True, "decay": True}},
}


def setting(batch: int, network: dict[str, Any], small: bool = False) -> Observation:
    """Return what a server sees of one client with `batch` test images; only InvG uses the labels in it.

    batch: the number of images.
    network: the parameters of the victim `mlp`.
    small: whether the images are noise.
    """
    images, classes = photographs(batch, small)
    labels = classes.numpy()
    torch.manual_seed(0)
    model = victims.build("mlp", SHAPE, CLASSES, network)
    named = dict(model.named_parameters())
    loss = cross_entropy(model(images), classes)
    gradients = torch.autograd.grad(loss, list(named.values()))
    return Observation(
        network={"module": "mlp", "parameters": network, "shape": list(SHAPE), "classes": CLASSES},
        weights={name: value.detach().numpy()[None] for name, value in named.items()},
        updates={name: value.numpy()[None, None] for name, value in zip(named, gradients, strict=True)},
        origin=np.zeros(1, np.int64), clients=[batch], kind="gradient", labelling="oracle",
        labels=[labels[None]],
    )  # fmt: skip


def _run(observation: Observation, entry: dict[str, Any]) -> object:
    return attacks.run(entry, observation, torch.Generator().manual_seed(0))


def _seconds(observation: Observation, entry: dict[str, Any]) -> float:
    start = time.perf_counter()
    _run(observation, entry)
    return time.perf_counter() - start


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield the bench's rows for both exact attacks.

    ceiling: not used.
    small: whether to take a tiny batch, to see that the comparison works.
    """
    cores = torch.get_num_threads()
    torch.set_num_threads(1)
    for module, work in WORK.items():
        batch = 8 if small else work["batch"]
        seen = setting(batch, work["network"], small)
        exact = {"module": module, "parameters": {}}
        few = 1 if small else 20
        step = _seconds(seen, INVG | {"parameters": {"iterations": few}}) / few
        steps = 1 if small else max(2, round(_seconds(seen, exact) / step))
        attack = partial(_run, seen)
        yield from compare(
            module,
            f"{module}: one update of {batch} CIFAR-10 images, 1,000 neurons, one core",
            "seconds per update",
            Side("ours", partial(attack, exact), 1),
            [
                Side("Fidel", partial(attack, {"module": "fidel", "parameters": {}}), 1),
                Side(
                    f"InvG, {steps} iterations",
                    partial(attack, INVG | {"parameters": {"iterations": steps}}),
                    1,
                ),
            ],
            small=small,
        )
    torch.set_num_threads(cores)
