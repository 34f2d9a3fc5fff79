"""Bound the norm of the update and add normal noise to the weights (Flower's `LocalDpMod`).

Source of the facts: adap/flower, framework/py/flwr/clientapp/mod/localdp_mod.py and
framework/py/flwr/common/differential_privacy.py (commit fdef7af). Flower itself has no defaults. Those of the
catalogue are the ones that FLIP, a platform of hospitals, states (londonaicentre/FLIP, pull request 833).
"""

import math
from typing import Annotated

import torch
from pydantic import Field

from leakbench.defences import Defence, Update
from leakbench.defences.certification import Facts, of_normal_noise
from leakbench.defences.clip import shortened


def flower_local_dp(
    *,
    clipping_norm: Annotated[float, Field(gt=0)] = 1.0,
    sensitivity: Annotated[float, Field(gt=0)] = 1e-4,
    epsilon: Annotated[float, Field(gt=0)] = 10.0,
    delta: Annotated[float, Field(ge=1e-9, lt=0.5)] = 1e-5,
) -> Defence:
    """Shorten the difference from the weights that were sent, and add normal noise.

    The noise's deviation is s √(2 ln(1.25/δ)) / ε. The ε of the settings holds only if `sensitivity` is at
    least the most that a client's data can change, which the bound of the norm makes twice `clipping_norm`.
    The certificate counts with that. It also computes ε exactly, because the formula of the noise is proven
    for ε below 1 only.

    clipping_norm: the largest Euclidean norm of the difference, above 0.
    sensitivity: s, which Flower takes as a number of its own, above 0.
    epsilon: the ε that is stated, above 0.
    delta: the δ that is stated.
    """
    deviation = sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon

    def noisy(update: Update, sent: Update, samples: int, rng: torch.Generator) -> Update:
        out = {}
        for name, value in shortened(update, clipping_norm).items():
            weights = sent[name] + value
            weights = weights + deviation * torch.randn(value.shape, generator=rng).to(value.device)
            out[name] = weights - sent[name]
        return out

    def certified(steps: int, kind: str) -> Facts:
        return {**of_normal_noise(deviation / (2 * clipping_norm), steps, delta), "stated": epsilon}

    return Defence(weights=noisy, certificate=certified)
