"""Inner products of dummy gradients with observed ones and with themselves, without the dummy gradients.

Let X [places, inputs] be what a convolution or dense layer read, D [places, outputs] the gradient of the loss
at what it returned, g = DᵀX and o the observed gradient. Then <g, o> is the sum of D ∘ (X oᵀ), element by
element, and <g, g> that of (XXᵀ) ∘ (DDᵀ). This is used where X and D have fewer numbers than the weights, so
that millions of weights' gradients are not written down for every dummy. A squared distance is the small
difference of such products (1e-8 of them on networks with sigmoids), so they are float64.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.engines.gradients import engines_fit
from leakbench.attacks.matching.engines.layers import rule
from leakbench.attacks.matching.engines.plain import plain_gradients
from leakbench.attacks.matching.engines.tape import Taped, layer_gradients, layer_passes, summed
from leakbench.base.tensors import Tensors
from leakbench.networks.per_trial import HiddenNorm


def rows_of(gradient: Tensor) -> Tensor:
    """Return a parameter's gradients [n, *shape] as rows of float64, [n, numbers]."""
    return gradient.flatten(1).double()


def gradient_products(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    observed: Tensors,
    owner: Tensor,
    weights: Tensors | None = None,
    beside: Callable[[Tensors], Tensors] = lambda slopes: {},
) -> Tensors:
    """Return the inner products of dummy gradients g with observed ones o, and of g with itself."""
    total = {kind: images.new_zeros(len(images), dtype=torch.float64) for kind in ("dot", "mine")}
    for products in _by_layer(model, images, labels, observed, owner, beside):
        for name, known in products.items():
            for kind, value in known.items():
                total[kind] += value if weights is None else value * weights[name]
    return total


def _by_layer(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    observed: Tensors,
    owner: Tensor,
    beside: Callable[[Tensors], Tensors],
) -> Iterator[dict[str, Tensors]]:
    """Yield parameter → products [n] for each layer, or for all layers at once by plain autograd."""
    parameters = dict(model.named_parameters())

    def made(slopes: Tensors) -> dict[str, Tensors]:
        """Return the products of gradients that are written down; hidden ones pass `beside` first."""
        shared = {name: value for name, value in slopes.items() if name in parameters}
        hidden = {name: value for name, value in slopes.items() if name not in parameters}
        return _plain(shared | (beside(hidden) if hidden else {}), observed, owner)

    if not engines_fit(model, images.shape[1:]):
        yield made(plain_gradients(model, images, labels, differentiable=False)[0])
        return
    passes, _ = layer_passes(model, images.requires_grad_(), labels, differentiable=False)
    with torch.no_grad():
        for layer in dict.fromkeys(step.layer for step, _ in passes):
            own = [(step, delta) for step, delta in passes if step.layer is layer]
            if len(own) > 1 or isinstance(layer, HiddenNorm):
                yield made(summed(own, len(images)))
            else:
                yield _layer(*own[0], observed, owner)


def _layer(step: Taped, delta: Tensor, observed: Tensors, owner: Tensor) -> dict[str, Tensors]:
    """Return parameter → products [n] of one use of a layer."""
    n, layer, known = len(owner), step.layer, rule(step.layer)
    prefix = f"{step.name}." if step.name else ""
    if known is None or known.operands is None:
        return _plain(layer_gradients(step, delta, n), observed, owner)
    weight = layer.get_parameter("weight").flatten(1)
    places = delta.numel() // (n * len(weight))
    if places * sum(weight.shape) >= weight.numel():
        return _plain(layer_gradients(step, delta, n), observed, owner)
    x, d = (value.double() for value in known.operands(layer, step.read, delta, n))
    dot = torch.empty(n, dtype=torch.float64, device=x.device)
    for trial in owner.unique().tolist():
        own = (owner == trial).nonzero()[:, 0]
        seen = observed[f"{prefix}weight"][trial].view(weight.shape)
        dot[own] = ((x[own].flatten(0, 1) @ seen.T).unflatten(0, (len(own), -1)) * d[own]).sum((1, 2))
    found = {f"{prefix}weight": {"mine": ((x @ x.mT) * (d @ d.mT)).sum((1, 2)), "dot": dot}}
    if layer._parameters["bias"] is not None:
        found |= _plain({f"{prefix}bias": d.sum(1)}, observed, owner)
    return found


def _plain(found: Tensors, observed: Tensors, owner: Tensor) -> dict[str, Tensors]:
    """Return the products of gradients that are written down, parameter → [n, *shape]."""
    rows = {name: rows_of(g) for name, g in found.items()}
    return {
        name: {"dot": torch.linalg.vecdot(g, observed[name][owner]), "mine": g.square().sum(1)}
        for name, g in rows.items()
    }
