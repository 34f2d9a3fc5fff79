"""Span membership of attention: which of the sentences or pictures that a server holds were in a batch."""

import torch

from leakbench.attacks import capable
from leakbench.attacks.exact.attention import heard
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# As many candidates go through a block at once.
AT_ONCE = 256
# What it costs: each token of an update is tested with the whole vocabulary, and each of a candidate.
COST = {"update": "250 * tokens * samples + weights * (5 * held * tokens)"}


@capable(rounds_at_once=1)
@torch.no_grad()
def sentence_membership(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Measure for each candidate how far what the blocks read of it lies outside the spans of an update.

    The distance of a candidate is that of its farthest token (ProjRes, Deng et al., arXiv:2604.21197, tests
    a whole record at once). Clients who take several steps move what the second block reads, so only the
    first block is asked about them. It knows no order: all tokens of the batch at their places lie in its
    span, whichever sentence they are from. Under AdamW the distances are a ranking alone. The tokens of a
    picture are its patches, as a ViT reads them.

    Raises Unfit where the observation holds no candidates, and where `exact.attention.heard` does.
    """
    held = observation.held("sentence-membership")
    lead = observation.rounds, len(observation.clients), len(held)
    distance, private = torch.zeros(lead, dtype=torch.float64), torch.ones(lead, dtype=torch.bool)
    for one in heard(observation, "sentence-membership", pictures=True):
        for start in range(0, len(held), AT_ONCE):
            x = one.model.begins(held[start : start + AT_ONCE].double())
            place = one.round, one.client, slice(start, start + len(x))
            for block, test in list(zip(one.model.blocks, one.tests, strict=True))[: 2 if one.still else 1]:
                apart, inside = (each.view(x.shape[:2]) for each in test(block.reads(x).flatten(0, 1)))
                distance[place] = torch.maximum(distance[place], apart.amax(1))
                private[place] &= inside.all(1)
                x = block(x)
    return Reconstruction(torch.zeros(*lead, 0), private, target="candidates", span_distance=distance)
