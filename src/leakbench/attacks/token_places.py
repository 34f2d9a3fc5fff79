"""Every token of an update at its place, from the rows of the embeddings of tokens and of places."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.exact.adam import by_adam
from leakbench.attacks.tokens import tokens, undecayed
from leakbench.base.errors import Unfit
from leakbench.networks.victims.published import Published
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

TABLES = "embedding.weight", "position.weight"
# Steps of the splitting, and the length in units of the mean row by which each shortens a part.
STEPS, SHORTER = 300, 0.1
# What it costs: each place of a sentence with each other.
COST = {"update": "weights * tokens * tokens * samples"}


@capable(rounds_at_once=1)
@torch.no_grad()
def token_places(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Name the tokens of each place of an update, also after several local steps.

    A block reads E[v] + P[t], so a token at a place moves both rows alike. The row of a token is then the sum
    over its places, and the row of a place the sum over its tokens, in any sum of clients and after any
    number of steps of plain gradient descent. Those steps move what attention reads, and no span is left. Of
    all ways to split the rows of tokens over places, that of the least sum of lengths has few parts. Adam
    scales each weight by itself; there least squares tells of which tokens a place's row is made best.

    `tokens` says which tokens occurred. At most as many are named at a place as the update has sentences.
    There is a distance for each token and place, token by token. It is smaller for longer parts.

    Raises Unfit where clients do not send the embedding of places, and where `tokens` does.
    """
    named, places = tokens(observation, rng).usable, observation.network["shape"][1] - 1
    distance = torch.ones(*named.shape, places, dtype=torch.float64)
    private = torch.zeros(*named.shape, places, dtype=torch.bool)
    for number, origin in enumerate(observation.origin.tolist()):
        model: Any = observation.model(origin)
        seen = observation
        if isinstance(model, Published):
            seen, model = replace(seen, updates=model.renamed(seen.updates)), model.twin()
        if TABLES[1] not in seen.updates:
            raise Unfit(f"attack: token-places: clients do not send {TABLES[1]} (frozen, or not there)")
        sent = torch.cat([model.get_parameter(name).double() for name in TABLES])
        updates = torch.cat([seen.update(name, number) for name in TABLES], 1).double()
        for client, count in enumerate(observation.clients):
            update, own = updates[client], named[number, client].nonzero()[:, 0]
            if not len(own):
                continue
            if observation.kind == "model" and observation.local.get("weight_decay"):
                update = undecayed(update, sent, min(len(sent), (count + 1) * places))[0]
            rows, sums = update[own], update[-places:]
            solved = torch.linalg.lstsq(rows.T, sums.T, driver="gelsd").solution
            part = solved if by_adam(observation) else _parts(rows, sums)
            distance[number, client, own] = 1 - part / part.max().clamp_min(1e-300)
            most, best = part.topk(min(count, len(own)), 0)
            private[number, client, own[best], torch.arange(places)] = most > 0
    return Reconstruction(
        torch.zeros(*private.flatten(2).shape, 0), private.flatten(2), target="tokens",
        span_distance=distance.flatten(2),
    )  # fmt: skip


def _parts(rows: Tensor, sums: Tensor) -> Tensor:
    """Return the lengths [n, m] of parts into which `rows` [n, width] fall that add up to `sums` [m, width].

    Alternating directions: parts that add up both ways, and shorter ones, are brought together.
    """
    mean = rows.norm(dim=1).mean()
    rows, sums = rows / mean, sums / mean
    short = owed = rows.new_zeros(len(rows), *sums.shape)
    for _ in range(STEPS):
        whole = short - owed
        row = (rows - whole.sum(1)) / len(sums)
        whole = whole + row[:, None] + (sums - whole.sum(0) - row.sum(0)) / len(rows)
        owed = whole + owed
        short = owed * (1 - SHORTER / owed.norm(dim=2, keepdim=True).clamp_min(SHORTER))
        owed = owed - short
    return short.norm(dim=2)
