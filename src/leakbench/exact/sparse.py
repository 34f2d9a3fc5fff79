"""The columns of a matrix, of which only the span is known, found because a ReLU leaves them sparse."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from leakbench.exact.columns import null
from leakbench.exact.span import first_alike, unit_rows

# Rows that are nearly parallel are one: neurons that are open for one sample alone all are.
PARALLEL = 1e-4
# Reweighting: the first width of the zero, its fall from step to step, and after how many steps which share
# of the starts goes on. The objective tells by then which of them have found a column.
WIDTH, FALL = 0.3, 0.95
STAGES = ((30, 0.5), (42, 0.25), (60, 1.0))
# Starts are kept away from known columns for the first AWAY steps, by PUSH times the mean moment.
AWAY, PUSH = 30, 30.0
STARTS = 64
# Values that draws may hold at once; a drawn direction is looked at if it is zero within NEAR times the zero.
DRAWN, NEAR = 1 << 24, 100.0
# The search ends after this number of batches of starts in a row that found no new column.
FRUITLESS = 12
# The share of rows that a column may be taken to be zero in, while it is sharpened.
QUARTER = 4


def distinct(left: Tensor) -> Tensor:
    """Return the rows of an orthonormal basis [neurons, rank] at length one, without dead and parallel
    ones."""
    rows, _ = unit_rows(left)
    parallel = (rows @ rows.T).abs() > 1 - PARALLEL**2 / 2
    return rows[first_alike(parallel) == torch.arange(len(rows))]


def directions(
    rows: Tensor,
    zero: float,
    share: float,
    most: int,
    rng: torch.Generator,
    known: Tensor,
    search: Literal["reweighted", "drawn"] = "reweighted",
) -> Iterator[tuple[int, Tensor]]:
    """Yield (number of zeros, direction [rank]) of columns, as they are found, in at most `most` batches of
    starts.

    rows: [n, rank], of `distinct`. A direction q is a column where rows @ q has many zeros. zero: what counts
    as zero. share: of the rows that are free, the share that must be zero. known: [k, rank], columns that are
    not looked for. search: `reweighted` minimises the sum of log((row · q)² + width²) over the sphere, by
    least squares that are weighted anew in every step, while the width falls; the limit of width zero counts
    what is not zero (reweighted least squares with exponent 0). `drawn` takes what is orthogonal to rank - 1
    rows that are drawn by lot, as SPEAR is published; that needs few draws where most entries are zero.
    """
    rank = rows.shape[1]
    least = rank - 1 + share * (len(rows) - rank + 1)
    fruitless = 0
    for _ in range(most):
        begun = _minimised(rows, rng, known) if search == "reweighted" else _drawn(rows, zero, least, rng)
        found = [_sharpened(rows, q, zero) for q in begun]
        before = len(known)
        for zeros, q in sorted(found, key=lambda each: -each[0]):
            if zeros >= least and not ((known @ q).abs() > 1 - 1e-6).any():
                known = torch.cat([known, q[None]])
                yield zeros, q
        fruitless = 0 if len(known) > before else fruitless + 1
        if fruitless == FRUITLESS:
            return


def _drawn(rows: Tensor, zero: float, least: float, rng: torch.Generator) -> Tensor:
    """Return directions [n, rank] that are each orthogonal to rank - 1 rows and zero in at least `least`."""
    rank = rows.shape[1]
    count = DRAWN // (rank * len(rows))
    chosen = torch.rand(count, len(rows), generator=rng).argsort(1)[:, : rank - 1]
    solution, failed = torch.linalg.solve_ex(rows[chosen][:, :, :-1], -rows[chosen][:, :, -1])
    q = torch.cat([solution, torch.ones(count, 1, dtype=rows.dtype)], 1)[failed == 0]
    q = torch.nn.functional.normalize(q, dim=1)
    # What a solution has lost in digits, `_sharpened` mends.
    return q[((q @ rows.T).abs() < NEAR * zero).sum(1) >= least]


def _minimised(rows: Tensor, rng: torch.Generator, away_from: Tensor) -> Tensor:
    """Return where STARTS starts, drawn away from known columns [k, rank], end, without those given up."""
    basis = torch.linalg.qr(away_from.T).Q
    starts = torch.randn(STARTS, rows.shape[1], generator=rng, dtype=rows.dtype)
    starts = starts - starts @ basis @ basis.T
    # Single precision finds the neighbourhood of a column; `_sharpened` finds the column.
    table = rows.float()
    q = torch.nn.functional.normalize(starts.float(), dim=1)
    away = (basis @ basis.T).float()
    width, step = WIDTH, 0
    for until, share in STAGES:
        while step < until:
            weights = 1 / ((q @ table.T).square() + width**2)
            moments = (table.T[None] * weights[:, None]) @ table
            if step < AWAY:
                moments = moments + PUSH * moments.diagonal(dim1=1, dim2=2).mean(1)[:, None, None] * away
            factor = torch.linalg.cholesky(moments)
            for _ in range(2):
                q = torch.nn.functional.normalize(torch.cholesky_solve(q[:, :, None], factor)[:, :, 0], dim=1)
            width *= FALL
            step += 1
        if share < 1:
            objective = ((q @ table.T).square() + width**2).log().sum(1)
            q = q[objective.argsort()[: max(1, int(len(q) * share))]]
    return q.double()


def _sharpened(rows: Tensor, q: Tensor, zero: float) -> tuple[int, Tensor]:
    """Return the number of rows that a direction is zero in and the direction, after it was fitted to these
    rows."""
    for _ in range(2):
        q = null(rows[(rows @ q).abs().argsort()[: max(rows.shape[1], len(rows) // QUARTER)]])
    nought = (rows @ q).abs() < zero
    if int(nought.sum()) >= rows.shape[1]:
        q = null(rows[nought])
    return int(((rows @ q).abs() < zero).sum()), q
