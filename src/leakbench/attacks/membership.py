"""Span membership: which of the images that a server holds were in a batch."""

import torch

from leakbench.attacks.exact.membership import distances, spans, within
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction


@torch.no_grad()
def membership(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Measure for each candidate how far it is from the span of the update of the first dense layer.

    A sample of the batch lies in that span, whatever the activation, after any number of local steps on the
    same samples, and also in the sum of several clients (`exact.membership`). A candidate is taken for
    private if it lies in the span as far as the noise of the update can show. DAGER (Petrov et al., NeurIPS
    2024) tests the tokens of a text in the same way. Where a defence transforms images, an adaptive attack
    tests every image that a candidate may have become, and the nearest counts.

    Raises Unfit where the observation holds no candidates, and where `exact.membership.spans` does.
    """
    held = observation.held("membership")
    lead = observation.rounds, len(observation.clients), len(held)
    distance, private = torch.ones(lead, dtype=torch.float64), torch.zeros(lead, dtype=torch.bool)
    may_be = observation.adaptation.alternatives
    looks = [held] if may_be is None else list(may_be(held))
    read, samples = None, []
    for seen in spans(observation, "membership"):
        if seen.read is not read:
            read, samples = seen.read, [seen.read(look) for look in looks]
        each = [distances(seen.found, sample) for sample in samples]
        near = [within(seen.found, x, apart) for x, apart in zip(samples, each, strict=True)]
        place = seen.round, seen.client
        distance[place] = torch.stack(each).amin(0)
        private[place] = torch.stack(near).any(0)
    return Reconstruction(torch.zeros(*lead, 0), private, target="candidates", span_distance=distance)
