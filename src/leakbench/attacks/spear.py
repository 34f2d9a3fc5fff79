"""SPEAR (Dimitrov et al., arXiv:2403.03945) by a search in polynomial time: batches from the span of a
gradient."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from leakbench.attacks.observation import Observation
from leakbench.attacks.peel import peeled
from leakbench.attacks.reconstruction import Reconstruction
from leakbench.exact.columns import columns_of, last_column
from leakbench.exact.first_layer import FirstLayer
from leakbench.exact.solved import Solved, nothing, reconstruction, samples_of
from leakbench.exact.span import Span
from leakbench.exact.sparse import directions, distinct

# A column is new if at least this much of it is not spanned by the others.
INDEPENDENT = 1e-6


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
    """Recover whole batches, with labels, from the gradient of a first dense layer behind which is a ReLU.

    The gradient is the product of what each sample adds to each neuron's offset, which is zero where the
    neuron is closed, and the samples. Its singular vectors tell the factors but for an invertible matrix, and
    the zeros tell that matrix, column by column (`exact.sparse`). The bias's gradient tells the scale of
    each. search: `drawn` is the published one, whose number of draws grows exponentially with the batch;
    `fixed-point` is ours and takes seconds for a hundred samples. peel: whether samples are peeled first, so
    that fewer are searched for. starts: the largest number of batches of starts. share: of the neurons that
    are not needed to tell a column, the share that must be closed for one sample. patience: the search ends
    after this number of batches of starts in a row that found no new column; draws for a network with one
    hidden layer need more. Only proven samples are usable, and behind dropout they have no labels. Raises
    Unfit where `first_layers` does.
    """

    tries = partial(directions, share=share, most=starts, rng=rng, search=search, patience=patience)

    def solve(layer: FirstLayer, seen: Span) -> Solved:
        return _searched(layer, seen, peeled(layer, seen) if peel else nothing(layer), tries)

    return reconstruction(observation, solve, "spear")


def _searched(
    layer: FirstLayer, seen: Span, best: Solved, tries: Callable[..., Iterator[tuple[int, Tensor]]]
) -> Solved:
    """Return the largest number of samples that are proven. Others than those of `best`, which were peeled,
    are proven once there are as many columns as samples."""
    rows, rank = distinct(seen.left), len(seen.values)
    known, _ = columns_of(layer, seen, best.samples)
    pool = [(len(rows), q) for q in known]
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
    """Return columns [n, rank], those with the most zeros first, none of which the others nearly span."""
    basis = pool[0][1].new_zeros(0, rank)
    chosen: list[Tensor] = []
    for _, q in sorted(pool, key=lambda each: -each[0]):
        rest = q - basis.T @ (basis @ q)
        if rest.norm() > INDEPENDENT and len(chosen) < rank:
            basis = torch.cat([basis, torch.nn.functional.normalize(rest, dim=0)[None]])
            chosen.append(q)
    return torch.stack(chosen)


spear.rounds_at_once = 1  # type: ignore[attr-defined]
