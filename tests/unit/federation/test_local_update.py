"""Batched local training against plain autograd and SGD, one client and one sample at a time, in float64."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from leakbench.defences import Batch
from leakbench.federation.local import local_update
from leakbench.networks import victims
from leakbench.networks.layers import draw_masks

ROUNDS, K, CLASSES = 3, 5, 4
# The targets of each class.
TABLE = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]).double() / 4
SHAPES = {"fcnn": (5, 4, 2), "cnn": (8, 7, 2)}


def local(lr: float, size: int | None = None, epochs: int = 1) -> dict[str, Any]:
    return {"lr": lr, "batch_size": size, "epochs": epochs}


def client(
    module: str, dropout: float, activation: str = "relu", epochs: int = 1
) -> tuple[nn.Module, dict[str, Tensor], Tensor, Tensor, dict[str, Tensor]]:
    """Return a float64 victim, its weights, and images, labels and masks of three rounds of five."""
    torch.manual_seed(0)
    rows, columns, channels = SHAPES[module]
    model = victims.build(
        module, SHAPES[module], CLASSES, {"dropout": dropout, "activation": activation}
    ).double()
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    images = torch.rand(ROUNDS, K, channels, rows, columns, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (ROUNDS, K))
    masks = draw_masks(model, (epochs, ROUNDS, K), torch.Generator().manual_seed(1))
    return model, weights, images, labels, {name: mask.double() for name, mask in masks.items()}


def mean_gradient(model: nn.Module, images: Tensor, labels: Tensor, keep: Tensor | None) -> dict[str, Tensor]:
    """Return the gradient of the mean loss as the mean of one-sample gradients."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for sample in range(len(images)):
        if keep is not None:
            model.get_submodule("dropout").keep = keep[sample]
        model.zero_grad()
        cross_entropy(model(images[sample : sample + 1]), labels[sample : sample + 1]).backward()
        for name, p in model.named_parameters():
            total[name] += p.grad / len(images)
    return total


def one_at_a_time(
    model: nn.Module, weights: dict[str, Tensor], images: Tensor, labels: Tensor, masks: dict[str, Tensor],
    size: int, epochs: int,
) -> dict[str, Tensor]:  # fmt: skip
    """Return new minus old weights of each round, trained one after the other with torch's own SGD."""
    updates: dict[str, list[Tensor]] = {name: [] for name in weights}
    for turn in range(len(images)):
        model.load_state_dict(weights)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
        for epoch in range(epochs):
            for begin in range(0, images.shape[1], size):
                part = slice(begin, begin + size)
                keep = masks["dropout.keep"][epoch, turn, part] if masks else None
                gradient = mean_gradient(model, images[turn, part], labels[turn, part], keep)
                for name, p in model.named_parameters():
                    p.grad = gradient[name]
                optimiser.step()
        for name, p in model.named_parameters():
            updates[name].append(p.detach() - weights[name])
    return {name: torch.stack(values) for name, values in updates.items()}


