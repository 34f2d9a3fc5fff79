"""The gradient of a distance of gradients, by one difference of first derivatives: cheaper than a second
backward pass.

With v the distance's derivative at the dummy gradient g(x), what is wanted is the derivative of <v, g(x)> in
x, and that is the rate at which the loss's own derivative in x changes as the weights move along v.
Backpropagation takes a ReLU and a max-pool for linear where they stand, so the second pass keeps the first
one's pattern ("frozen"): what is left is smooth, and a difference of float32 numbers gives it to a few parts
in a thousand. Five convolutions' worth of work a layer instead of seven to nine, and no graph of a graph.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call

from leakbench.matching.distances import Distance, derivative, products
from leakbench.matching.gradients import batch_loss, layer_gradients, watching
from leakbench.matching.trials import Group
from leakbench.tensors import Tensors

# The first step along v, in norms of the weights (for ResNets it mostly is the last). Below it rounding
# grows, above it curvature; the error is least where the derivative changes by a thousandth (measured on
# ResNet20-4, ResNet-18, ConvNet and LeNet), so a step that changed it much less or more is taken once more at
# the length that aims there.
STEP = 4e-6
LEAST, AIM, MOST = 3e-4, 1e-3, 4e-3
DEEP = 10


def pays(model: nn.Module) -> bool:
    """Return whether a model is deep enough for differences to be faster than a second backward pass.

    They take trials one after another: 20 ms for a step on DLG's LeNet of three convolutions, where a batch
    of trials takes 1 ms for each; on ResNet20-4, of 21, they do five passes' worth of arithmetic instead of
    seven (one core).
    """
    return sum(isinstance(layer, nn.Conv2d) for layer in model.modules()) >= DEEP


class _Pattern:
    """Which ReLUs of a model were open, and which pixels its max-pools took, in one pass, in order of use."""

    def __init__(self) -> None:
        self.taken: list[Tensor] = []

    @contextmanager
    def recording(self, model: nn.Module) -> Iterator[None]:
        """Note the pattern of a forward pass."""
        self.taken = []

        def note(layer: nn.Module, x: Tensor, y: Tensor) -> None:
            with torch.no_grad():
                self.taken.append(
                    _places(layer, x) if isinstance(layer, nn.MaxPool2d) else (y > 0).to(y.dtype)
                )

        with _hooked(model, note):
            yield

    @contextmanager
    def replaying(self, model: nn.Module) -> Iterator[None]:
        """Let the next forward pass have the noted pattern, whatever its own would be."""
        turn = iter(self.taken)

        def repeat(layer: nn.Module, x: Tensor, y: Tensor) -> Tensor:
            taken = next(turn)
            if isinstance(layer, nn.MaxPool2d):
                return x.flatten(2).gather(2, taken.flatten(2)).view_as(taken)
            return x * taken

        with _hooked(model, repeat):
            yield


def _places(pool: nn.MaxPool2d, x: Tensor) -> Tensor:
    """Return the place, among the pixels of each channel, that each of a max-pool's outputs comes from."""
    found: Tensor = nn.functional.max_pool2d(
        x, pool.kernel_size, pool.stride, pool.padding, pool.dilation, pool.ceil_mode, return_indices=True
    )[1]
    return found


