"""Whole sentences from one gradient, grown token by token in the spans of two blocks, or fitted into them."""

import torch
from torch import Tensor, nn

from leakbench.attacks import capable
from leakbench.attacks.exact.attention import Heard, heard
from leakbench.attacks.exact.mixtures import fitted
from leakbench.attacks.matching.received import as_gradient
from leakbench.base.errors import Unfit
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# As many beginnings are kept as the update has sentences, times this.
KEPT = 4
# As many beginnings with a next token go through a block at once.
AT_ONCE = 4096


@capable(rounds_at_once=1)
@torch.no_grad()
def sentences(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Return the sentences of each update (DAGER, Petrov et al., NeurIPS 2024).

    The span of the first block tells which tokens may stand at a place. What the second block reads at a
    place depends on the tokens up to there, and must lie in the span of its update too, so that sentences
    grow from their first token on. No layer reads the last token: it follows from the head's gradient, which
    is linear in the predicted tokens. Clients who do not send the head leave it to the model's own guess.

    A token of an encoder sees all places, so nothing grows: `exact.mixtures` finds its sentences.

    A sentence is usable if all that it reads lies in the spans. Its distance is the largest of its places.

    Raises Unfit where `exact.attention.heard` does, for a network of one block, and for several local steps,
    which move what the second block reads.
    """
    vocabulary, length = observation.network["classes"], observation.network["shape"][1]
    lead = observation.rounds, len(observation.clients), max(observation.clients)
    found = torch.zeros(*lead, 1, 1, length)
    usable, distance = torch.zeros(lead, dtype=torch.bool), torch.full(lead, torch.nan, dtype=torch.float64)
    for one in heard(observation, "sentences"):
        if not one.still or len(one.tests) < 2:
            raise Unfit("attack: sentences needs two blocks, and clients that take one step of plain descent")
        count = observation.clients[one.client]
        begun, apart = (_grown if one.model.causal else fitted)(one, length - 1, count)
        if not len(begun):
            continue
        whole = torch.cat([begun, _last(observation, one, begun, count)[:, None]], 1)
        place = one.round, one.client, slice(len(whole))
        found[place], usable[place], distance[place] = whole[:, None, None] / vocabulary, True, apart
    return Reconstruction(found, usable, span_distance=distance)


def _grown(one: Heard, length: int, count: int) -> tuple[Tensor, Tensor]:
    """Return an update's sentences without the last token, int64 [n, length], and their distances."""
    first, second = one.model.blocks[:2]
    every = torch.arange(one.model.embedding.num_embeddings)
    begun, apart = torch.zeros(1, 0, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)
    for at in range(length):
        may_be = every[one.tests[0](first.reads(one.model.at(every, at)))[1]]
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


def _last(observation: Observation, one: Heard, begun: Tensor, count: int) -> Tensor:
    """Return the last token of each sentence, int64 [n], from sentences `begun` [n, length] without it.

    The head's gradient is the mean of (p - y) hᵀ over all tokens. All but the last y of each sentence are
    known, so what is left is minus the sum of y hᵀ over the last ones: least squares for y.
    """
    padded = nn.functional.pad(begun, (0, 1))
    read, weight = one.model.read(padded[:, None, None] / one.model.embedding.num_embeddings)
    read = read if one.model.causal else read.mean(1, keepdim=True)
    logits = read @ weight.T
    name = "head.weight"
    if name not in observation.updates:
        return logits[:, -1].argmax(1)
    sent = observation.update(name, one.round)
    gradient = as_gradient(observation, sent, count)[one.client].double()
    known = logits.softmax(2)
    following = begun[:, 1 + begun.shape[1] - known.shape[1] :, None]
    known[:, :-1].scatter_add_(2, following, -torch.ones_like(known[:, :-1, :1]))
    left = known.flatten(0, 1).T @ read.flatten(0, 1) - count * begun.shape[1] * gradient
    return torch.linalg.lstsq(read[:, -1].T, left.T).solution.argmax(1)
