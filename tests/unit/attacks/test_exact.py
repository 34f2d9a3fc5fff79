"""Exact attacks: peeling and SPEAR recover batches from gradients in single precision, and prove them."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from observations import observe
from torch import Tensor, nn

from leakbench.attacks import run
from leakbench.base.errors import Unfit
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

SHAPE = (8, 8, 3)
HALF = {"hidden": [300, 40], "normalise": "half"}
RAW = {"hidden": [600]}


def attacked(module: str, observation: Observation, **parameters: Any) -> Reconstruction:
    return run({"module": module, "parameters": parameters}, observation, torch.Generator().manual_seed(0))


def recovered(found: Reconstruction, images: Tensor) -> tuple[int, int]:
    """Return how many images were found and how many usable candidates are none of them."""
    hits = false = 0
    for number, truth in enumerate(images):
        own = found.images[number, 0][found.usable[number, 0]].flatten(1)
        distance = torch.cdist(own.double(), truth.flatten(1).double()) / truth[0].numel() ** 0.5
        right = distance < 1e-3
        hits += int(right.any(0).sum())
        false += int((~right.any(1)).sum())
    return hits, false


@pytest.mark.parametrize(
    ("module", "parameters", "network"),
    [("spear", {}, HALF), ("peel", {}, RAW), ("spear", {"peel": True}, HALF)],
)
@pytest.mark.parametrize("batch", [1, 2, 6])
def test_batches_come_back_in_every_digit(
    module: str, parameters: dict[str, Any], network: dict[str, Any], batch: int
) -> None:
    observation, images = observe("mlp", SHAPE, batch, 3, **network)
    found = attacked(module, observation, **parameters)
    hits, false = recovered(found, images)
    assert (hits, false) == (3 * batch, 0)
    assert found.images.isfinite().all()


def test_draws_solve_a_network_with_one_hidden_layer() -> None:
    observation, images = observe("mlp", SHAPE, 10, 1, hidden=[300], normalise="half")
    assert recovered(attacked("spear", observation, search="drawn", patience=40), images) == (10, 0)


def test_labels_come_with_the_proof() -> None:
    observation, images = observe("mlp", SHAPE, 6, 2, **HALF)
    torch.manual_seed(0)
    found = attacked("spear", observation)
    model = observation.model()
    # The labels are those with which the found images cause the gradient that was observed.
    for number in range(2):
        model.zero_grad()
        pixels = found.images[number, 0]
        torch.nn.functional.cross_entropy(model(pixels), found.labels[number, 0]).backward()
        for name, parameter in model.named_parameters():
            seen = observation.update(name)[number, 0]
            assert (parameter.grad - seen).norm() < 1e-4 * seen.norm(), name
    assert recovered(found, images)[0] == 12


def test_noise_proves_nothing() -> None:
    observation, _ = observe("mlp", SHAPE, 6, 3, **HALF)
    noise = observation.randomised(3, torch.Generator().manual_seed(1))
    for module in ("peel", "spear"):
        assert not attacked(module, noise).usable.any(), module


def test_eight_bits_mend_single_precision() -> None:
    observation, images = observe("mlp", SHAPE, 12, 1, **RAW)
    plain = attacked("peel", observation)
    # Random pixels are not of 8 bits, so that rounding them proves nothing.
    rounded = attacked("peel", observation, levels=255)
    assert recovered(plain, images)[0] > recovered(rounded, images)[0]


def of_several_steps() -> Observation:
    observation, _ = observe("mlp", SHAPE, 4, 1, kind="model", **HALF)
    return replace(observation, local={"lr": 0.01, "batch_size": 2, "epochs": 1})


def normed_behind() -> Observation:
    """Return an observation of a network with a batch norm behind its first layer."""
    observation, _ = observe("mlp", SHAPE, 4, 1, **HALF)
    mixed = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 300), nn.BatchNorm1d(300), nn.ReLU(), nn.Linear(300, 10)
    )
    sent = {name: value.numpy()[None] for name, value in mixed.state_dict().items()}
    updates = {f"1.{part}": observation.update(f"network.dense1.{part}") for part in ("weight", "bias")}
    return replace(observation, own=mixed, weights=sent, updates=updates, mode="train")


@pytest.mark.parametrize(
    ("seen", "module", "says"),
    [(lambda: observe("lenet-dlg", SHAPE, 2, 1)[0], "peel", "dense"),
     (of_several_steps, "spear", "several steps"), (normed_behind, "spear", "see each other")],
)  # fmt: skip
def test_what_no_attack_can_be_exact_on_is_refused_in_one_line(seen: Any, module: str, says: str) -> None:
    with pytest.raises(Unfit, match=says):
        attacked(module, seen())


def test_a_batch_behind_dropout_comes_back() -> None:
    """No label can be told, for what the network behind made of the samples is hidden."""
    observation, images = observe("fcnn", (14, 14, 1), 5, 2, dropout=0.5, width=300)
    for module, parameters in (("peel", {}), ("spear", {"search": "drawn"})):
        found = attacked(module, observation, **parameters)
        assert recovered(found, images) == (10, 0), module
        assert (found.agreement > 0.999).all(), module
        assert (found.labels == -1).all()


def test_double_precision_is_attacked_in_double_precision() -> None:
    observation, images = observe("mlp", SHAPE, 6, 1, precision="float64", **RAW)
    assert observation.updates["network.dense1.weight"].dtype == "float64"
    found = attacked("peel", observation)
    apart = torch.cdist(found.images[0, 0].flatten(1).double(), images[0].flatten(1).double())
    assert float(apart.amin(0).max()) < 1e-5


def test_a_batch_of_a_third_of_the_inputs_comes_back() -> None:
    """A draw would be right with a probability of 2 to the power of -63."""
    observation, images = observe("mlp", SHAPE, 64, 1, hidden=[700, 100, 40], normalise="half")
    found = attacked("spear", observation)
    assert recovered(found, images) == (64, 0)
    assert found.agreement.item() > 0.999


@pytest.mark.parametrize("module", ["spear", "peel"])
def test_pixels_that_their_own_batch_normalises_come_back(module: str) -> None:
    """The server knows neither mean nor deviation; the levels of 8 bits tell both."""
    network = {"hidden": [900, 100, 40], "normalise": "batch"}
    observation, images = observe("mlp", SHAPE, 6, 2, levels=255, **network)
    assert observation.mode == "train"
    found = attacked(module, observation)
    hits, false = recovered(found, images)
    assert false == 0
    assert hits == 12 if module == "spear" else hits > 0
    with pytest.raises(Unfit, match="leave levels out"):
        attacked("peel", observation, levels=255)
