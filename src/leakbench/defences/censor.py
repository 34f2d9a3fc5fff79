"""CENSOR: send a random direction that is orthogonal to the gradient (Zhang et al., NDSS 2025)."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Batch, Defence, Update

# Thousands of calls of torch for each sample, whose own gradient it changes (`catalogue.costs`).
COST = 2.5


def orthogonal(value: Tensor, rng: torch.Generator, released: bool) -> Tensor:
    """Return a random tensor that is orthogonal to `value` and has the same norm."""
    drawn = torch.randn(value.shape, generator=rng, dtype=value.dtype).to(value.device)
    drawn = drawn / drawn.norm()
    norm = value.norm().clamp_min(torch.finfo(value.dtype).tiny)
    drawn = drawn - (drawn * value).sum() / (norm if released else norm.square()) * value
    left = drawn.norm()
    # No direction is orthogonal to a single number.
    return drawn / left * norm if left > 1e-6 else torch.zeros_like(value)


def censor(
    *,
    trials: Annotated[int, Field(ge=1, le=1000)] = 20,
    rate: Annotated[float, Field(gt=0)] = 1e-4,
    released: bool = False,
) -> Defence:
    """Replace each tensor of a step's gradient by a random direction orthogonal to it, of the same norm.

    Of `trials` draws the client sends the one after whose step the loss on its batch is lowest. The defaults
    are those of the authors' code (github.com/KaiyuanZh/censor, 2739a36). That code stops defending after ten
    epochs; this defence does not stop.

    trials: the number of directions that are tried.
    rate: the learning rate of the step after which the loss decides between directions.
    released: do as the authors' code. Its projection is orthogonal only to tensors of norm one, and it sends
    the gradient itself if no direction lowers the loss.
    """

    def examples(batch: Batch, rng: torch.Generator) -> Update:
        gradient = batch.mean()
        with torch.no_grad():
            best, sent = (float(batch.loss_of(batch.weights)), gradient) if released else (torch.inf, {})
            for _ in range(trials):
                drawn = {name: orthogonal(value, rng, released) for name, value in gradient.items()}
                stepped = {name: value - rate * drawn[name] for name, value in batch.weights.items()}
                after = float(batch.loss_of(stepped))
                if after < best or not sent:
                    best, sent = after, drawn
        return sent

    return Defence(examples=examples)
