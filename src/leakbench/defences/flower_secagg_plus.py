"""Secure aggregation of rounded weights (Flower's SecAgg+).

Source of the facts: adap/flower, framework/py/flwr/common/secure_aggregation/quantization.py,
framework/py/flwr/client/mod/secure_aggregation/secaggplus_mod.py and
framework/py/flwr/server/workflow/secure_aggregation/secaggplus_workflow.py (commit fdef7af).
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, Update, View, each_update, needs, summed

# What Flower's server takes if it is not told otherwise: the largest magnitude of a weight times its client's
# share, and the number of levels.
CLIPPING, LEVELS = 8.0, 1 << 22


def share(samples: int, max_weight: float) -> float:
    """Return the factor of a client's weights, its number of samples / `max_weight`, in whole levels."""
    return round(samples / max_weight * LEVELS) / LEVELS


def quantised(values: Tensor, rng: torch.Generator) -> Tensor:
    """Return the levels, float64 whole numbers, to which values are rounded by chance, up or down."""
    places = (values.clamp(-CLIPPING, CLIPPING) + CLIPPING) * (LEVELS / (2 * CLIPPING))
    upper = places.ceil().double()
    drawn = torch.rand(values.shape, generator=rng, dtype=torch.float64).to(values.device)
    return upper - (drawn < upper - places).double()


def flower_secagg_plus(
    *, max_weight: Annotated[float, Field(ge=1000)] = 1000.0, alone: bool = False
) -> Defence:
    """Round each client's weights, times its share of samples, and show only the sum over clients.

    A client multiplies its weights by its number of samples / `max_weight`, cuts them off at ±8 and rounds
    them by chance to 2^22 levels. The server divides the sum by the sum of the factors. The masks cancel in
    the sum and are left out. The rounding is meant for transport; Flower states no privacy budget for it.

    max_weight: the number of samples that a factor of one stands for, Flower's default or more. Rounding that
    is finer than the default is refused, here and by the detector `transport`.
    alone: whether every client's rounded weights are seen by themselves, as by a server to which all other
    clients give theirs away.

    Raises Unfit if fewer than two clients take part and they are not seen by themselves.
    """

    def rounded(update: Update, sent: Update, samples: int, rng: torch.Generator) -> Update:
        factor = share(samples, max_weight)
        out = {}
        for name, value in update.items():
            levels = quantised((sent[name] + value) * factor, rng)
            weights = (levels * (2 * CLIPPING / LEVELS) - CLIPPING) / factor
            out[name] = (weights - sent[name]).float()
        return out

    def view(clients: Sequence[int]) -> View:
        if alone:
            return each_update(clients)
        needs(clients, 2, "flower-secagg-plus")
        factors = torch.tensor([share(samples, max_weight) for samples in clients], dtype=torch.float64)
        knows = {
            "observer": "server",
            "shared": f"the rounded sum of {len(clients)} clients' weights, each round",
        }
        return summed([list(range(len(clients)))], (factors / factors.sum())[None], knows)

    return Defence(weights=rounded, view=view)
