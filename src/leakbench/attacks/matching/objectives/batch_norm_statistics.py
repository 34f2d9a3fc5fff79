"""Batch-norm statistics: a batch of real images has the means and variances of the training data."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from leakbench.attacks.matching.terms import Prior, differentiated
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.networks.layers import hooked
from leakbench.networks.per_trial import hidden


def batch_norm_statistics(*, weight: Annotated[float, Field(ge=0)]) -> Prior:
    """Return the prior of batches whose statistics at each batch norm are near the running statistics sent.

    The value of a trial is Σ ‖mean − running mean‖ + ‖variance − running variance‖ over all batch norms, with
    mean and variance over the batch's images and pixels together (GradInversion, Yin et al. 2021, Eqn 10).

    weight: the weight of the prior in the objective, at least 0.

    Raises Unfit for a network without running statistics, and with hidden parameters, because they change
    what the layers behind them read.
    """
    return Prior(weight, _of)


def _of(group: Group) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    norms = [
        layer
        for layer in group.model.modules()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None
    ]
    if not norms or hidden(group.model):
        why = (
            "reads through no hidden parameters" if norms else "needs a network that sends running statistics"
        )
        raise Unfit(f"attack: objective: batch-norm-statistics {why} (leave the term out)")

    def value(images: Tensor) -> Tensor:
        read: list[tuple[_BatchNorm, Tensor]] = []
        hooks = [
            norm.register_forward_hook(lambda norm, inputs, _: read.append((norm, inputs[0])))
            for norm in norms
        ]
        with hooked(hooks):
            group.model(group.to_pixels(images).flatten(0, 1))
        total = images.new_zeros(len(images))
        for norm, x in read:
            # [trials, channels, …]: a channel's values over all images and pixels of a trial.
            own = x.unflatten(0, images.shape[:2]).transpose(1, 2).flatten(2)
            apart = own.mean(2) - norm.running_mean, own.var(2, unbiased=False) - norm.running_var
            total = total + sum(each.square().sum(1).clamp_min(1e-30).sqrt() for each in apart)
        return total

    return differentiated(value)