@pytest.mark.parametrize("module", ["fcnn", "cnn"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
# Five samples in batches of two: the last one is short.
@pytest.mark.parametrize(("size", "epochs"), [(None, 1), (2, 1), (None, 3), (2, 3), (50, 2), (1, 1)])
def test_batched_training_is_that_alone(module: str, dropout: float, size: int | None, epochs: int) -> None:
    model, weights, images, labels, masks = client(module, dropout, epochs=epochs)
    sent = {name: value.clone() for name, value in weights.items()}
    found = local_update(model, weights, images, labels, masks, local(0.3, size, epochs), "model")
    slopes = local_update(model, weights, images, labels, masks, local(0.3, size, epochs), "gradient")
    expected = one_at_a_time(model, sent, images, labels, masks, size or K, epochs)
    first = one_at_a_time(model, sent, images, labels, masks, K, 1)
    assert set(found) == set(expected)
    for name in expected:
        assert found[name].shape == (ROUNDS, *weights[name].shape)
        torch.testing.assert_close(found[name], expected[name], rtol=1e-9, atol=1e-14)
        # A gradient is that of one step on all samples.
        torch.testing.assert_close(-0.3 * slopes[name], first[name], rtol=1e-9, atol=1e-14)
        assert expected[name].abs().max() > 1e-4
        assert torch.equal(weights[name], sent[name])


def test_an_update_is_a_difference_of_float32_weights() -> None:
    model, weights, images, labels, masks = client("fcnn", 0.5)
    single, kept = ({name: value.float() for name, value in each.items()} for each in (weights, masks))
    sent = local_update(model.float(), single, images.float(), labels, kept, local(0.25), "model")
    for name, value in single.items():
        assert torch.equal((value + sent[name]) - value, sent[name])


def test_each_epoch_takes_the_samples_in_its_own_order() -> None:
    """Two epochs are two trainings of one, each on the samples as its order has them."""
    model, weights, images, labels, masks = client("fcnn", 0.0)
    orders = torch.stack([torch.stack([torch.randperm(K) for _ in range(ROUNDS)]) for _ in range(2)])
    found = local_update(model, weights, images, labels, masks, local(0.3, 2, 2), "model", orders=orders)
    for turn in range(ROUNDS):
        now = weights
        for order in orders[:, turn]:
            own = images[turn, order][None], labels[turn, order][None]
            step = local_update(model, now, *own, {}, local(0.3, 2), "model")
            now = {name: value + step[name][0] for name, value in now.items()}
        for name, value in now.items():
            torch.testing.assert_close(found[name][turn], value - weights[name], rtol=1e-9, atol=1e-14)
    plain = local_update(model, weights, images, labels, masks, local(0.3, 2, 2), "model")
    assert not torch.allclose(found["dense1.weight"], plain["dense1.weight"], rtol=1e-3)


@pytest.mark.parametrize(
    ("name", "loss"),
    {
        "smoothed": torch.nn.CrossEntropyLoss(label_smoothing=0.1),
        "weighted": torch.nn.CrossEntropyLoss(torch.arange(1.0, 5.0).double()),
        "multi-label": lambda z, y: torch.nn.BCEWithLogitsLoss()(z, 1.0 * (TABLE[y] >= 0.5)),
        "regression": lambda z, y: torch.nn.MSELoss()(z, TABLE[y]),
    }.items(),
)
def test_losses_are_those_of_torch(name: str, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    model = torch.nn.Linear(3, 4).double()
    images, labels = torch.rand(2, 5, 3, dtype=torch.float64), torch.randint(0, 4, (2, 5))
    weights = {name: value.detach() for name, value in model.named_parameters()}
    given = model, weights, images, labels, {}, local(0.1) | {"loss": name}, "gradient"
    for found, number in product((local_update(*given), local_update(*given, examples=Batch.mean)), (0, 1)):
        model.zero_grad()
        loss(model(images[number]), labels[number]).backward()
        assert torch.allclose(found["weight"][number], model.weight.grad, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "decay", "make"),
    [("adamw", 0.3, partial(torch.optim.AdamW, lr=0.1, weight_decay=0.3)),
     ("momentum", 0.0, partial(torch.optim.SGD, lr=0.1, momentum=0.9))],
)  # fmt: skip
def test_optimisers_are_torchs(name: str, decay: float, make: Callable[..., torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 4).double()
    images, labels = torch.rand(2, 5, 3, dtype=torch.float64), torch.randint(0, 4, (2, 5))
    weights = {name: value.detach().clone() for name, value in model.named_parameters()}
    how = local(0.1, 2, 3) | {"weight_decay": decay, "optimiser": name}
    found = local_update(model, weights, images, labels, {}, how, "model")
    for number in range(2):
        model.load_state_dict(weights)
        optimiser = make(model.parameters())
        for _ in range(3):
            for x, y in zip(images[number].split(2), labels[number].split(2), strict=True):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimiser.step()
        for weight, value in model.named_parameters():
            assert torch.allclose(found[weight][number], value.detach() - weights[weight], atol=1e-12)
