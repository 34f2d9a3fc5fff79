"""Secure aggregation: only the sum of a round's updates is seen, as by a client that decrypts it."""

from collections.abc import Sequence
from typing import Literal

import torch

from leakbench.defences import Defence, View, needs, summed


def aggregated(*, observer: Literal["server", "client"] = "server") -> Defence:
    """Show the mean of the updates, weighted by number of samples, as one client's update with all samples.

    observer: who sees the mean. A `client` is the first of those that take part. It subtracts its own share
    and so sees the mean of the others; of two clients it sees the other's update.

    Raises Unfit if fewer than two clients take part.
    """

    def view(clients: Sequence[int]) -> View:
        first = int(observer == "client")
        needs(clients, 2, "aggregated")
        samples = torch.tensor(clients, dtype=torch.float64)
        samples[:first] = 0
        return summed(
            [list(range(first, len(clients)))],
            (samples / samples.sum())[None],
            {"observer": observer, "shared": f"the sum of {len(clients)} clients' updates, each round"},
        )

    return Defence(view=view)
