"""Share a few coordinates, chosen and sent with Laplacian noise (NVFlare's `SVTPrivacy`).

Source of the facts: NVIDIA/NVFlare, nvflare/app_common/filters/svt_privacy.py (commit f3b7c1b).
"""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, Update, sparse


def spent(coordinates: int, fraction: float = 0.1, epsilon: float = 0.1, noise_var: float = 0.1) -> float:
    """Return the ε that NVFlare's ledger counts for an update: of the choice, and of each coordinate sent."""
    return epsilon + math.ceil(coordinates * fraction) * noise_var


def nvflare_svt(
    *,
    fraction: Annotated[float, Field(gt=0, le=1)] = 0.1,
    epsilon: Annotated[float, Field(gt=0)] = 0.1,
    noise_var: Annotated[float, Field(gt=0)] = 0.1,
    gamma: Annotated[float, Field(gt=0)] = 1e-5,
    tau: Annotated[float, Field(ge=0)] = 1e-6,
    steps: Annotated[int, Field(ge=1)] = 1,
) -> Defence:
    """Send coordinates that exceed a noisy threshold, bounded and with noise, and zero for the rest.

    Coordinates are chosen from those above the threshold with replacement, so fewer are sent than `fraction`
    says. The filter is made for differences of weights. The ε that a client spends is `spent`, which grows
    with the number of coordinates; `epsilon` is the part of it that pays for the choice.

    fraction: the share of all coordinates that is chosen, in (0, 1].
    epsilon: the budget of the choice, above 0.
    noise_var: the budget of each coordinate that is sent, above 0. The noise's scale is 2 gamma / noise_var.
    gamma: the bound on a coordinate, above 0, for each local step.
    tau: the threshold, 0 or more.
    steps: the number of local steps that the client reports.
    """

    def filtered(update: Update, rng: torch.Generator) -> Update:
        def laplacian(scale: float, *shape: int) -> Tensor:
            one, other = (torch.empty(shape, dtype=torch.float64).exponential_(generator=rng) for _ in "ab")
            return scale * (one - other)

        flat = torch.cat([value.flatten() for value in update.values()]).double() / steps
        bounded = flat.clamp(-gamma, gamma)
        count = math.ceil(len(flat) * fraction)
        ratio = (2 * count) ** (2 / 3)
        of_threshold = epsilon / (1 + ratio)
        of_query = epsilon - of_threshold
        threshold = tau + float(laplacian(gamma / of_threshold, 1))
        above = torch.zeros(len(flat), dtype=torch.bool)
        while int(above.sum()) < count:
            # A coordinate that is above the threshold once is not asked again.
            above |= bounded.abs() + laplacian(2 * gamma * count / of_query, len(flat)) >= threshold
        accepted = above.nonzero().squeeze(1)
        chosen = accepted[torch.randint(len(accepted), (count,), generator=rng)].unique()
        out = torch.zeros_like(flat)
        out[chosen] = (bounded[chosen] + laplacian(2 * gamma / noise_var, len(chosen))) * steps
        sizes = [value.numel() for value in update.values()]
        parts = zip(update.items(), out.float().split(sizes), strict=True)
        return {name: value if value[0].dim() == 0 else part.view_as(value) for (name, value), part in parts}

    return Defence(update=filtered, bits=sparse)
