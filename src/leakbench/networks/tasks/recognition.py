"""The task of reading one word on each image, by connectionist temporal classification.

Logits [n, steps, characters + 1] have the blank as their last class. Labels int64 [n, length] are codes of
characters, padded with -1. Source: Graves et al., Connectionist temporal classification (2006).
"""

import torch
from torch import Tensor
from torch.nn.functional import ctc_loss, pad

from leakbench.base.errors import UserError

NONE = -1


def loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over the images of minus the log probability of their words, whatever their length."""
    _refuse(outputs)
    n, steps, classes = outputs.shape
    given = torch.full((n,), steps, dtype=torch.long)
    lengths = (labels != NONE).sum(1).cpu()
    each = ctc_loss(
        outputs.log_softmax(2).transpose(0, 1),
        labels.clamp(min=0),
        given,
        lengths,
        blank=classes - 1,
        reduction="none",
        zero_infinity=True,
    )
    return each.mean()


def read(outputs: Tensor) -> Tensor:
    """Return the likeliest character of each step, without repetitions and blanks."""
    _refuse(outputs)
    best = outputs.argmax(2)
    kept = best != outputs.shape[2] - 1
    kept[:, 1:] &= best[:, 1:] != best[:, :-1]
    words = torch.full_like(best, NONE)
    place = kept.cumsum(1) - 1
    rows = torch.arange(len(best), device=best.device)[:, None].expand_as(best)
    words[rows[kept], place[kept]] = best[kept]
    return words


def correct(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return which images are read as their whole word, by the likeliest character of each step, bool [n]."""
    words = read(outputs)
    length = max(words.shape[1], labels.shape[1])
    whole, truth = (pad(x, (0, length - x.shape[1]), value=NONE) for x in (words, labels))
    return (whole == truth).all(1)


def _refuse(outputs: Tensor) -> None:
    if outputs.dim() != 3:
        raise UserError(
            "config/trainings: task: recognition takes logits [images, steps, characters], and the victim's "
            f"have {outputs.dim()} dimensions (choose a victim that reads, such as crnn, or the task "
            "classification)"
        )
