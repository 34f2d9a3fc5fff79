"""The set of tokens of an update, from the span of what the first block of attention read."""

import torch

from leakbench.attacks import capable
from leakbench.attacks.exact.attention import heard
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# What it costs: each token of an update is tested with the whole vocabulary at each place.
COST = {"update": "250 * tokens * samples"}


@capable(rounds_at_once=1)
@torch.no_grad()
def token_span(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Measure for each token of the vocabulary how far it is from the span of the first block's update.

    The first block reads a token at its place: LN(E[v] + P[t]). A token counts at its nearest place. Where
    the embedding is frozen, as under adapters, what the block reads stands still, and the test holds after
    any number of steps of plain gradient descent. AdamW scales each weight by itself and leaves no span; the
    distances are then a ranking alone.

    Raises Unfit where `exact.attention.heard` does.
    """
    lead = observation.rounds, len(observation.clients), observation.network["classes"]
    distance, private = torch.ones(lead, dtype=torch.float64), torch.zeros(lead, dtype=torch.bool)
    for one in heard(observation, "token-span"):
        place = one.round, one.client
        for at in range(observation.network["shape"][1] - 1):
            apart, inside = one.left(at)
            distance[place] = torch.minimum(distance[place], apart)
            private[place] |= inside
    return Reconstruction(torch.zeros(*lead, 0), private, target="tokens", span_distance=distance)
