"""What is optimised: dummy images and labels themselves, or the weights of a generator that makes them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from leakbench.errors import Unfit
from leakbench.matching.generator_weights import GeneratorWeights
from leakbench.matching.optimisers import Evaluate, Tensors
from leakbench.matching.trials import Group


@dataclass(frozen=True)
class Unknowns:
    """A parameterisation of a group's dummies.

    start: name → [trials, …]. dummies(unknowns, rows): the `images` in the victim's normalised space, and the logits
    `labels` if they are unknown too, that the unknowns of the trials `rows` stand for.
    """

    start: Tensors
    dummies: Callable[[Tensors, Tensor], Tensors]

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


class Dummies(Unknowns):
    """The dummies are the unknowns."""

    def __init__(self, start: Tensors) -> None:
        super().__init__(start, lambda unknowns, rows: unknowns)

    def through(self, evaluate: Callable[[Tensor], Evaluate]) -> Callable[[Tensor], Evaluate]:
        """Return `evaluate` itself."""
        return evaluate


def generated(group: Group, rng: torch.Generator, collapsed: bool = True) -> Unknowns:
    """Return the weights of one generator for each trial (GRNN), drawn trial by trial.

    `collapsed`: see `GeneratorWeights`. Raises Unfit for images that it cannot make.
    """
    channels, side, columns = group.pixels
    if side != columns or side < 8 or side & (side - 1):
        raise Unfit(
            f"attack: unknowns: a generator doubles 4×4 up to squares of 8, 16, 32 … pixels, and the images have "
            f"{side}×{columns} (choose a data set that is scaled so, as mnist-32)"
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
    return Unknowns(wanted, dummies)
