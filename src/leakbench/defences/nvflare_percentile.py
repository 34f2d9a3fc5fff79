"""Share the larger part of an update, cut off at a bound (NVFlare's `PercentilePrivacy`).

Source of the facts: NVIDIA/NVFlare, nvflare/app_common/filters/percentile_privacy.py (commit f3b7c1b).
"""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from leakbench.defences import Defence, Update


def nvflare_percentile(
    *,
    percentile: Annotated[float, Field(ge=0, le=100)] = 10,
    gamma: Annotated[float, Field(gt=0)] = 0.01,
    steps: Annotated[int, Field(ge=1)] = 1,
) -> Defence:
    """Send zero for coordinates below a percentile of all magnitudes, and bound the others.

    The filter adds no noise and states no privacy budget. It is made for differences of weights. A tensor
    that is a single number is sent as it is.

    percentile: the percentile of all magnitudes, 0 to 100. Coordinates below it are not sent.
    gamma: the bound on what is sent of a coordinate, above 0, for each local step.
    steps: the number of local steps that the client reports.
    """

    def filtered(update: Update, rng: torch.Generator) -> Update:
        each = {name: value / steps for name, value in update.items()}
        magnitudes = np.abs(np.concatenate([value.numpy().ravel() for value in each.values()]))
        cutoff = float(np.percentile(magnitudes, percentile))
        return {
            name: update[name]
            if value[0].dim() == 0
            else torch.where(value.abs() < cutoff, 0.0, value).clamp(-gamma, gamma) * steps
            for name, value in each.items()
        }

    return Defence(update=filtered)
