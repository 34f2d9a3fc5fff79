"""Whole sentences from one gradient of an encoder, as mixtures of tokens that are fitted into a span."""

import torch
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.exact.attention import Heard
from leakbench.attacks.exact.membership import LEAST
from leakbench.attacks.exact.whole import whole
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# Steps of Adam and their length, in the logits of the shares.
STEPS, RATE = 300, 0.1
# The logit by which a fixed token outweighs the others at its place.
FIXED = 30.0
# As many tokens are fixed at once, and altogether. An update that leaves more tokens at places than MOST is
# not read: noise hides its first span, and each fixed token has a share of all that are left.
AT_ONCE, TRIED, MOST = 32, 4096, 16384
# What it costs for each token of an update: a test of the whole vocabulary, and a fit.
COST = {"update": "(250 + weights * 1000) * tokens * samples"}


@capable(rounds_at_once=1)
@torch.no_grad()
def encoder_sentences(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Return the sentences of each update of a network in which each token sees all others.

    What the second block reads of a token depends on all tokens of its sentence. The first block's span
    leaves some tokens at each place. One of them is held fixed, and it sees a mixture of those that are left
    at the other places, as attention mixes them. The shares are optimised until what the second block reads
    of the fixed token lies in the span of its update (TIGER, Kalikman et al., 2026, optimises embeddings so).
    Few shares solve that, those of a sentence of the batch, and a test of every place decides.

    Raises Unfit where `exact.whole.whole` does, and for a decoder.
    """
    return whole(observation, _fitted, causal=False)


def _fitted(one: Heard, length: int, count: int) -> tuple[Tensor, Tensor]:
    """Return an update's sentences without the last token, int64 [n, length], and their distances."""
    left = [one.left(at)[1].nonzero()[:, 0] for at in range(length)]
    sizes = torch.tensor([len(each) for each in left])
    found: dict[tuple[int, ...], float] = {}
    if not sizes.min() or sizes.sum() > MOST:
        return sizes.new_zeros(0, length), torch.zeros(0, dtype=torch.float64)
    tokens, places = torch.cat(left), torch.arange(length).repeat_interleave(sizes)
    (first, second), others = one.model.blocks[:2], one.model.at(tokens, places)
    order = _ordered(one, tokens, places, sizes, count)
    while len(order) and len(found) < count:
        read = _mixed(one, left, others, order[:AT_ONCE])
        behind = second.reads(first(one.model.embedded(read)))
        apart, inside = (each.view(read.shape) for each in one.tests[1](behind.flatten(0, 1)))
        whole = inside.all(1)
        found.update(zip(map(tuple, read[whole].tolist()), apart[whole].amax(1).tolist(), strict=True))
        # A sentence that is still missing has a token at a place where no found one has it.
        order, have = order[AT_ONCE:], torch.tensor([*found]).view(-1, length)
        order = order[~(have[:, places[order]] == tokens[order]).any(0)]
    best = sorted(found, key=found.__getitem__)[:count]
    return torch.tensor(best).view(-1, length), torch.tensor([found[each] for each in best]).double()


def _ordered(one: Heard, tokens: Tensor, places: Tensor, sizes: Tensor, count: int) -> Tensor:
    """Return which of the `tokens` [m] that are left at `places` [m] are fixed, in this order, int64 [n].

    The gradient of a place is the sum of what each token there adds to its row of the embedding. So least
    squares tell how much of each row belongs to which place, wherever tokens do not stand at several. A batch
    has no more pairs than tokens. Without these gradients all are fixed, the places of few tokens first.
    """
    rows, sums = one.sent("embedding.weight"), one.sent("position.weight")
    if rows is None or sums is None:
        return sizes[places].argsort(stable=True)[:TRIED]
    known, at = tokens.unique(return_inverse=True)
    share = torch.linalg.lstsq(rows[known].T, sums[: len(sizes)].T).solution
    return share[at, places].argsort(descending=True)[: count * len(sizes)]


def _mixed(one: Heard, left: list[Tensor], others: Tensor, own: Tensor) -> Tensor:
    """Return the likeliest sentence [n, length] around each token `own` [n] of all `others` [m, width]."""
    (first, second), sizes = one.model.blocks[:2], [len(each) for each in left]
    held = others.new_zeros(len(own), len(others))
    held[torch.arange(len(own)), own] = FIXED
    logits, read = torch.zeros_like(held, requires_grad=True), first.amid(others[own], others)
    adam = torch.optim.Adam([logits], lr=RATE)
    for _ in range(STEPS):
        with torch.enable_grad():
            shares = torch.cat([each.softmax(1) for each in (logits + held).split(sizes, 1)], 1)
            outside, _ = one.tests[1](second.reads(read(shares)))
            # By logarithms a step does not shrink with the distance, which falls by orders of magnitude.
            (logits.grad,) = torch.autograd.grad(outside.clamp_min(LEAST).log().sum(), logits)
        adam.step()
    likely = (logits + held).detach().split(sizes, 1)
    return torch.stack([each[own.argmax(1)] for each, own in zip(left, likely, strict=True)], 1)
