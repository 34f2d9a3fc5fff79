"""Limited-memory BFGS."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.matching.optimiser import Evaluate, Make
from leakbench.base.tensors import Tensors

# What an iteration costs: up to 20 evaluations of the loss, and the use of a hundred earlier gradients.
COST = {"evaluations": 26}


def lbfgs(
    *,
    lr: Annotated[float, Field(gt=0)] = 1.0,
    memory: Annotated[int, Field(gt=0)] = 100,
    inner: Annotated[int, Field(gt=0)] = 20,
) -> Make:
    """Return L-BFGS with a fixed step, as torch has it without line search (the codes of DLG and iDLG).

    lr: the length of a step, above 0, in lengths of the quasi-Newton direction.
    memory: the number of moves that are remembered; the default is torch's.
    inner: the largest number of evaluations in an iteration; the default is torch's.
    """
    return lambda iterations: LBFGS(lr, memory, inner)


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return each trial's matrix [trials, n, m] times its vector [trials, m]."""
    # The vector is a row from the left, because a batched product with a single column is nine times slower.
    return (vector[:, None] @ matrix.mT)[:, 0]


class LBFGS:
    """Limited-memory BFGS with a fixed step, trial by trial the same as torch's without line search.

    One step of the outer loop makes up to `inner` evaluations. As in torch, a trial whose gradient or move
    has become negligible pauses for the rest of its step. The state holds the last `memory` moves and
    gradient changes of each trial, in a ring, and the products of every move with the changes since.
    """

    def __init__(self, lr: float, memory: int, inner: int) -> None:
        self.lr, self.memory, self.inner = lr, memory, inner
        self.copies, self.population = 2 * memory + 2, 1
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
        """Keep the last move of those trials `going` whose gradient grew along it."""
        s = self.state
        change = gradient - s["gradient"]
        move = s["direction"] * s["length"][:, None]
        product = (change * move).sum(1)
        new = (going & (product > 1e-10)).nonzero()[:, 0]
        place = s["remembered"][new] % self.memory
        s["moves"][new, place], s["changes"][new, place] = move[new], change[new]
        depth = self._depth(1)
        # The products of this move with older changes would stand below the diagonal, which is never read.
        s["products"][new, :depth, place] = _times(s["moves"][:, :depth], change)[new]
        s["scale"][new] = product[new] / change[new].square().sum(1)
        s["remembered"][new] += 1

    def _depth(self, more: int = 0) -> int:
        """Return how much of the memory any trial uses, when each remembers `more` in addition."""
        return min(self.memory, int(self.state["remembered"].max()) + more)

    def _direct(self, gradient: Tensor) -> Tensor:
        """Return the direction [trials, unknowns] of the two-loop recursion; an unfilled place adds nothing.

        The first loop solves U α = S q, with U the upper triangle of S Yᵀ by age; the second solves with Uᵀ.
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
            # As in torch, this follows the lines that keep the state. A move that is not made changes no
            # gradient, so it is not remembered.
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
