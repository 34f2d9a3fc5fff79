"""How the images of a training study are divided: a part held out for validation, the rest among the clients."""

import numpy as np

from leakbench.errors import UserError

_DRAWS, _FEWEST = 1000, 2


def hold_out(count: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the places of the images to train on and of a random `share` held out of `count`, both int64."""
    order = rng.permutation(count)
    held = round(count * share)
    return order[held:], order[:held]


def divide(
    labels: np.ndarray, clients: int, split: str, alpha: float | None, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return the places of each client's images among `labels` [n]: disjoint, together all of them.

    `iid`: shuffled shares of one size. `dirichlet`: of each class the clients have proportions drawn from a symmetric
    Dirichlet distribution of concentration `alpha`, drawn anew until each has two images. Raises UserError where no draw
    gives them. Source: Hsu et al., Measuring the effects of non-identical data distribution (2019), section 2.
    """
    if split == "iid":
        return np.array_split(rng.permutation(len(labels)), clients)
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
