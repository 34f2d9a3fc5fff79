"""What an attack claims to have read out of the updates."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from leakbench.errors import Unfit


@dataclass
class Reconstruction:
    """Candidates of an attack, in no particular order: the scorer matches them with the truth.

    images: float32 [rounds, clients, n, channels, rows, columns]; all zero where `usable` is false.
    usable: bool [rounds, clients, n], whether the attack got anything at all for this candidate.
    target: what `images` holds. `images`: images in [0, 1]; `features`: the features that the first dense
    layer reads; `labels` and `candidates`: nothing, [rounds, clients, n, 0], for an attack on labels alone or
    on candidates. For `candidates`, n is their number, and `usable` says which of them the attack takes for
    private.
    iterations: the number of optimisation steps, 0 for an analytic attack.
    span_distance: float64 [rounds, clients, n], how much of each candidate lies outside the span of the
    update (`exact.membership`), as a share of its length; NaN where the share is not known.
    labels: int64 [rounds, clients, n], -1 where there is none.
    diverged: bool [rounds, clients], whether the optimisation diverged.
    losses: [rounds, clients, points], the loss after `traced` iterations.
    traced: [points], the numbers of iterations after which the loss was kept.
    snapshots: [s, rounds, clients, n, …], `images` after `snapshot_iterations` iterations.
    snapshot_iterations: [s], the iterations after which snapshots were taken.
    gap: [rounds, clients], the mean squared difference between the gradients that the images at the end would
    cause and the observed ones.
    snapshot_gaps: [s, rounds, clients], the same for the images of the snapshots.
    agreement: [rounds, clients], the share of neurons and samples in which the columns of the gradient and
    the samples that follow from them agree about a ReLU (`leakbench.exact`).
    partners: name → int64 [rounds, clients, n], which candidate of an earlier round (round · n + its place)
    the attack took for the same sample, -1 where none. The name begins with "partner", and the rest names a
    way of matching.
    """

    images: Tensor
    usable: Tensor
    target: Literal["images", "features", "labels", "candidates"] = "images"
    iterations: int = 0
    span_distance: Tensor | None = None
    labels: Tensor | None = None
    diverged: Tensor | None = None
    losses: Tensor | None = None
    traced: Tensor | None = None
    snapshots: Tensor | None = None
    snapshot_iterations: Tensor | None = None
    gap: Tensor | None = None
    snapshot_gaps: Tensor | None = None
    agreement: Tensor | None = None
    partners: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a reconstruction that could not be scored. Raises Unfit, which names the field."""
        lead = tuple(self.usable.shape)
        if len(lead) != 3 or self.usable.dtype != torch.bool:
            raise Unfit(f"attack: its reconstruction: usable must be bool [rounds, clients, n], not {lead}")
        if tuple(self.images.shape[:3]) != lead or not self.images.dtype.is_floating_point:
            raise Unfit(
                f"attack: its reconstruction: images must be float and begin with the shape of usable, {lead}"
            )
        # A sum of finite numbers may overflow, but a finite sum has only finite terms.
        if not bool(self.images.sum().isfinite()) and not bool(self.images.isfinite().all()):
            raise Unfit(
                "attack: its reconstruction: images hold NaN or Inf (mark such candidates as not usable)"
            )
        wanted = {"labels": lead, "span_distance": lead, "diverged": lead[:2], "gap": lead[:2]}
        wanted |= {"agreement": lead[:2]}
        wanted |= dict.fromkeys(self.partners, lead)
        for name, shape in wanted.items():
            value = self.partners[name] if name in self.partners else getattr(self, name)
            if value is not None and tuple(value.shape) != shape:
                raise Unfit(
                    f"attack: its reconstruction: {name} is {tuple(value.shape)}, and must be {shape}"
                )
        for name in ("labels", *self.partners):
            value = self.partners.get(name, self.labels)
            if value is not None and (value.is_floating_point() or value.is_complex()):
                raise Unfit(f"attack: its reconstruction: {name} must be whole numbers (-1 for none)")
        for first, second in (("losses", "traced"), ("snapshots", "snapshot_iterations")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise Unfit(f"attack: its reconstruction: {first} and {second} go together (give both)")
        if self.labels is not None and self.diverged is None:
            self.diverged = torch.zeros(lead[:2], dtype=torch.bool)

    def part(self, rounds: slice) -> "Reconstruction":
        """Return the reconstruction of some of the rounds."""
        timed, shared = ("snapshots", "snapshot_gaps"), ("traced", "snapshot_iterations")
        own: dict[str, Any] = {
            name: value[:, rounds] if name in timed else value[rounds]
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and name not in shared
        }
        return replace(self, **own, partners={name: value[rounds] for name, value in self.partners.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Return name → tensor of all fields that hold one."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return own | self.partners
