"""DLF as a whole: on a small client it finds the images that the one-batch reading does not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from observing import seen_of, sent_by
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from leakbench import attacks
from leakbench.catalogue.load import load_kind
from leakbench.networks import victims
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

ROOT = Path(__file__).parents[4]
SHAPE, CLASSES, N, EPOCHS, SIZE, LR = (8, 8, 1), 10, 4, 2, 2, 0.5
WIDTH = {"hidden": [64]}
LOCAL = {"lr": LR, "batch_size": SIZE, "epochs": EPOCHS}


def client() -> tuple[Observation, Tensor]:
    """Return what a client sends that takes two steps on its four images, shuffles them, and takes two more.

    With it the images.
    """
    torch.manual_seed(1)
    model = victims.build("mlp", SHAPE, CLASSES, WIDTH)
    images = torch.rand(1, N, 1, 2, 2).repeat_interleave(4, 3).repeat_interleave(4, 4)
    orders = torch.tensor([[[2, 0, 3, 1]], [[1, 2, 0, 3]]])
    sent = sent_by(model, images, torch.tensor([[3, 1, 7, 5]]), "model", LOCAL, orders=orders)
    network = {"module": "mlp", "parameters": WIDTH, "shape": SHAPE}
    observation = seen_of(model, network, sent, N, kind="model", local=LOCAL, labelling="row-minimum")
    return observation, images[0]


def attacked(observation: Observation, name: str, **parameters: Any) -> Reconstruction:
    """Return what an entry of the catalogue reconstructs, with other parameters."""
    entry = load_kind(ROOT / "config", "attacks")[name].model_dump()
    return attacks.run(
        entry | {"parameters": entry["parameters"] | parameters},
        observation,
        torch.Generator().manual_seed(2),
    )


def psnr(found: Tensor, truth: Tensor) -> float:
    """Return the mean PSNR of images paired as well as can be."""
    errors = (found[:, None] - truth[None]).square().flatten(2).mean(2).clamp_min(1e-12)
    values = -10 * errors.log10().numpy()
    return float(values[linear_sum_assignment(-values)].mean())


@pytest.mark.nightly
def test_it_finds_what_one_batch_does_not() -> None:
    observation, truth = client()
    noise = observation.randomised(1, torch.Generator().manual_seed(3))
    found, one_batch, null = (
        attacked(seen, name, iterations=200)
        for seen, name in ((observation, "dlf"), (observation, "dlf-none"), (noise, "dlf"))
    )
    assert sorted(found.labels[0, 0].tolist()) == [1, 3, 5, 7]
    own, other, by_chance = (psnr(each.images[0, 0], truth) for each in (found, one_batch, null))
    assert own > other + 2
    assert own > by_chance + 3
    assert own > psnr(truth.mean(0, keepdim=True).expand_as(truth), truth) + 1
