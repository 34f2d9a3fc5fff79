"""SPEAR (Dimitrov et al., arXiv:2403.03945) with a search in polynomial time: batches from a gradient."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks import capable
from leakbench.attacks.exact.columns import columns_of, last_column
from leakbench.attacks.exact.first_layer import FirstLayer
from leakbench.attacks.exact.solved import Solved, nothing, reconstruction, samples_of
from leakbench.attacks.exact.span import Span
from leakbench.attacks.exact.sparse import directions, distinct
from leakbench.attacks.peel import peeled
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# The loss behind the first dense layer is not computed, so that it may be any.
ANY_LOSS = True
# What it costs: the span of an update, proofs with the square of the batch and searches with its cube, and
# each of at most 1,000 neurons that samples open differently.
COST = {"update": "8000 * (1 + weights) + weights * samples * samples * (0.2 + 0.07 * samples)"
                  " + 100 * min(weights * 1e6 / values, 1000)"}  # fmt: skip
# A column is new if the part of it outside the span of the others has at least this length.
INDEPENDENT = 1e-6


@capable(rounds_at_once=1)
def spear(
    observation: Observation,
    rng: torch.Generator,
    *,
    peel: bool = False,
    starts: Annotated[int, Field(gt=0)] = 60,
    share: Annotated[float, Field(gt=0, lt=1)] = 0.3,
    search: Literal["fixed-point", "drawn"] = "fixed-point",
    patience: Annotated[int, Field(gt=0)] = 12,
) -> Reconstruction:
    """Recover whole batches, with labels, from the gradient of a first dense layer that a ReLU follows.

    The gradient is a product of two matrices. The first holds what each sample adds to the gradient of each
    neuron's bias, and is zero where the ReLU closes the neuron for the sample. The second holds the samples.
    The singular vectors of the gradient give both matrices up to an invertible one. The zeros give that one,
    column by column (`exact.sparse`), and the gradient of the bias gives the scale of each column. Only
    proven samples are usable, and behind dropout they have no labels.

    peel: whether samples are peeled first (`attacks.peel`), so that the search has fewer left to find.
    starts: the largest number of batches of starts.
    share: how many neurons must be closed for a sample, beyond the number that determines its column: a share
    of the other neurons, between 0 and 1.
    search: `drawn` is the published search, whose number of draws grows exponentially with the batch.
    `fixed-point` is our own search and takes seconds for a hundred samples.
    patience: the search ends after this number of batches of starts in a row that found no new column. Draws
    for a network with one hidden layer need more.

    Raises Unfit where `first_layers` does.
    """

    tries = partial(directions, share=share, most=starts, rng=rng, search=search, patience=patience)

    def solve(layer: FirstLayer, seen: Span) -> Solved:
        return _searched(layer, seen, peeled(layer, seen) if peel else nothing(layer), tries)

    return reconstruction(observation, solve, "spear")


def _searched(
    layer: FirstLayer, seen: Span, best: Solved, tries: Callable[..., Iterator[tuple[int, Tensor]]]
) -> Solved:
    """Return the solution with the largest number of proven samples."""
    rows, rank = distinct(seen.left), len(seen.values)
    known, _ = columns_of(layer, seen, best.samples)
    pool = [(int(rows.times.sum()), q) for q in known]
    found = tries(rows, seen.zero, known=known)
    while len(best.samples) < rank and (each := next(found, None)):
        pool.append(each)
        if len(pool) < rank - 1:
            continue
        columns = _independent(pool, rank)
        if len(columns) == rank - 1:
            columns = torch.cat([columns, last_column(layer, seen, columns)])
        if len(columns) == rank:
            best = max(best, samples_of(layer, seen, columns), key=lambda each: len(each.samples))
    return best


def _independent(pool: list[tuple[int, Tensor]], rank: int) -> Tensor:
    """Return columns [n, rank], the ones with most zeros first, none of which the others nearly span."""
    basis = pool[0][1].new_zeros(0, rank)
    chosen: list[Tensor] = []
    for _, q in sorted(pool, key=lambda each: -each[0]):
        rest = q - basis.T @ (basis @ q)
        if rest.norm() > INDEPENDENT and len(chosen) < rank:
            basis = torch.cat([basis, torch.nn.functional.normalize(rest, dim=0)[None]])
            chosen.append(q)
    return torch.stack(chosen)
