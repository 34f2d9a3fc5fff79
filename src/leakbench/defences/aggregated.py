"""Only the sum of a round's updates is seen: secure aggregation, or what a client decrypts of an encrypted
round."""

from collections.abc import Sequence
from typing import Literal

import torch

from leakbench.defences import Defence, View, needs, summed


def aggregated(*, observer: Literal["server", "client"] = "server") -> Defence:
    """Show the mean of the updates, by number of samples, as that of one client with all their samples.

    A `client` among them, the first, subtracts its own share: what it sees is of the others, and of two
    clients the other's.
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
