"""Sentences of an encoder: mixtures of tokens at each place, fitted so that one token lies in a span.

What the second block reads of a token depends on all tokens of its sentence. The first block's span leaves
some tokens at each place. One of them is held fixed, and it sees a mixture of those that are left at the
other places, as attention mixes them. The shares are optimised until what the second block reads of the
fixed token lies in the span of its update (TIGER, Kalikman et al., 2026, optimises embeddings so). Few
shares solve that, those of a sentence of the batch, and a test of every place decides.
"""

import torch
from torch import Tensor

from leakbench.attacks.exact.attention import Heard

# Steps of Adam and their length, in the logits of the shares.
STEPS, RATE = 300, 0.2
# The logit by which a fixed token outweighs the others at its place.
FIXED = 30.0
# As many tokens are fixed at once. An update that leaves more tokens at places than MOST is not read: noise
# hides its first span, and each token takes its steps.
AT_ONCE, MOST = 64, 4096
# Where sentences are missing, as many of the nearest ones have their tokens exchanged, this often each.
CHANGED, SWEEPS = 16, 2


def fitted(one: Heard, length: int, count: int) -> tuple[Tensor, Tensor]:
    """Return an update's sentences without the last token, int64 [n, length], and their distances.

    Places are tried in the order of the number of tokens that are left there, until all `count` are found.
    """
    first, every = one.model.blocks[0], torch.arange(one.model.embedding.num_embeddings)
    left = [every[one.tests[0](first.reads(one.model.at(every, at)))[1]] for at in range(length)]
    found: dict[tuple[int, ...], float] = {}
    near: list[tuple[float, tuple[int, ...]]] = []
    sizes = [len(each) for each in left]

    def keep(read: Tensor) -> None:
        apart, whole = _apart(one, read)
        found.update(zip(map(tuple, read[whole].tolist()), apart[whole].amax(1).tolist(), strict=True))
        sums = apart[~whole].square().sum(1).tolist()
        near.extend(zip(sums, map(tuple, read[~whole].tolist()), strict=True))

    if min(sizes) and sum(sizes) <= MOST:
        order = sorted(range(length), key=sizes.__getitem__)
        tries = ((at, fixed) for at in order for fixed in every[: sizes[at]].split(AT_ONCE))
        for place, fixed in tries:
            keep(_mixed(one, left, place, fixed))
            if len(found) >= count:
                break
        else:
            if near:
                keep(_exchanged(one, left, torch.tensor([each for _, each in sorted(near)[:CHANGED]])))
    best = sorted(found, key=found.__getitem__)[:count]
    return torch.tensor(best).view(-1, length), torch.tensor([found[each] for each in best]).double()


def _apart(one: Heard, read: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far each token of sentences [n, length] is outside the second span, and who lie in it."""
    behind = one.model.blocks[1].reads(one.model.blocks[0](one.model.embedded(read)))
    apart, inside = (each.view(read.shape) for each in one.tests[1](behind.flatten(0, 1)))
    return apart, inside.all(1)


def _exchanged(one: Heard, left: list[Tensor], read: Tensor) -> Tensor:
    """Return sentences [n, length] nearer to the span, by the best token left at each place in turn."""
    read = read.clone()
    for at in list(range(len(left))) * SWEEPS:
        tried = read[:, None].repeat(1, len(left[at]), 1)
        tried[:, :, at] = left[at]
        parts = [_apart(one, part)[0].square().sum(1) for part in tried.flatten(0, 1).split(AT_ONCE)]
        read[:, at] = left[at][torch.cat(parts).view(len(read), -1).argmin(1)]
    return read


def _mixed(one: Heard, left: list[Tensor], at: int, fixed: Tensor) -> Tensor:
    """Return the likeliest sentence [n, length] around each of the tokens `fixed` [n] of those left `at`."""
    first, second = one.model.blocks[:2]
    sizes = [len(each) for each in left]
    others = torch.cat([one.model.at(each, place) for place, each in enumerate(left)])
    own = sum(sizes[:at]) + fixed
    held = others.new_zeros(len(own), len(others))
    held[torch.arange(len(own)), own] = FIXED
    logits, read = torch.zeros_like(held, requires_grad=True), first.amid(others[own], others)
    adam = torch.optim.Adam([logits], lr=RATE)
    for _ in range(STEPS):
        with torch.enable_grad():
            shares = torch.cat([each.softmax(1) for each in (logits + held).split(sizes, 1)], 1)
            outside, _ = one.tests[1](second.reads(read(shares)))
            (logits.grad,) = torch.autograd.grad(outside.square().sum(), logits)
        adam.step()
    likely = (logits + held).detach().split(sizes, 1)
    return torch.stack([each[own.argmax(1)] for each, own in zip(left, likely, strict=True)], 1)
