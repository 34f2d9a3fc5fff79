"""The problems of AGIC's joint reconstruction from several epochs, and their objective (Eqn 5)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from leakbench.attacks.matching.loop import DIVERGED, Outcome, traced
from leakbench.attacks.matching.objective import Objective, regularised
from leakbench.attacks.matching.optimiser import Evaluate, Optimiser
from leakbench.attacks.matching.terms import Valued
from leakbench.attacks.matching.trials import Group
from leakbench.base.tensors import Tensors
from leakbench.observations.reconstruction import Reconstruction


class Problems(NamedTuple):
    """Joint problems over the epochs `seen`: updates [problems, epochs] and places of what they share."""

    seen: range
    rows: Tensor
    common: Tensor

    def unknowns(self, batch: int) -> int:
        """Return the number of unknown images of a problem: the common ones, and each epoch's others."""
        m = self.common.shape[2]
        return m + len(self.seen) * (batch - m)

    def places(self, batch: int, number: int) -> Tensor:
        """Return which unknown stands where in an epoch's dummy batches, [problems, batch]."""
        # The common images come first among the unknowns, then each epoch's own images in turn.
        common = self.common[:, number]
        m = common.shape[1]
        own = torch.ones(len(common), batch, dtype=torch.int64).scatter(1, common, 0)
        rest = m + number * (batch - m) + own.cumsum(1) - 1
        return rest.scatter(1, common, torch.arange(m).expand_as(common))


def one_by_one(samples: dict[range, Tensor], batch: int) -> list[Problems]:
    """Return a problem for each sample of `update_matching.chains`."""
    return [Problems(seen, images // batch, images[:, :, None] % batch) for seen, images in samples.items()]


def whole_batches(updates: int, epochs: int, batch: int) -> list[Problems]:
    """Return a problem for each update, if every epoch has the same batches in the same order."""
    rows = torch.arange(updates)[:, None].expand(-1, epochs)
    return [Problems(range(epochs), rows, torch.arange(batch).expand(updates, epochs, batch))]


class EpochTerm(NamedTuple):
    """One epoch's term: `share` times the distance of dummy batches, made by `place`, from `rows`."""

    objective: Objective
    rows: Tensor
    place: Tensor
    share: float


class JointObjective(NamedTuple):
    """The losses of joint problems: Σ_k γ_k · distance_k, plus the weighted priors of all unknown images."""

    parts: Sequence[EpochTerm]
    priors: Sequence[tuple[float, Valued]]

    def evaluate(self, problems: Tensor) -> Evaluate:
        """Return the function that gives losses and gradients of the `problems` [n]."""
        terms = [
            (
                part.objective.evaluate(part.rows[problems]),
                part.place[problems].to(part.objective.group.device),
                part.share,
            )
            for part in self.parts
        ]

        def matched(unknowns: Tensors) -> tuple[Tensor, Tensors]:
            images = unknowns["images"]
            losses, slope = images.new_zeros(len(images)), torch.zeros_like(images)
            for distance, place, share in terms:
                index = place[:, :, None, None, None].expand(*place.shape, *images.shape[2:])
                values, moves = distance({"images": images.gather(1, index)})
                losses = losses + share * values
                # An unknown that stands in several dummy batches has the sum of their slopes.
                slope = slope.scatter_add(1, index, share * moves["images"])
            return losses, {"images": slope}

        return regularised(matched, self.priors)

    def chunk(self, optimiser: Optimiser) -> int:
        """Return how many problems may run together; the epochs' terms are computed one after another."""
        return min(part.objective.chunk(optimiser) for part in self.parts)


def begun(found: Reconstruction, iterations: int) -> Reconstruction:
    """Return a reconstruction that `add` fills: it has no losses yet, and nothing has diverged."""
    points = traced(iterations)
    return replace(
        found,
        gap=None,
        snapshot_gaps=None,
        diverged=torch.zeros(found.usable.shape[:2], dtype=torch.bool),
        losses=torch.zeros(*found.usable.shape[:2], len(points)),
        traced=torch.tensor(points),
    )


def add(found: Reconstruction, epochs: Sequence[Group], problems: Problems, outcome: Outcome) -> None:
    """Put each common image into the reconstruction wherever it was seen."""
    into, m = found.tensors(), problems.common.shape[2]
    for number, epoch in enumerate(problems.seen):
        group = epochs[epoch]
        rounds, common = group.rounds[problems.rows[:, number]], problems.common[:, number]
        place = rounds[:, None], group.client, common
        into["images"][place], into["usable"][place] = group.shown(outcome.unknowns["images"][:, :m]), True
        into["losses"][:, group.client].index_add_(0, rounds, outcome.losses.T * (m / group.batch))
        into["diverged"][rounds[outcome.status == DIVERGED], group.client] = True
