"""The set of tokens of an update, from the rows of its embedding or of its head."""

from typing import Literal

import torch
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.exact.attention import embedding_of
from leakbench.base.errors import Unfit
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# A row belongs to the batch if it is this many times as long as the rows of tokens that did not occur.
LOUD = 2.0
# A weight difference is off by the rounding of both weights, with a margin for the sum of clients.
ROUNDED = 8 * torch.finfo(torch.float32).eps


@capable(rounds_at_once=1)
@torch.no_grad()
def tokens(
    observation: Observation, rng: torch.Generator, *, of: Literal["embedding", "head"] = "embedding"
) -> Reconstruction:
    """Return which tokens of the vocabulary were in an update.

    The gradient of an embedding is zero in the row of every token that does not occur, also after several
    local steps of any optimiser, and also in sums of clients. Decay moves these rows too, all by the same
    share of themselves, which is estimated and taken off. Where a defence adds noise to every row, rows of
    tokens that occurred must be longer than those of the others. Tied to a head, every row moves: the
    lengths then rank the tokens and decide on none.

    of: `embedding` finds what was read. `head` ranks what was predicted, every token but the first of a
    sentence; its rows are all moved by the softmax, so that it decides on no token.

    The distance of a token is 1 minus the length of its row as a share of the longest. Raises Unfit where the
    network has no such layer, or where clients do not send it.
    """
    model = observation.model()
    decides = of == "embedding" and getattr(model, "head", model) is not None
    name = next(name for name, layer in model.named_modules() if layer is embedding_of(model, "tokens"))
    name = f"{name if of == 'embedding' else 'head'}.weight"
    if name not in observation.updates:
        raise Unfit(f"attack: tokens: clients do not send {name} (frozen, or tied to another)")
    length = observation.network["shape"][1] - 1
    lead = observation.rounds, len(observation.clients), observation.network["classes"]
    distance, private = torch.ones(lead, dtype=torch.float64), torch.zeros(lead, dtype=torch.bool)
    for number, origin in enumerate(observation.origin.tolist()):
        sent = observation.sent(name, origin).double()
        updates = observation.update(name, number).double()
        for client, update in enumerate(updates):
            decays = observation.kind == "model" and bool(observation.local.get("weight_decay"))
            most = min(observation.clients[client] * length, len(update))
            rows, rounding = undecayed(update, sent, most) if decays else (update, 0.0)
            size = rows.norm(dim=1)
            # At least this many rows are those of tokens that did not occur, and this is one of the smaller.
            quiet = size.sort().values[(len(size) - most) // 2]
            if decides:
                private[number, client] = size > LOUD * quiet + rounding
            if size.any():
                distance[number, client] = 1 - size / size.max()
    return Reconstruction(torch.zeros(*lead, 0), private, target="tokens", span_distance=distance)


def undecayed(update: Tensor, sent: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return an embedding's update [tokens, width] without weight decay, and by how much rounding moves each
    row, if `most` tokens occurred at most.

    A token that did not occur moves along its row, by the same share of it as all others.
    """
    share = (update * sent).sum(1) / sent.square().sum(1)
    if 4 * most > len(update):
        # The median of all rows could be of tokens that occurred. Rows that move along themselves did not.
        aside = (update - share[:, None] * sent).norm(dim=1) / update.norm(dim=1).clamp_min(1e-300)
        share = share[aside.nan_to_num(torch.inf).argsort()[: max(1, len(update) - most)]]
    # A row of zeros, such as that of a padding token, has no share.
    return update - share.nan_to_num(0.0).median() * sent, ROUNDED * sent.norm(dim=1)
