"""Distances without the gradients from a layer on, such as those behind what a client drew."""

from collections.abc import Callable
from typing import Annotated

import torch
from pydantic import Field

from leakbench.attacks.matching.terms import Weights
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.base.tensors import Tensors


def before_layer(*, layer: Annotated[str, Field(min_length=1)]) -> Weights:
    """Return weights of the parameters in every distance: 1 before `layer`, 0 for its own and all later ones.

    Parameters are in the order that the network has them. In a network without branches, they are used in
    that order.

    layer: the name of the first layer whose gradients are left out.

    Raises Unfit where the victim has no parameters of such a layer, or none before it.
    """

    def of(group: Group) -> Callable[[Tensors], Tensors]:
        names = [name for name, _ in group.model.named_parameters()]
        own = [place for place, name in enumerate(names) if f"{name}.".startswith(f"{layer}.")]
        if not own or own[0] == 0:
            raise Unfit(
                f"attack: objective.before-layer.layer: no parameters of the victim stand before '{layer}' "
                f"(name one of its layers; parameters begin with {', '.join(names[:3])})"
            )
        kept = set(names[: own[0]])

        def weights(observed: Tensors) -> Tensors:
            return {
                name: torch.full_like(value.flatten(1)[:, 0], float(name in kept))
                for name, value in observed.items()
            }

        return weights

    return Weights(of)
