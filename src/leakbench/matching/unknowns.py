"""What is optimised: dummy images and labels themselves, or a generator's weights, or the latents that it
reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leakbench.errors import Unfit
from leakbench.matching.generator_weights import GeneratorWeights
from leakbench.matching.optimisers import Evaluate
from leakbench.matching.trials import Group
from leakbench.tensors import Tensors

# More trials together than this are hardly faster on a processor, and chunks are what its workers share out.
AT_ONCE = 32
# Each generator has weights of its own, so that fewer of them fill a cache.
GENERATORS_AT_ONCE = 8
# Dummies and the number of the trial that each belongs to in; losses out.
Losses = Callable[[Tensors, Tensor], Tensor]


@dataclass(frozen=True)
class Unknowns:
    """A parameterisation of a group's dummies.

    start: name → [trials, …]. dummies(unknowns, rows): the `images` in the victim's normalised space, and the
    logits `labels` if they are unknown too, that the unknowns of the trials `rows` stand for. at_once: how
    many trials a processor works on together.
    """

    start: Tensors
    dummies: Callable[[Tensors, Tensor], Tensors]
    at_once: int = AT_ONCE

    def through(self, evaluate: Callable[[Tensor], Evaluate]) -> Callable[[Tensor], Evaluate]:
        """Return `evaluate`, which takes dummies, as a function of the unknowns behind them."""

        def chained(rows: Tensor) -> Evaluate:
            of_dummies = evaluate(rows)

            def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
                leaves = {name: value.detach().requires_grad_() for name, value in unknowns.items()}
                made = self.dummies(leaves, rows)
                losses, slopes = of_dummies({name: value.detach() for name, value in made.items()})
                found = torch.autograd.grad(
                    list(made.values()), list(leaves.values()), [slopes[name] for name in made]
                )
                return losses, dict(zip(leaves, found, strict=True))

            return evaluated

        return chained

    def members(self, losses: Callable[[Tensor], Losses], together: int) -> Callable[[Tensor], Evaluate]:
        """Return `losses` as a function of several unknowns for each trial, [trials, members, …] → [trials,
        members].

        `together`: so many members are worked on at a time. There are no gradients.
        """

        def chained(rows: Tensor) -> Evaluate:
            of_dummies = losses(rows)

            def evaluated(unknowns: Tensors) -> tuple[Tensor, Tensors]:
                trials, members = next(iter(unknowns.values())).shape[:2]
                flat = {name: value.flatten(0, 1) for name, value in unknowns.items()}
                owner = torch.arange(trials).repeat_interleave(members)
                found = []
                for part in torch.arange(len(owner)).split(together):
                    own = owner[part]
                    with torch.no_grad():
                        made = self.dummies({name: value[part] for name, value in flat.items()}, rows[own])
                    found.append(of_dummies(made, own))
                return torch.cat(found).unflatten(0, (trials, members)), {}

            return evaluated

        return chained


class Dummies(Unknowns):
    """The dummies are the unknowns."""

    def __init__(self, start: Tensors) -> None:
        super().__init__(start, lambda unknowns, rows: unknowns)

    def through(self, evaluate: Callable[[Tensor], Evaluate]) -> Callable[[Tensor], Evaluate]:
        """Return `evaluate` itself."""
        return evaluate


def beside(unknowns: Unknowns, more: Tensors) -> Unknowns:
    """Return `unknowns` and `more` of them, [trials, …] each, which stand for themselves."""
    if not more:
        return unknowns
    start = unknowns.start | more
    if isinstance(unknowns, Dummies):
        return Dummies(start)
    return Unknowns(
        start, lambda found, rows: unknowns.dummies(found, rows) | {name: found[name] for name in more}
    )


def generated(group: Group, rng: torch.Generator, collapsed: bool = True) -> Unknowns:
    """Return the weights of one generator for each trial (GRNN), drawn trial by trial.

    `collapsed`: see `GeneratorWeights`. Raises Unfit for images that it cannot make.
    """
    channels, side, columns = group.pixels
    if side != columns or side < 8 or side & (side - 1):
        raise Unfit(
            "attack: unknowns: a generator doubles 4×4 up to squares of 8, 16, 32 … pixels, and the images "
            f"have {side}×{columns} (choose a data set that is scaled so, as mnist-32)"
        )
    generator = GeneratorWeights(side, channels, group.batch, group.classes, collapsed=collapsed)
    start, latents = generator.draw(rng, group.trials)
    latents = latents.to(group.device)
    known = group.labels is not None

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        z = latents[rows]
        images = (generator.images(unknowns, z) - group.mean) / group.deviation
        return {"images": images} if known else {"images": images, "labels": generator.labels(unknowns, z)}

    wanted = {n: v.to(group.device) for n, v in start.items() if not (known and n.startswith("label"))}
    return Unknowns(wanted, dummies, GENERATORS_AT_ONCE)


def latent(group: Group, rng: torch.Generator) -> Unknowns:
    """Return a latent for each image, whose tanh a class-conditional generator reads (GGL), uniform in [0, 1)
    at first.

    The classes are the group's labels, the generator is the attacker's own. Drawn trial by trial. Raises
    Unfit if there is no such generator, or if labels are unknown.
    """
    generator: Any = group.observation.generator
    if generator is None or not hasattr(generator, "latent"):
        raise Unfit(
            "attack: unknowns: latent needs a generator of a latent and a class (name one under generator)"
        )
    if group.labels is None:
        raise Unfit("attack: unknowns: latent needs classes (set labels: inferred)")
    network, labels = generator.to(group.device).requires_grad_(False), group.labels
    drawn = [torch.rand(group.batch, generator.latent, generator=rng) for _ in range(group.trials)]

    def dummies(unknowns: Tensors, rows: Tensor) -> Tensors:
        z = unknowns["latents"].tanh()
        images = network(z.flatten(0, 1), labels[rows].flatten()).unflatten(0, z.shape[:2])
        return {"images": (images - group.mean) / group.deviation}

    return Unknowns({"latents": torch.stack(drawn).to(group.device)}, dummies)
