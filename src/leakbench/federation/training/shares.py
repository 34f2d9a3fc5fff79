"""The division of a training study's images: a part held out for validation, the rest among the clients."""

import numpy as np

from leakbench.base.errors import UserError

_DRAWS, _FEWEST = 1000, 2


def hold_out(count: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the images to train on and of those held out, both int64."""
    order = rng.permutation(count)
    held = round(count * share)
    return order[held:], order[:held]


def divide(
    labels: np.ndarray, clients: int, split: str, alpha: float | None, rng: np.random.Generator,
    owners: np.ndarray | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Return the places of each client's images: disjoint, and together all (Dirichlet: Hsu et al. 2019)."""
    if split == "iid":
        return np.array_split(rng.permutation(len(labels)), clients)
    if split == "by-client":
        return _owned(clients, owners)
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(_DRAWS):
        shares: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for members in classes:
            ends = np.cumsum(rng.dirichlet(np.full(clients, alpha)))[:-1] * len(members)
            for own, part in zip(
                shares, np.split(rng.permutation(members), ends.round().astype(int)), strict=True
            ):
                own.append(part)
        found = [np.concatenate(own) for own in shares]
        if min(map(len, found)) >= _FEWEST:
            return found
    raise UserError(
        f"alpha {alpha:g} leaves one of {clients} clients without images (raise it, or lower clients)"
    )


def _owned(clients: int, owners: np.ndarray | None) -> list[np.ndarray]:
    if owners is None:
        raise UserError(
            "split: by-client: the data set does not say whose its images are (choose iid or dirichlet)"
        )
    shares = [np.flatnonzero(owners == client) for client in range(clients)]
    if len(np.concatenate(shares)) < len(owners) or min(map(len, shares)) < _FEWEST:
        raise UserError(
            f"split: by-client: the data set's images are of {len(np.unique(owners))} clients, the training "
            f"has {clients} (set clients to theirs)"
        )
    return shares
