"""What the two attacks on whole sentences share: whom they fit, the last token, and what they return."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leakbench.attacks.exact.attention import Heard, heard
from leakbench.attacks.matching.received import as_gradient
from leakbench.base.errors import Unfit
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# An update, the length of sentences without the last token, their number → sentences and their distances.
Search = Callable[[Heard, int, int], tuple[Tensor, Tensor]]


def whole(observation: Observation, search: Search, causal: bool) -> Reconstruction:
    """Return the sentences that a search finds in each update of a decoder (`causal`) or of an encoder.

    No layer reads the last token: it follows from the head's gradient, which is linear in the predicted
    tokens. Clients who do not send the head leave it to the model's own guess. A sentence is usable if all
    that it reads lies in the spans. Its distance is the largest of its places.

    Raises Unfit where `exact.attention.heard` does, for a network of one block, for several local steps,
    which move what the second block reads, and for a network that the other attack reads.
    """
    attack, other = ("sentences", "encoder-sentences") if causal else ("encoder-sentences", "sentences")
    vocabulary, length = observation.network["classes"], observation.network["shape"][1]
    lead = observation.rounds, len(observation.clients), max(observation.clients)
    found = torch.zeros(*lead, 1, 1, length)
    usable, distance = torch.zeros(lead, dtype=torch.bool), torch.full(lead, torch.nan, dtype=torch.float64)
    for one in heard(observation, attack):
        if one.model.causal != causal:
            raise Unfit(f"attack: {attack} does not read this network (choose {other})")
        if not one.still or len(one.tests) < 2:
            raise Unfit(f"attack: {attack} needs two blocks, and clients that take one step of plain descent")
        count = observation.clients[one.client]
        begun, apart = search(one, length - 1, count)
        if not len(begun):
            continue
        read = torch.cat([begun, _last(observation, one, begun, count)[:, None]], 1)
        place = one.round, one.client, slice(len(read))
        found[place], usable[place], distance[place] = read[:, None, None] / vocabulary, True, apart
    return Reconstruction(found, usable, span_distance=distance)


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
