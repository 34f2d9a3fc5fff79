"""Share signs alone (as one-bit gradient compression does)."""

import torch

from leakbench.defences import Defence, Update


def sign() -> Defence:
    """Send the sign of every coordinate times the tensor's mean magnitude: one bit each and one number per tensor."""

    def protect_update(update: Update, rng: torch.Generator) -> Update:
        def signs(value: torch.Tensor) -> torch.Tensor:
            magnitude = value.flatten(1).abs().mean(1)
            return value.sign() * magnitude.view(-1, *[1] * (value.dim() - 1))

        return {name: signs(value) for name, value in update.items()}

    return Defence(protect_update=protect_update)
