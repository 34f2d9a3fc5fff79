"""Inner products of dummy gradients with those observed and with themselves, without making the dummy
gradients.

What a convolution or dense layer read, X [places, inputs], and the loss's gradient at what it returned, D
[places, outputs], make the weight gradient g = DᵀX. Then <g, o> is D summed against X oᵀ, and <g, g> is the
sum of XXᵀ times DDᵀ, element by element, where there are fewer places than weights. A network of millions of
weights is so spared to write them down for every dummy. A squared distance is the small difference of such
products (1e-8 of them on networks with sigmoids), so they are float64.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from leakbench.matching.gradients import engines_fit
from leakbench.matching.hidden import HiddenNorm
from leakbench.matching.layers import rule
from leakbench.matching.plain import plain_gradients
from leakbench.matching.tape import Pass, layer_gradients, layer_passes, summed
from leakbench.tensors import Tensors


def rows_of(gradient: Tensor) -> Tensor:
    """Return a parameter's gradients [n, *shape] as rows of float64 [n, numbers]."""
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
    """Return `dot` and `mine` [n], <g, o> and <g, g> over all parameters, of the gradients g that the dummies
    would cause.

    images [n, batch, …]; labels [n, batch] classes, or probabilities of them; observed: parameter → [trials,
    numbers] as `rows_of`; owner [n]: which of the trials' each dummy is compared with. `weights`: parameter
    → [n], how much it counts. `beside`: of gradients at hidden parameters, which nobody observed, what was.
    """
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
    """Yield parameter → products [n] of each layer, or of all at once where plain autograd serves."""
    parameters = dict(model.named_parameters())

    def made(slopes: Tensors) -> dict[str, Tensors]:
        """Return the products of gradients, of those at hidden parameters as they were observed."""
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


def _layer(step: Pass, delta: Tensor, observed: Tensors, owner: Tensor) -> dict[str, Tensors]:
    """Return parameter → products [n] of one layer."""
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
    """Return the products of gradients that were made: parameter → [n, *shape]."""
    rows = {name: rows_of(g) for name, g in found.items()}
    return {
        name: {"dot": torch.linalg.vecdot(g, observed[name][owner]), "mine": g.square().sum(1)}
        for name, g in rows.items()
    }
