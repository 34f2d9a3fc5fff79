"""Optimisers of many independent trials at once: each trial has its own state, its own history, its own end.

Unknowns are one flat matrix [trials, unknowns] for each named part (images, labels), so that a trial is a
row.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from leakbench.tensors import Tensors

# Unknowns in; losses [trials] and the gradients of each out.
Evaluate = Callable[[Tensors], tuple[Tensor, Tensors]]
DECAY_AT = (3 / 8, 5 / 8, 7 / 8)


class Optimiser(Protocol):
    """One step for all trials; `state` holds everything that a resumed run needs, trials first.

    copies: how many times the unknowns' size the state takes.
    """

    copies: int
    state: Tensors

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the trials in place, but not those whose loss is no number; return the losses [trials]
        before."""


def _kept(state: Tensors, name: str, value: Tensor, parts: Sequence[str]) -> list[Tensor]:
    """Return the parts of an unknown's state, zeros at first."""
    for part in parts:
        if f"{name}/{part}" not in state:
            state[f"{name}/{part}"] = torch.zeros_like(value)
    return [state[f"{name}/{part}"] for part in parts]


class Adam:
    """Adam with InvG's habits: sign of the gradient, step decay at 3/8, 5/8 and 7/8 of the iterations."""

    def __init__(self, lr: float, iterations: int, signed: bool, decay: bool) -> None:
        self.lr, self.signed = lr, signed
        self.copies = 2
        self.drops = [int(iterations * share) for share in DECAY_AT] if decay else []
        self.state: Tensors = {}

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the trials in place, but not those whose loss is no number; return the losses [trials]
        before."""
        losses, gradients = evaluate(unknowns)
        lr = self.lr * 0.1 ** sum(iteration >= drop for drop in self.drops)
        bias = 1 - 0.9 ** (iteration + 1), 1 - 0.999 ** (iteration + 1)
        going = losses.isfinite()
        for name, value in unknowns.items():
            gradient = gradients[name].sign() if self.signed else gradients[name]
            mean, square = _kept(self.state, name, value, ("mean", "square"))
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            move = (mean / bias[0]) / ((square / bias[1]).sqrt() + 1e-8) * -lr
            value.add_(torch.where(going[(..., *[None] * (value.dim() - 1))], move, 0))
        return losses


class RMSprop:
    """RMSprop with momentum, as torch's (GRNN uses it so)."""

    def __init__(self, lr: float, momentum: float) -> None:
        self.lr, self.momentum = lr, momentum
        self.copies = 2
        self.state: Tensors = {}

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the trials in place, but not those whose loss is no number; return the losses [trials]
        before."""
        losses, gradients = evaluate(unknowns)
        lost = ~losses.isfinite()
        stay = {name: value[lost] for name, value in unknowns.items()} if lost.any() else {}
        kept = [_kept(self.state, name, value, ("square", "momentum")) for name, value in unknowns.items()]
        squares, momenta = ([each[place] for each in kept] for place in (0, 1))
        _fused_momentum(momenta, squares, [gradients[name].contiguous() for name in unknowns], self.momentum)
        for value, momentum in zip(unknowns.values(), momenta, strict=True):
            value.sub_(momentum, alpha=self.lr)
        for name, before in stay.items():
            unknowns[name][lost] = before
        return losses


def _fused_momentum(
    momenta: list[Tensor], squares: list[Tensor], gradients: list[Tensor], decay: float
) -> None:
    """Take RMSprop's step of each momentum in one pass instead of five: square ← 0.99 square + 0.01
    gradient², momentum ← decay · momentum + gradient / (√square + 1e-8).

    torch fuses no RMSprop, but AdamW without a mean of its own is one, with the momentum as what it moves:
    `decay` is its weight decay, at a learning rate of −1, so many steps in that no bias is left to correct.
    """
    late = gradients[0].new_tensor(1e9)
    torch._fused_adamw_(
        momenta, gradients, gradients, squares, [], [late] * len(momenta), amsgrad=False, maximize=False,
        lr=-1.0, beta1=0.0, beta2=0.99, weight_decay=decay - 1, eps=1e-8,
    )  # fmt: skip


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return each trial's matrix [trials, n, m] times its vector [trials, m]."""
    # As a row from the left: a batched product with a single column is nine times slower.
    return (vector[:, None] @ matrix.mT)[:, 0]


