"""Whole sentences from one gradient of a decoder, grown token by token in the spans of two blocks."""

import torch
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.exact.attention import Heard
from leakbench.attacks.exact.whole import whole
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# As many beginnings are kept as the update has sentences, times this.
KEPT = 4
# As many beginnings with a next token go through a block at once.
AT_ONCE = 4096
# What it costs: each token is tested with the whole vocabulary, and each pair of tokens when sentences grow.
COST = {"update": "250 * tokens * samples + weights * 4 * (tokens * samples) * (tokens * samples)"}


@capable(rounds_at_once=1)
@torch.no_grad()
def sentences(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Return the sentences of each update (DAGER, Petrov et al., NeurIPS 2024).

    The span of the first block tells which tokens may stand at a place. What the second block reads at a
    place depends on the tokens up to there, and must lie in the span of its update too, so that sentences
    grow from their first token on.

    Raises Unfit where `exact.whole.whole` does, and for an encoder.
    """
    return whole(observation, _grown, causal=True)


def _grown(one: Heard, length: int, count: int) -> tuple[Tensor, Tensor]:
    """Return an update's sentences without the last token, int64 [n, length], and their distances."""
    first, second = one.model.blocks[:2]
    begun, apart = torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)
    for at in range(length):
        may_be = one.left(at)[1].nonzero()[:, 0]
        if not len(may_be) or not len(begun):
            return begun.new_zeros(0, length), apart[:0]
        read, new = one.model.embedded(begun), one.model.at(may_be, at)
        longer = torch.cat([begun.repeat_interleave(len(may_be), 0), may_be.repeat(len(begun))[:, None]], 1)
        tests = [
            one.tests[1](second.reads(first.after(part, new)).flatten(0, 1))
            for part in read.split(max(1, AT_ONCE // len(may_be)))
        ]
        outside, inside = (torch.cat(each) for each in zip(*tests, strict=True))
        apart = torch.maximum(apart.repeat_interleave(len(may_be)), outside)[inside]
        order = apart.argsort()[: KEPT * count]
        begun, apart = longer[inside][order], apart[order]
    return begun[:count], apart[:count]
