"""What an attack claims to have read out of the updates."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from leakbench.base.errors import Unfit

# How a message begins.
OF = "attack: its reconstruction: "
# What a target is scored by, beside `images` and `usable`.
NEEDED: dict[str, tuple[str, ...]] = {
    "images": (), "features": (), "labels": ("labels",), "candidates": ("span_distance",),
    "tokens": ("span_distance",),
}  # fmt: skip
_KINDS = {
    "bool": (torch.bool,),
    "whole numbers": (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
    "float": (torch.float16, torch.bfloat16, torch.float32, torch.float64),
}


@dataclass
class Reconstruction:
    """Candidates of an attack, in no particular order: the scorer matches them with the truth.

    images: float32 [rounds, clients, n, channels, rows, columns]; all zero where `usable` is false.
    usable: bool [rounds, clients, n], whether the attack got anything at all for this candidate.
    There is at least one candidate.
    target: what `images` holds. `images`: images in [0, 1]; `features`: the features that the first dense
    layer reads; `labels`, `candidates` and `tokens`: nothing, [rounds, clients, n, 0], for an attack on
    labels alone, on candidates, or on the set of tokens of an update. For `candidates` n is their number, for
    `tokens` that of the vocabulary, or of its pairs with a place, and `usable` says which of them the attack
    takes for private.
    iterations: the number of optimisation steps, 0 for an analytic attack.
    span_distance: float64 [rounds, clients, n], how much of each candidate lies outside the span of the
    update (`exact.membership`), as a share of its length; NaN where the share is not known. The
    targets `candidates` and `tokens` need it; there any score that is lower for what is likelier private.
    labels: int64 [rounds, clients, n], -1 where there is none. The target `labels` needs them.
    diverged: bool [rounds, clients], whether the optimisation diverged.
    losses: [rounds, clients, points], the loss after `traced` iterations.
    traced: [points], the numbers of iterations after which the loss was kept.
    snapshots: [s, rounds, clients, n, …], `images` after `snapshot_iterations` iterations.
    snapshot_iterations: [s], the iterations after which snapshots were taken.
    gap: [rounds, clients], the mean squared difference between the gradients that the images at the end would
    cause and the observed ones.
    snapshot_gaps: [s, rounds, clients], the same for the images of the snapshots.
    agreement: [rounds, clients], the share of neurons and samples in which the columns of the gradient and
    the samples that follow from them agree about a ReLU (`leakbench.attacks.exact`).
    partners: name → int64 [rounds, clients, n], which candidate of an earlier round (round · n + its place)
    the attack took for the same sample, -1 where none. The name begins with "partner", and the rest names a
    way of matching.
    """

    images: Tensor
    usable: Tensor
    target: Literal["images", "features", "labels", "candidates", "tokens"] = "images"
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
        self.check()
        # A sum of finite numbers may overflow, but a finite sum has only finite terms.
        if not bool(self.images.sum().isfinite()) and not bool(self.images.isfinite().all()):
            raise Unfit(f"{OF}images hold NaN or Inf (mark such candidates as not usable)")

    def check(self) -> None:
        """Refuse fields that could not be scored, and take tensors off their gradients and devices."""
        if self.target not in NEEDED:
            raise Unfit(f"{OF}target is {self.target!r}, and must be one of {', '.join(NEEDED)}")
        for name in ("images", "usable", *NEEDED[self.target]):
            if getattr(self, name) is None:
                raise Unfit(f"{OF}{name} is missing (the target {self.target} needs it)")
        if type(self.iterations) is not int or not 0 <= self.iterations < 1 << 63:
            raise Unfit(f"{OF}iterations is {self.iterations!r}, and must be a whole number of at least 0")
        for first, second in (("losses", "traced"), ("snapshots", "snapshot_iterations")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise Unfit(f"{OF}{first} and {second} go together (give both)")
        lead, images, traced, taken = (
            tuple(getattr(value, "shape", ()))
            for value in (self.usable, self.images, self.traced, self.snapshot_iterations)
        )
        if len(lead) != 3 or not lead[2]:
            raise Unfit(f"{OF}usable must be bool [rounds, clients, n] with n of at least 1, not {lead}")
        images, points, moments = (*lead, *images[3:]), traced[:1] or (0,), taken[:1] or (0,)
        for kind, shapes in {
            "bool": {"usable": lead, "diverged": lead[:2]},
            "whole numbers": {"labels": lead, "traced": points, "snapshot_iterations": moments},
            "float": {
                "images": images,
                "span_distance": lead,
                "losses": (*lead[:2], *points),
                "snapshots": (*moments, *images),
                "gap": lead[:2],
                "snapshot_gaps": (*moments, *lead[:2]),
                "agreement": lead[:2],
            },
        }.items():
            for name, shape in shapes.items():
                if (value := getattr(self, name)) is not None:
                    setattr(self, name, _plain(name, value, kind, shape))
        for name, value in self.partners.items():
            self.partners[name] = _plain(name, value, "whole numbers", lead)
            if not name.startswith("partner"):
                raise Unfit(f"{OF}partners: the name {name} must begin with partner")
            if bool((self.partners[name] >= lead[0] * lead[2]).any()):
                most = int(self.partners[name].max())
                raise Unfit(f"{OF}{name} names candidate {most} of {lead[0] * lead[2]}, counted from 0")
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


def _plain(name: str, value: Any, kind: str, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor as a file holds it: without its gradient, in main memory, of a dtype that NumPy has."""
    if not isinstance(value, Tensor) or value.dtype not in _KINDS[kind] or tuple(value.shape) != shape:
        given = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise Unfit(f"{OF}{name} is {given.removeprefix('torch.')}, and must be {kind} {shape}")
    value = value.detach().cpu()
    if kind == "whole numbers":
        return value.long()
    return value.float() if value.dtype == torch.bfloat16 else value
