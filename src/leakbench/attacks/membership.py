"""Span membership: which of the images that a server holds were in a batch."""

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.exact.membership import Read, outside, spans
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# The loss behind the first dense layer is not computed, so that it may be any.
ANY_LOSS = True
COST = {"update": "8000 * (1 + weights)"}
# What is added to the covariance of the candidates before it is inverted, as a share of their variance. It
# was chosen on updates that no experiment measures; ten times more or less finds fewer members.
RIDGE = 5e-4
# A candidate is taken for private if its score exceeds the median candidate's by this many deviations.
FAR = 4.0


@torch.no_grad()
def membership(
    observation: Observation,
    rng: torch.Generator,
    *,
    whitened: Annotated[bool, Field(exclude_if=lambda on: on == 0)] = False,
) -> Reconstruction:
    """Measure for each candidate how far it is from the span of the update of the first dense layer.

    A sample of the batch lies in that span, whatever the activation, after any number of local steps on the
    same samples, and also in the sum of several clients (`exact.membership`). A candidate is taken for
    private if it lies in the span as far as the noise of the update can show. DAGER (Petrov et al., NeurIPS
    2024) tests the tokens of a text in the same way. Where a defence transforms images, an adaptive attack
    tests every image that a candidate may have become, and the nearest counts.

    whitened: whether the attack is adapted to noise. Noise hides which directions are the span's last ones,
    and images that resemble each other are all near the first ones. So the attack takes from each candidate
    what it has in common with all candidates, and asks how strongly the update answers to the rest.

    Raises Unfit where the observation holds no candidates, and where `exact.membership.spans` does.
    """
    held = observation.held("membership")
    lead = observation.rounds, len(observation.clients), len(held)
    distance, private = torch.ones(lead, dtype=torch.float64), torch.zeros(lead, dtype=torch.bool)
    may_be = observation.adaptation.alternatives
    looks = [held] if may_be is None else list(may_be(held))
    read: Read | None = None
    samples: list[Tensor] = []
    for seen in spans(observation, "membership"):
        if seen.read is not read:
            read, samples = seen.read, [seen.read(look) for look in looks]
            samples = [_own(sample) for sample in samples] if whitened else samples
        if whitened:
            answers = torch.stack([sample @ seen.update.T for sample in samples]).norm(dim=2).amax(0)
            # No direction's answer is longer than the whole update.
            answers = (answers / seen.update.norm().clamp_min(1e-30)).clamp_max(1)
            away = answers - answers.median()
            private[seen.round, seen.client] = away > FAR * 1.4826 * away.abs().median()
            distance[seen.round, seen.client] = 1 - answers
            continue
        apart, inside = zip(*(outside(seen.found, sample) for sample in samples), strict=True)
        place = seen.round, seen.client
        distance[place] = torch.stack(apart).amin(0)
        private[place] = torch.stack(inside).any(0)
    return Reconstruction(torch.zeros(*lead, 0), private, target="candidates", span_distance=distance)


def _own(samples: Tensor) -> Tensor:
    """Return the directions X (C + λ)⁻¹ [n, inputs] of what each centred sample has beyond the others."""
    centred = samples - samples.mean(0)
    gram = centred @ centred.T / len(samples)
    ridge = RIDGE * gram.trace().clamp_min(1e-30)
    own = torch.linalg.solve(gram + ridge * torch.eye(len(samples), dtype=gram.dtype), centred)
    return torch.nn.functional.normalize(own)
