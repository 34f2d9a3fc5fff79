"""PRECODE's bottleneck: what it draws, and the divergence whose gradient it brings."""

import math

import pytest
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy, softplus

from leakbench.networks import victims
from leakbench.networks.layers import draw_masks
from leakbench.networks.victims.precode import Bottleneck

SHAPE = (8, 8, 1)


def made(weight: float = 0.5, width: int = 6) -> tuple[Bottleneck, torch.Tensor]:
    torch.manual_seed(0)
    return Bottleneck(5, width, weight), torch.randn(4, 5)


def test_noise_that_is_handed_in_is_scaled_by_the_deviations() -> None:
    layer, x = made()
    mean, raw = layer.encoder(x).chunk(2, 1)
    # Without noise the means are decoded.
    torch.testing.assert_close(layer(x), layer.decoder(mean))
    layer.keep = layer.draw((4,), torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(x), layer.decoder(mean + softplus(raw) * layer.keep))


def divergence_of(layer: Bottleneck, x: torch.Tensor) -> torch.Tensor:
    """Return the divergence of the authors' loss, written out."""
    mean, raw = layer.encoder(x).chunk(2, 1)
    deviation = softplus(raw)
    return -0.5 * (1 + 2 * deviation.log() - mean**2 - deviation**2).sum(1).mean() / math.log(2)


def as_written_out(weight: float) -> None:
    """Hold what the layer brings to the loss with the divergence written out."""
    found = []
    for own in (weight, 0.0):
        layer, x = made(own)
        layer.keep = layer.draw((4,), torch.Generator().manual_seed(1))
        loss = (layer(x) ** 2).mean()
        (loss + (weight - own) * divergence_of(layer, x)).backward()
        found.append([value.grad for value in layer.parameters()])
    for value, expected in zip(*found, strict=True):
        torch.testing.assert_close(value, expected)


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
    loss = (layer(x.requires_grad_(True)) ** 2).mean() + 0.5 * written * divergence_of(layer, x)
    first = torch.autograd.grad(loss, list(layer.encoder.parameters()), create_graph=True)
    (second,) = torch.autograd.grad(sum((value.square().sum() for value in first), torch.zeros(())), x)
    return second


def test_the_divergence_s_gradient_has_the_gradient_of_what_is_written_out() -> None:
    torch.testing.assert_close(slope_of_slopes(False), slope_of_slopes(True))
