"""Add normal noise in proportion to the update (`GaussianPrivacy` of an NVFlare research project).

Source of the facts: NVIDIA/NVFlare, research/quantifying-data-leakage/src/nvflare_gradinv/filters/
gaussian_privacy.py (commit f3b7c1b).
"""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from leakbench.defences import Defence, Update


def nvflare_gaussian(
    *, sigma0: Annotated[float, Field(ge=0)] = 0.1, percentile: Annotated[float, Field(ge=0, le=100)] = 95
) -> Defence:
    """Add normal noise whose deviation is a share of a percentile of the update's own magnitudes.

    The noise grows with the update, and no norm is bounded, so the filter states no privacy budget.

    sigma0: the noise's deviation as a share of that percentile, 0 or more.
    percentile: the percentile of all magnitudes that are not zero, 0 to 100.
    """

    def noisy(update: Update, rng: torch.Generator) -> Update:
        magnitudes = np.abs(np.concatenate([value.numpy().ravel() for value in update.values()]))
        magnitudes = magnitudes[magnitudes > 0]
        scale = sigma0 * float(np.percentile(magnitudes, percentile)) if len(magnitudes) else 0.0
        return {name: v + scale * torch.randn(v.shape, generator=rng) for name, v in update.items()}

    return Defence(update=noisy)
