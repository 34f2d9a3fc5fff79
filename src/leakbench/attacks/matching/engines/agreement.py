"""Engines that take whole derivatives of a distance of gradients, and their comparison with plain autograd.

Before an attack trusts one of them, its derivative is compared once on the attacked network.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from leakbench.attacks.matching.distances import products, with_cotangent
from leakbench.attacks.matching.engines.chain import Hop, chain
from leakbench.attacks.matching.engines.gradients import MISFITS, TRIALS, agreed, apart_in_words, misfit_of
from leakbench.attacks.matching.engines.plain import plain_gradients
from leakbench.attacks.matching.terms import Distance
from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors

# The scale of the steps of differences. In float64 they may be so short that no curvature is left: on every
# victim that a chain takes, and on a trained ResNet20-4, the error is then 5e-7 at most. So differences are
# held to the same tolerance as all gradients.
SHORT = 1e-4


@dataclass(frozen=True)
class Engine:
    """The losses of a group's trials and their derivatives.

    Observed gradients are parameter → [trials, *shape], and `labels` None if they are unknowns too; `weights`
    [trials, parameters] are those of the distance. `scale` shortens the steps of differences. TOGETHER says
    how many trials of a chunk are of use on a GPU, and from how many on the engine pays on a processor.
    """

    TOGETHER: ClassVar[int] = 1

    group: Group
    distance: Distance
    observed: Tensors
    labels: Tensor | None
    weights: Tensor
    scale: float = 1.0

    def __call__(self, unknowns: Tensors) -> tuple[Tensor, Tensors]:
        """Return the losses [trials] and the derivative in each unknown."""
        raise NotImplementedError

    @cached_property
    def steps(self) -> list[Hop]:
        return chain(self.group.model) or []

    @cached_property
    def theirs(self) -> Tensor:
        """The squared norm of each parameter's observed gradient: [trials, parameters]."""
        return torch.stack([value.flatten(1).square().sum(1) for value in self.observed.values()], 1)


def agrees(engine: type[Engine], group: Group, distance: Distance) -> bool:
    """Return whether an engine's derivative of a distance is that of plain autograd."""
    return agreed(
        group.model,
        engine,
        lambda: _misfit(engine, group, distance),
        f"exact derivatives without {engine.__name__}",
    )


def _misfit(engine: type[Engine], group: Group, distance: Distance) -> str:
    """Return in words where the derivatives differ, or "" if they agree."""
    model = deepcopy(group.model).double()
    mean, deviation = (value.double() for value in (group.mean, group.deviation))
    of = replace(group, model=model, mean=mean, deviation=deviation)
    return misfit_of(model, lambda: _compared(engine, of, distance))


@torch.enable_grad()
def _compared(engine: type[Engine], of: Group, distance: Distance) -> tuple[str, Tensors]:
    """Return the misfit of an engine in words, or "", and autograd's derivatives. Labels are unknowns too."""
    rng = torch.Generator().manual_seed(0)
    model, size = of.model, (TRIALS, min(of.batch, 2))
    like = next(model.parameters())
    unknowns = {
        name: torch.randn(*size, *shape, generator=rng).to(like).requires_grad_()
        for name, shape in (("images", of.pixels), ("labels", (of.classes,)))
    }
    made, _ = plain_gradients(model, of.to_pixels(unknowns["images"]), unknowns["labels"].softmax(2))
    values = {name: value.detach() for name, value in made.items()}
    observed = {
        n: torch.randn(v.shape, generator=rng).to(v) * v.square().mean().sqrt() for n, v in values.items()
    }
    theirs = products(("mine",), observed, observed)["mine"]
    _, cotangent = with_cotangent(distance, values, observed, None, theirs)
    slopes = torch.autograd.grad(
        list(made.values()), list(unknowns.values()), list(cotangent.values()), materialize_grads=True
    )
    expected = dict(zip(unknowns, slopes, strict=True))
    given = of, distance, observed, None, theirs.new_ones(TRIALS, len(observed))
    dummies = {name: value.detach() for name, value in unknowns.items()}
    try:
        _, found = engine(*given, SHORT)(dummies)
    except MISFITS as problem:
        return " ".join(str(problem).split()), {}
    return apart_in_words(found, expected), values | expected