class LBFGS:
    """Limited-memory BFGS with a fixed step, as torch's without line search, row by row (DLG and iDLG use it
    so).

    One step of the outer loop is up to `inner` evaluations; a trial whose gradient or move has become
    negligible sits out the rest of its step, as there. State: the last `memory` moves and gradient changes of
    each trial, in a ring, and the products of every move with every change.
    """

    def __init__(self, lr: float, memory: int, inner: int) -> None:
        self.lr, self.memory, self.inner = lr, memory, inner
        self.copies = 2 * memory + 2
        self.state: Tensors = {}

    def _start(self, flat: Tensor) -> None:
        trials, width = flat.shape
        zeros = flat.new_zeros
        self.state = {
            "moves": zeros(trials, self.memory, width),
            "changes": zeros(trials, self.memory, width),
            "products": zeros(trials, self.memory, self.memory),
            "remembered": zeros(trials, dtype=torch.int64),
            "scale": flat.new_ones(trials),
            "direction": zeros(trials, width),
            "gradient": zeros(trials, width),
            "length": zeros(trials),
            "count": zeros(trials, dtype=torch.int64),
        }

    def _remember(self, gradient: Tensor, going: Tensor) -> None:
        """Keep the last move of the trials it curved for, in place of the oldest when the memory is full."""
        s = self.state
        change = gradient - s["gradient"]
        move = s["direction"] * s["length"][:, None]
        product = (change * move).sum(1)
        new = (going & (product > 1e-10)).nonzero()[:, 0]
        place = s["remembered"][new] % self.memory
        s["moves"][new, place], s["changes"][new, place] = move[new], change[new]
        depth = self._depth(1)
        s["products"][new, place, :depth] = _times(s["changes"][:, :depth], move)[new]
        s["products"][new, :depth, place] = _times(s["moves"][:, :depth], change)[new]
        s["scale"][new] = product[new] / change[new].square().sum(1)
        s["remembered"][new] += 1

    def _depth(self, more: int = 0) -> int:
        """Return how much of the memory is in use by any trial, when each remembers so many `more`."""
        return min(self.memory, int(self.state["remembered"].max()) + more)

    def _direct(self, gradient: Tensor) -> Tensor:
        """Return the two-loop recursion's direction [trials, unknowns]; a place not yet filled adds nothing.

        The first loop solves U α = S q with U the upper triangle of the products S Yᵀ by age, the second the
        transpose of it.
        """
        s = self.state
        depth, remembered = self._depth(), s["remembered"][:, None]
        if not depth:
            return -gradient * s["scale"][:, None]
        moves, changes = s["moves"][:, :depth], s["changes"][:, :depth]
        age = torch.arange(depth, device=gradient.device)
        place = (torch.where(remembered > self.memory, remembered, 0) + age) % self.memory
        products = s["products"].gather(1, place[:, :, None].expand(-1, -1, self.memory))
        products = products.gather(2, place[:, None].expand(-1, depth, -1)).triu()
        own = torch.where(age < remembered, products.diagonal(dim1=1, dim2=2), 1)
        products.diagonal(dim1=1, dim2=2).copy_(own)
        back = torch.argsort(place, 1)

        def solved(matrix: Tensor, right: Tensor, upper: bool) -> Tensor:
            return torch.linalg.solve_triangular(matrix, right[:, :, None], upper=upper)[:, :, 0]

        alpha = solved(products, -_times(moves, gradient).gather(1, place), True)
        q = -(gradient + _times(changes.mT, alpha.gather(1, back))) * s["scale"][:, None]
        rest = own * alpha - _times(changes, q).gather(1, place)
        return q + _times(moves.mT, solved(products.mT, rest, False).gather(1, back))

    def step(self, unknowns: Tensors, evaluate: Evaluate, iteration: int) -> Tensor:
        """Move the trials in place, but not those whose loss is no number; return the losses [trials]
        before."""
        names = sorted(unknowns)
        losses, found = evaluate(unknowns)
        first = losses
        gradient = torch.cat([found[name].flatten(1) for name in names], 1)
        if not self.state:
            self._start(gradient)
        s = self.state
        going = losses.isfinite() & (gradient.abs().amax(1) > 1e-7)
        for turn in range(self.inner):
            begun = s["count"] > 0
            self._remember(gradient, going & begun)
            direction = torch.where(begun[:, None], self._direct(gradient), -gradient)
            length = torch.where(
                begun, self.lr, self.lr * (1 / gradient.abs().sum(1).clamp_min(1e-30)).clamp_max(1)
            )
            s["direction"] = torch.where(going[:, None], direction, s["direction"])
            s["gradient"] = torch.where(going[:, None], gradient, s["gradient"])
            s["length"] = torch.where(going, length, s["length"])
            s["count"] += going
            # After what is kept, as in torch: a move not made then has changed no gradient and is not
            # remembered.
            going = going & ((gradient * direction).sum(1) <= -1e-9)
            move = torch.where(going[:, None], direction * length[:, None], 0)
            at = 0
            for name in names:
                width = unknowns[name][0].numel()
                unknowns[name] += move[:, at : at + width].view_as(unknowns[name])
                at += width
            if turn == self.inner - 1 or not going.any():
                break
            before = losses
            losses, found = evaluate(unknowns)
            gradient = torch.cat([found[name].flatten(1) for name in names], 1)
            still = (gradient.abs().amax(1) > 1e-7) & (move.abs().amax(1) > 1e-9)
            going = going & losses.isfinite() & still & ((losses - before).abs() >= 1e-9)
        return first
