"""PRECODE's bottleneck: what it draws, and the divergence whose gradient it brings."""

import math
from typing import Any

import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, softplus

from leakbench.networks import victims
from leakbench.networks.layers import draw_masks
from leakbench.networks.victims.precode import Bottleneck, _Divergence

SHAPE = (8, 8, 1)


def made(weight: float = 0.5, width: int = 6) -> tuple[Bottleneck, torch.Tensor]:
    torch.manual_seed(0)
    return Bottleneck(5, width, weight), torch.randn(4, 5)


def test_without_noise_the_means_are_decoded() -> None:
    layer, x = made()
    mean = layer.encoder(x)[:, :6]
    torch.testing.assert_close(layer(x), layer.decoder(mean))


def test_noise_that_is_handed_in_is_scaled_by_the_deviations() -> None:
    layer, x = made()
    layer.keep = layer.draw((4,), torch.Generator().manual_seed(1))
    mean, raw = layer.encoder(x).chunk(2, 1)
    torch.testing.assert_close(layer(x), layer.decoder(mean + softplus(raw) * layer.keep))


def as_written_out(weight: float) -> None:
    """Hold what the layer brings to the authors' loss, written out."""
    layer, x = made(weight)
    layer.keep = layer.draw((4,), torch.Generator().manual_seed(1))
    (layer(x) ** 2).mean().backward()
    found = {name: value.grad.clone() for name, value in layer.named_parameters() if value.grad is not None}
    layer.zero_grad()
    mean, raw = layer.encoder(x).chunk(2, 1)
    deviation = softplus(raw)
    divergence = -0.5 * (1 + 2 * deviation.log() - mean**2 - deviation**2).sum(1).mean() / math.log(2)
    ((layer.decoder(mean + deviation * layer.keep) ** 2).mean() + weight * divergence).backward()
    for name, value in layer.named_parameters():
        torch.testing.assert_close(found[name], value.grad)


@pytest.mark.parametrize("weight", [0.0, 1e-3, 0.5])
def test_the_gradient_is_that_of_the_loss_and_the_divergence(weight: float) -> None:
    as_written_out(weight)


def test_clients_at_once_have_the_gradients_of_clients_alone() -> None:
    model = victims.build("precode", SHAPE, 3, {}).eval()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    rng = torch.Generator().manual_seed(0)
    masks = draw_masks(model, (2, 4), rng)
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {"bottleneck.keep": (2, 4, 256)}
    images, labels = torch.rand(2, 4, 1, 8, 8), torch.tensor([[0, 1, 2, 0], [1, 1, 2, 2]])

    def loss(
        parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, keep: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        return cross_entropy(functional_call(model, {**parameters, **keep}, (x,)), y)

    together = vmap(grad(loss), in_dims=(None, 0, 0, 0))(weights, images, labels, masks)
    for client in range(2):
        own = {name: mask[client] for name, mask in masks.items()}
        alone = grad(loss)(weights, images[client], labels[client], own)
        for name, value in alone.items():
            torch.testing.assert_close(together[name][client], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("network", "reads"), [("mlp", 1024), ("lenet-dlg", 48)])
def test_the_bottleneck_stands_before_the_last_layer(network: str, reads: int) -> None:
    model = victims.build("precode", SHAPE, 3, {"network": network})
    *_, bottleneck, last = model.children()
    assert bottleneck.encoder.in_features == bottleneck.decoder.out_features == reads
    assert last.out_features == 3
    assert model.eval()(torch.rand(2, 1, 8, 8)).shape == (2, 3)


def slope_of_slopes(written: bool) -> torch.Tensor:
    """Return the derivative in the input of the squared gradient of the encoder's weights.

    written: whether the divergence is written out in the loss, and the layer brings none.
    """
    layer, x = made(0.0 if written else 0.5)
    x.requires_grad_(True)
    loss = (layer(x) ** 2).mean()
    if written:
        mean, raw = layer.encoder(x).chunk(2, 1)
        deviation = softplus(raw)
        divergence = -0.5 * (1 + 2 * deviation.log() - mean**2 - deviation**2).sum(1).mean() / math.log(2)
        loss = loss + 0.5 * divergence
    first = torch.autograd.grad(loss, list(layer.encoder.parameters()), create_graph=True)
    (second,) = torch.autograd.grad(sum((value.square().sum() for value in first), torch.zeros(())), x)
    return second


def test_the_divergence_s_gradient_has_the_gradient_of_what_is_written_out() -> None:
    torch.testing.assert_close(slope_of_slopes(False), slope_of_slopes(True))


def test_a_divergence_that_enters_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test of the gradient's gradient: each pass adds the divergence's gradient."""

    def twice(ctx: Any, of_mean: torch.Tensor, of_deviation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, deviation = ctx.saved_tensors
        scale = ctx.weight / (math.log(2) * len(mean))
        return of_mean + scale * mean, of_deviation + scale * (deviation - 1 / deviation), None

    monkeypatch.setattr(_Divergence, "backward", staticmethod(twice))
    with pytest.raises(AssertionError):
        torch.testing.assert_close(slope_of_slopes(False), slope_of_slopes(True))


def test_a_divergence_of_another_sign_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the test of the gradient: 1/d with another sign."""

    def turned(ctx: Any, of_mean: torch.Tensor, of_deviation: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, deviation = ctx.saved_tensors
        scale = ctx.weight / (math.log(2) * len(mean))
        return of_mean + scale * mean, of_deviation + scale * (deviation + 1 / deviation), None

    monkeypatch.setattr(_Divergence, "backward", staticmethod(turned))
    with pytest.raises(AssertionError):
        as_written_out(0.5)
