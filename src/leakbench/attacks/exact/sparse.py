"""A search for the columns of a matrix of which only the span is known: a ReLU leaves them sparse."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from leakbench.attacks.exact.span import PARALLEL, first_alike, null, unit_rows

# The fixed points, in units in which entries have a mean square of one. The width of the zero falls slowly
# down to NARROW and then fast down to LAST, with STEPS steps at each width. The next batch of starts takes
# the next of the first widths and is kept off known columns until the next of the widths AWAY: each batch
# finds what others miss.
FIRST, AWAY = (3.0, 2.0, 1.4, 1.0), (0.5, 2.0)
# Up to this many samples, one batch of draws finds every column, and fixed points miss some.
FEW = 10
SLOW, NARROW, FAST, LAST, STEPS = 0.95, 0.3, 0.85, 0.02, 3
STARTS = 128
# Entries below SMALL are zeros of an end that is not sharpened yet; ends more parallel than ONE are one.
SMALL, ONE = 0.03, 0.97
# DRAWN values may be held by the draws at once, and at most DRAWS draws are made at once, since few rows need
# few. A drawn direction is looked at if it is zero within NEAR times the zero, and draws that are as parallel
# as SAME count as one.
DRAWN, DRAWS, NEAR, SAME = 1 << 24, 1 << 15, 100.0, 0.9999
# An end is sharpened if it has more small entries than this share of the zeros that it needs.
NEARLY = 0.8
# The search also ends with this many times as many directions as columns, most of which are then none.
TOO_MANY = 2
# While a column is sharpened, one in this many rows is taken for a zero.
QUARTER = 4


class Rows(NamedTuple):
    """The rows of an orthonormal basis, at length one, without dead ones. Parallel rows are one row.

    unit: [n, rank], the rows.
    times: [n], how many rows of the basis are parallel to each. Rows that one sample alone opens have its
    direction.
    """

    unit: Tensor
    times: Tensor

    def zeros(self, directions: Tensor, zero: float) -> Tensor:
        """Return in how many rows of the basis each of the directions [k, rank] is zero, [k]."""
        return ((directions @ self.unit.T).abs() < zero).to(self.times) @ self.times


def distinct(left: Tensor) -> Rows:
    """Return the rows of an orthonormal basis [neurons, rank]."""
    rows, _ = unit_rows(left)
    parallel = (rows @ rows.T).abs() > 1 - PARALLEL**2 / 2
    kept, times = first_alike(parallel).unique(return_counts=True)
    return Rows(rows[kept], times.to(rows))


def directions(
    rows: Rows,
    zero: float,
    share: float,
    most: int,
    rng: torch.Generator,
    known: Tensor,
    search: Literal["fixed-point", "drawn"] = "fixed-point",
    patience: int = 12,
) -> Iterator[tuple[int, Tensor]]:
    """Yield (number of zeros, direction [rank]) of columns, in the order in which they are found.

    A direction q is a column where rows @ q has many zeros. `fixed-point` minimises the sum of log((row · q)²
    + width²) over the sphere while the width falls (`_settled`); at width zero the sum counts the entries
    that are not zero. `drawn` takes directions orthogonal to rank - 1 randomly drawn rows, as SPEAR is
    published; it needs few draws where most entries are zero. Where there are few columns, `fixed-point`
    begins with a batch of draws.
    """
    rank, count = rows.unit.shape[1], int(rows.times.sum())
    least = rank - 1 + share * _fewer(rank) * (count - rank + 1)
    fruitless = 0
    for turn in range(most):
        if search == "fixed-point" and (turn or rank > FEW):
            begun = _apart(rows, _settled(rows.unit, known, rng, turn), known, least)
        else:
            begun = _drawn(rows, zero, least, rng)
        found = [_sharpened(rows, q, zero) for q in begun]
        before = len(known)
        for zeros, q in sorted(found, key=lambda each: -each[0]):
            if zeros >= least and not ((known @ q).abs() > 1 - 1e-6).any():
                known = torch.cat([known, q[None]])
                yield zeros, q
        fruitless = 0 if len(known) > before else fruitless + 1
        if fruitless >= patience or len(known) > TOO_MANY * rank:
            return


def _fewer(rank: int) -> float:
    """Return how many zeros a column of few samples has, as a share of those that one of many samples has.

    Neurons that no sample opens are not counted. If every sample closes half of the neurons, a column is zero
    in half of the rows of many samples, in a third of the rows of two, and in no row of one.
    """
    return 2 * (2 ** (rank - 1) - 1) / (2**rank - 1)


def _drawn(rows: Rows, zero: float, least: float, rng: torch.Generator) -> Tensor:
    """Return directions [n, rank], each once, that are orthogonal to rank - 1 rows."""
    unit = rows.unit
    rank = unit.shape[1]
    count = min(DRAWN // (rank * len(unit)), DRAWS)
    chosen = torch.rand(count, len(unit), generator=rng).argsort(1)[:, : rank - 1]
    solution, failed = torch.linalg.solve_ex(unit[chosen][:, :, :-1], -unit[chosen][:, :, -1])
    q = torch.cat([solution, torch.ones(count, 1, dtype=unit.dtype)], 1)[failed == 0]
    q = torch.nn.functional.normalize(q, dim=1)
    # `_sharpened` restores the digits that a solution has lost.
    zeros = rows.zeros(q, NEAR * zero)
    order = zeros.argsort(descending=True)
    left = q[order][zeros[order] >= least]
    found = [left[:0]]
    # Noise makes many directions nearly zero in a narrow layer; those with the most zeros are looked at.
    while len(left) and len(found) <= TOO_MANY * rank:
        # Most draws of a column that is nearly all zeros find it.
        found.append(left[:1])
        left = left[(left @ left[0]).abs() < SAME]
    return torch.cat(found)


def _settled(rows: Tensor, known: Tensor, rng: torch.Generator, turn: int) -> Tensor:
    """Return where STARTS starts end, [STARTS, rank].

    In a basis in which the rows have covariance one, the Hessian of the objective is nearly a multiple of the
    identity, so that a Newton step on the sphere is the gradient minus that multiple of the direction
    (Hyvärinen, Fast and robust fixed-point algorithms for independent component analysis, IEEE Transactions
    on Neural Networks 10, 1999). All starts take the step in two products of matrices.
    """
    rank = rows.shape[1]
    ridge = 1e-12 * torch.eye(rank, dtype=rows.dtype)
    basis = torch.linalg.cholesky(torch.linalg.inv(rows.T @ rows / len(rows) + ridge))
    beside = torch.linalg.qr(torch.linalg.solve(basis, known.T)).Q.float()
    # Single precision finds the neighbourhood of a column; `_sharpened` finds the column.
    table = (rows @ basis).float()
    q = torch.randn(STARTS, rank, generator=rng)
    width, away = FIRST[turn % len(FIRST)], AWAY[turn // len(FIRST) % len(AWAY)]
    free = False
    while width > LAST:
        for _ in range(STEPS):
            if not free:
                q = q - (q @ beside) @ beside.T
            q = torch.nn.functional.normalize(q, dim=1)
            entry = q @ table.T
            weight = 1 / (entry.square() + width**2)
            slope = (weight * entry) @ table / len(table)
            bend = ((width**2 - entry.square()) * weight.square()).mean(1, keepdim=True)
            q = slope - bend * q
        free = width < away
        width *= SLOW if width > NARROW else FAST
    return torch.nn.functional.normalize(q.double() @ basis.T, dim=1)


def _apart(rows: Rows, ends: Tensor, known: Tensor, least: float) -> Tensor:
    """Return the directions among `ends` [n, rank] that look like columns, those with most zeros first."""
    small = rows.zeros(ends, SMALL / rows.unit.shape[1] ** 0.5)
    order = small.argsort(descending=True)
    ends = ends[order][small[order] > NEARLY * least]
    ends = ends[((ends @ known.T).abs() < ONE).all(1)]
    return ends[first_alike((ends @ ends.T).abs() > ONE) == torch.arange(len(ends))]


def _sharpened(rows: Rows, q: Tensor, zero: float) -> tuple[int, Tensor]:
    """Return the number of rows in which a direction is zero, and the direction, after a fit to them."""
    unit, rank = rows.unit, rows.unit.shape[1]
    most = max(rank, round(_fewer(rank) * (int(rows.times.sum()) // QUARTER)))
    begun = q
    for _ in range(2):
        order = (unit @ q).abs().argsort()
        nearest = rows.times[order].cumsum(0) <= most
        nearest[: max(1, rank - 1)] = True
        q = null(unit[order[nearest]])
    # The rows of the fit may all be zero in another column too, and the fit is then a mixture of both.
    q = max(begun, q, key=lambda each: float(rows.zeros(each[None], zero)))
    nought = (unit @ q).abs() < zero
    if int(nought.sum()) >= rank:
        q = null(unit[nought])
    return int(rows.zeros(q[None], zero)), q