@contextmanager
def _hooked(model: nn.Module, hook: Callable[[nn.Module, Tensor, Tensor], Tensor | None]) -> Iterator[None]:
    handles = [
        layer.register_forward_hook(lambda layer, inputs, output: hook(layer, inputs[0], output))
        for layer in model.modules()
        if isinstance(layer, nn.ReLU | nn.MaxPool2d)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _flat(value: Tensor) -> Tensor:
    """Return all numbers of a weight as one row, without a copy if it lies channels last."""
    return value.permute(0, 2, 3, 1).reshape(1, -1) if value.dim() == 4 else value.reshape(1, -1)


@dataclass(frozen=True)
class FrozenDifference:
    """The losses and derivatives of the trials of a group, one after another.

    observed: parameter → [trials, *shape]; labels [trials, batch] or none; weights [trials, parameters].
    """

    group: Group
    distance: Distance
    observed: Tensors
    labels: Tensor | None
    weights: Tensor

    def __call__(self, unknowns: Tensors) -> tuple[Tensor, Tensors]:
        """Return losses [trials] and the derivative of each unknown."""
        found = [
            self.one({name: value[row : row + 1] for name, value in unknowns.items()}, row)
            for row in range(len(self.weights))
        ]
        losses = torch.cat([loss for loss, _ in found])
        return losses, {name: torch.cat([moves[name] for _, moves in found]) for name in unknowns}

    @cached_property
    def rows(self) -> list[Tensors]:
        """The observed gradients of each trial, laid out as the model's own."""
        return [
            {
                name: value[row].contiguous(memory_format=torch.channels_last)
                if value.dim() == 5
                else value[row]
                for name, value in self.observed.items()
            }
            for row in range(len(self.weights))
        ]

    @cached_property
    def norm(self) -> Tensor:
        """The norm of all weights of the model."""
        return torch.stack([p.square().sum() for p in self.group.model.parameters()]).sum().sqrt()

    def one(self, unknowns: Tensors, row: int) -> tuple[Tensor, Tensors]:
        """Return the loss [1] and the derivatives of one trial's unknowns [1, …]."""
        model, pattern, observed = self.group.model, _Pattern(), self.rows[row]
        leaves = {name: value.detach().clone().requires_grad_() for name, value in unknowns.items()}

        def loss(weights: Tensors) -> Tensor:
            flat = self.group.to_pixels(leaves["images"]).flatten(0, 1)
            logits = functional_call(model, weights, (flat,))
            classes = leaves["labels"].softmax(2) if self.labels is None else self.labels[row : row + 1]
            return batch_loss(logits[None], classes).sum()

        start: Tensors = dict(model.named_parameters())
        with pattern.recording(model), watching(model) as seen:
            before = loss(start)
        deltas = torch.autograd.grad(before, [step.returned for step in seen] + list(leaves.values()))
        slopes = dict(zip(leaves, deltas[len(seen) :], strict=True))
        with torch.no_grad():
            dummy: Tensors = {}
            for step, delta in zip(seen, deltas, strict=False):
                dummy |= {name: value[0] for name, value in layer_gradients(step, delta, 1).items()}
        value, along, across, length = self.cotangent(dummy, row)

        def changes(size: Tensor) -> Tensors:
            with torch.no_grad():
                moved = {
                    name: torch.add(start[name], observed[name], alpha=float(size * along * w)).add_(
                        dummy[name], alpha=float(size * across * w)
                    )
                    for name, w in zip(observed, self.weights[row], strict=True)
                }
            with pattern.replaying(model):
                after = torch.autograd.grad(loss(moved), list(leaves.values()))
            return {name: new - slopes[name] for name, new in zip(leaves, after, strict=True)}

        size = STEP * self.norm / length.clamp_min(1e-30)
        found = changes(size)
        share = float(found["images"].norm() / slopes["images"].norm().clamp_min(1e-30))
        if 0 < share < math.inf and not LEAST <= share <= MOST:
            size = size * min(max(AIM / share, 0.01), 100.0)
            found = changes(size)
        return value, {name: change / size for name, change in found.items()}

    @cached_property
    def theirs(self) -> Tensor:
        """The squared norm of each parameter's observed gradient: [trials, parameters]."""
        return torch.stack([value.flatten(1).square().sum(1) for value in self.observed.values()], 1)

    def cotangent(self, dummy: Tensors, row: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the loss at a dummy gradient g and its derivative there, weights · (along · o + across · g),
        and its norm.

        All are [1].
        """
        observed, theirs, weights = self.rows[row], self.theirs[row], self.weights[row]
        kinds = tuple({"dot", "mine", *self.distance.of})
        with torch.no_grad():
            own = [products(kinds, _flat(dummy[name]), _flat(value)) for name, value in observed.items()]
            known = {kind: torch.cat([each[kind] for each in own]) for kind in kinds}
        totals = {kind: (weights * known[kind]).sum()[None] for kind in self.distance.of}
        value, along, across = derivative(self.distance, totals, (weights * theirs).sum()[None])
        square = along**2 * theirs + 2 * along * across * known["dot"] + across**2 * known["mine"]
        return value, along, across, (weights**2 * square).sum().sqrt()[None]
