"""Fused updates: clients receive mixtures of updates for cross-validation (FedBoosting, section 4.2.3)."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.defences import Defence, Update, View, needs
from leakbench.defences.aggregation import fused_shares

_OBSERVER = 0


def _drawn(count: int, rng: torch.Generator) -> Tensor:
    """Draw the shares of each client's update in each mixture, [count, count].

    A row is uniform among shares that add up to 1, sorted in descending order and rotated: its own is
    largest.
    """
    drawn = -torch.rand(count, count, generator=rng, dtype=torch.float64).clamp_min(1e-12).log()
    rows = (drawn / drawn.sum(1, keepdim=True)).sort(1, descending=True).values
    return torch.stack([row.roll(i) for i, row in enumerate(rows)])


def fused(
    *,
    own: Annotated[float, Field(gt=0, le=1)] = 0.9,
    shares: Literal["constant", "known", "drawn"] = "constant",
) -> Defence:
    """Show a client, the first, the fused updates of the others (Eqn 4.5).

    own: the share of a client's own update in its mixture. All other updates have equal parts of the rest.
    shares: what the attacker knows of the shares. With `constant` it takes a mixture for the update. With
    `known` it knows `own`, which the authors' code fixes, and solves N equations for N updates. With `drawn`
    the shares are drawn anew in each round, as the text has it, and no attacker knows them.

    Raises Unfit if fewer than two clients take part.
    """

    def view(clients: Sequence[int]) -> View:
        needs(clients, 2, "fused")
        count = len(clients)
        others = [i for i in range(count) if i != _OBSERVER]
        fixed = torch.tensor(fused_shares(count, own), dtype=torch.float64)

        def seen(updates: Update, rng: torch.Generator) -> Update:
            mixed = _drawn(count, rng) if shares == "drawn" else fixed
            out = {}
            for name, value in updates.items():
                # Models are sent as float32.
                fusion = (mixed @ value.double().flatten(1)).float()
                found = torch.linalg.solve(mixed, fusion.double()).float() if shares == "known" else fusion
                out[name] = found[others].view(-1, *value.shape[1:])
            return out

        told = {"constant": "taken for updates", "known": "shares known", "drawn": "shares secret"}[shares]
        knows = {"observer": "client", "shared": f"fused updates of {count} clients, each round, {told}"}
        return View([[i] for i in others], seen, knows)

    return Defence(view=view)
