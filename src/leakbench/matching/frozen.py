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
from leakbench.matching.gradients import engines_fit
from leakbench.matching.plain import plain_gradients
from leakbench.matching.tape import batch_loss, out_of_place, summed, watching
from leakbench.matching.trials import Group
from leakbench.progress import log
from leakbench.tensors import Tensors

# The first step along v, in norms of the weights (for ResNets it mostly is the last). Below it rounding
# grows, above it curvature; the error is least where the derivative changes by a thousandth (measured on
# ResNet20-4, ResNet-18, ConvNet and LeNet), so a step that changed it much less or more is taken once more at
# the length that aims there.
STEP = 4e-6
LEAST, AIM, MOST = 3e-4, 1e-3, 4e-3
DEEP = 10
# Where every kink of a network is a ReLU or a max-pool that is seen, a difference is off by less than 0.01;
# where one is not, by 0.4 and more (measured on noise, five networks).
TOLERANCE = 0.05


def pays(model: nn.Module, shape: torch.Size) -> bool:
    """Return whether a model is deep enough for differences to be faster than a second backward pass, and
    differences are right for it.

    shape: [batch, channels, rows, columns] of the images, which are noise here.

    They take trials one after another: 20 ms for a step on DLG's LeNet of three convolutions, where a batch
    of trials takes 1 ms for each; on ResNet20-4, of 21, they do five passes' worth of arithmetic instead of
    seven (one core).
    """
    deep = sum(isinstance(layer, nn.Conv2d) for layer in model.modules()) >= DEEP
    if not deep or not engines_fit(model, shape):
        return False
    apart = _apart(model, torch.Size([min(shape[0], 2), *shape[1:]]))
    if not apart <= TOLERANCE:
        log(f"leakbench attack: exact second derivatives, for differences are off by {apart:.1g} of them")
    return apart <= TOLERANCE


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


class _Point:
    """The loss of one trial, its derivatives in the unknowns (`slopes`) and in the weights (`gradients`)."""

    def __init__(self, model: nn.Module, loss: Callable[[Tensors], Tensor], leaves: Tensors) -> None:
        self.model, self.loss, self.leaves, self.pattern = model, loss, leaves, _Pattern()
        self.weights: Tensors = dict(model.named_parameters())
        with self.pattern.recording(model), watching(model) as seen:
            before = loss(self.weights)
        deltas = torch.autograd.grad(before, [step.returned for step in seen] + list(leaves.values()))
        self.slopes = dict(zip(leaves, deltas[len(seen) :], strict=True))
        with torch.no_grad():
            passes = list(zip(seen, deltas, strict=False))
            self.gradients = {name: value[0] for name, value in summed(passes, 1).items()}

    def changes(self, weights: Tensors) -> Tensors:
        """Return how much `slopes` change with these weights, each ReLU and max-pool as it stood."""
        with self.pattern.replaying(self.model), out_of_place(self.model):
            after = torch.autograd.grad(self.loss(weights), list(self.leaves.values()))
        return {name: new - self.slopes[name] for name, new in zip(self.leaves, after, strict=True)}


def difference(changes: Callable[[Tensor], Tensors], slope: Tensor, size: Tensor) -> Tensors:
    """Return the rate of `changes(size)`: by a first step of `size`, or one more of a length that suits.

    `slope`: the derivative in the images whose change is looked at.
    """
    found = changes(size)
    share = float(found["images"].norm() / slope.norm().clamp_min(1e-30))
    if 0 < share < math.inf and not LEAST <= share <= MOST:
        size = size * min(max(AIM / share, 0.01), 100.0)
        found = changes(size)
    return {name: change / size for name, change in found.items()}


def _apart(model: nn.Module, shape: torch.Size) -> float:
    """Return how far a difference of a model's slopes is from their exact derivative, relative to it, on
    noise [batch, channels, rows, columns] and weights that move at random."""
    rng, own = torch.Generator().manual_seed(0), dict(model.named_parameters())
    sample = next(iter(own.values()))
    noise = torch.rand(1, *shape, generator=rng).to(sample)
    labels = torch.zeros(1, shape[0], dtype=torch.int64, device=sample.device)
    along = {name: torch.randn(p.shape, generator=rng).to(p) * p.norm() for name, p in own.items()}
    images = noise.clone().requires_grad_()
    found, _ = plain_gradients(model, images, labels)
    total = torch.stack([(found[name][0] * v).sum() for name, v in along.items()]).sum()
    (exact,) = torch.autograd.grad(total, images)
    leaves = {"images": noise.requires_grad_()}

    def loss(weights: Tensors) -> Tensor:
        return batch_loss(functional_call(model, weights, (leaves["images"][0],))[None], labels).sum()

    point = _Point(model, loss, leaves)
    length = torch.stack([v.square().sum() for v in along.values()]).sum().sqrt()
    size = STEP * torch.stack([p.square().sum() for p in own.values()]).sum().sqrt() / length

    def changes(size: Tensor) -> Tensors:
        return point.changes({name: torch.add(own[name], v, alpha=float(size)) for name, v in along.items()})

    rate = difference(changes, point.slopes["images"], size)["images"]
    return float((rate - exact).norm() / exact.norm())


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
        model, observed = self.group.model, self.rows[row]
        leaves = {name: value.detach().clone().requires_grad_() for name, value in unknowns.items()}

        def loss(weights: Tensors) -> Tensor:
            flat = self.group.to_pixels(leaves["images"]).flatten(0, 1)
            logits = functional_call(model, weights, (flat,))
            classes = leaves["labels"].softmax(2) if self.labels is None else self.labels[row : row + 1]
            return batch_loss(logits[None], classes).sum()

        point = _Point(model, loss, leaves)
        value, along, across, length = self.cotangent(point.gradients, row)

        def changes(size: Tensor) -> Tensors:
            with torch.no_grad():
                moved = {
                    name: torch.add(point.weights[name], observed[name], alpha=float(size * along * w)).add_(
                        point.gradients[name], alpha=float(size * across * w)
                    )
                    for name, w in zip(observed, self.weights[row], strict=True)
                }
            return point.changes(moved)

        return value, difference(changes, point.slopes["images"], STEP * self.norm / length.clamp_min(1e-30))

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
