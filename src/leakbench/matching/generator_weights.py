"""The weights of a generator as unknowns: GRNN's two branches, one generator for each trial, all trials at once."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
# Nearest ×2, then 3 taps: of the two outputs behind each input, the first adds its last two taps and the second its
# first two, since they read one pixel. [output, tap of a window of two, tap of the convolution]
_PHASES = torch.tensor([[[1.0, 0, 0], [0, 1, 1]], [[1, 1, 0], [0, 0, 1]]])
_EPS = 1e-5


def _windows(x: Tensor, size: int) -> Tensor:
    """Return all windows of `size`×`size` of images padded by 1: [trials, n, places down, places across, size²·channels]."""
    padded = torch.nn.functional.pad(x, (0, 0, 1, 1, 1, 1))
    down, across = (side + 3 - size for side in x.shape[2:4])
    return torch.cat(
        [padded[:, :, a : a + down, b : b + across] for a, b in itertools.product(range(size), repeat=2)], -1
    )


def _upsampled_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """Return nearest ×2, then a 3×3 convolution with padding 1, each trial by its own weight.

    x [trials, n, rows, columns, channels], weight [trials, 3, 3, channels, out] → [trials, n, 2·rows, 2·columns, out].
    Large images are convolved at the lower resolution, where a window of 2×2 gives four outputs with 4 of 9 products
    each; where weights outnumber the pixels, putting them together for that costs more than it saves.
    """
    trials, n, rows, columns, channels = x.shape
    out = weight.shape[-1]
    if n * rows * columns < channels:
        large = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
        found = _windows(large, 3).flatten(1, 3) @ weight.reshape(trials, 9 * channels, out)
        return found.view(trials, n, 2 * rows, 2 * columns, out)
    phases = _PHASES.to(x)
    weight = torch.einsum("pax,qby,txyio->tabipqo", phases, phases, weight)
    all_phases = _windows(x, 2).flatten(1, 3) @ weight.reshape(trials, 4 * channels, 4 * out)
    each = all_phases.view(trials, n, rows + 1, columns + 1, 2, 2, out)
    lines = [
        torch.stack([each[:, :, p : p + rows, q : q + columns, p, q] for q in (0, 1)], 4) for p in (0, 1)
    ]
    return torch.stack(lines, 3).reshape(trials, n, 2 * rows, 2 * columns, out)


def _normalised(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Return batch norm over each trial's own images, in training mode: x [trials, n, rows, columns, channels]."""
    variance, mean = torch.var_mean(x, (1, 2, 3), correction=0, keepdim=True)
    factor = scale[:, None, None, None] * (variance + _EPS).rsqrt()
    return torch.addcmul(shift[:, None, None, None], x - mean, factor)


def _gated(x: Tensor) -> Tensor:
    """Return the gated linear unit over the last dimension."""
    kept, gate = x.chunk(2, -1)
    return kept * gate.sigmoid()


@dataclass(frozen=True)
class GeneratorWeights:
    """GRNN's generator: images and label logits of `batch` samples from latents that never change.

    Transposed convolution to 4×4 and GLU – blocks of nearest ×2, 3×3 convolution, batch norm, GLU – sigmoid; channels
    fall by halves to `width`, then to the image's. A dense layer of the same latents gives the logits. Source: Ren's
    thesis, section 3.2.2 and Table 3.1; widths, latents of 128 and torch's default initialisation: the authors' code.

    A single sample's first layers are a fixed latent z times a matrix. RMSprop (and signed Adam) move every element of
    such a row by as much, so its product with z moves as one unknown does at Σ|z| times the learning rate, but for the
    optimiser's epsilon: with `collapsed` it is kept as that.
    """

    resolution: int
    channels: int
    batch: int
    classes: int
    latent: int = 128
    width: int = 32
    collapsed: bool = True

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """Channels in and out of each upsampling block."""
        count = int(math.log2(self.resolution)) - 2
        widths = [self.width * 2 ** (count - 1 - i) for i in range(count)] + [self.channels]
        return list(itertools.pairwise(widths))

    @cached_property
    def single(self) -> bool:
        """Whether the first layers are kept as their product with the one latent."""
        return self.collapsed and self.batch == 1

    def draw(self, rng: torch.Generator, trials: int) -> tuple[Tensors, Tensor]:
        """Return each trial's first unknowns [trials, …] and its latents [trials, batch, latent], drawn trial by trial."""
        drawn = [self._draw(rng) for _ in range(trials)]
        return (
            {name: torch.stack([unknowns[name] for unknowns, _ in drawn]) for name in drawn[0][0]},
            torch.stack([latents for _, latents in drawn]),
        )

    def _draw(self, rng: torch.Generator) -> tuple[Tensors, Tensor]:
        def uniform(bound: float, *shape: int) -> Tensor:
            return (torch.rand(*shape, generator=rng) * 2 - 1) * bound

        latents = torch.randn(self.batch, self.latent, generator=rng)
        first = 2 * self.blocks[0][0]
        # torch's bound of a transposed convolution counts the outputs.
        widths = {
            "seed": (16 * first, 1 / math.sqrt(16 * first)),
            "label": (self.classes, 1 / math.sqrt(self.latent)),
        }
        found: Tensors = {}
        for name, (out, bound) in widths.items():
            matrix = uniform(bound, self.latent, out)
            # One bias for each channel of a transposed convolution, one for each class.
            bias = uniform(bound, first if name == "seed" else out)
            weight = latents @ matrix / self._reach(latents) if self.single else matrix
            found |= {f"{name}.weight": weight, f"{name}.bias": bias}
        for number, (channels, out) in enumerate(self.blocks):
            found[f"block{number}.weight"] = uniform(1 / math.sqrt(9 * channels), 3, 3, channels, 2 * out)
            found[f"block{number}.scale"] = torch.ones(2 * out)
            found[f"block{number}.shift"] = torch.zeros(2 * out)
        return found, latents

    @staticmethod
    def _reach(latents: Tensor) -> Tensor:
        """Return how far a product with the latents moves when each of its elements moves by one."""
        return latents.abs().sum(-1, keepdim=True)

    def _first(self, unknowns: Tensors, latents: Tensor, name: str) -> Tensor:
        """Return a first layer's outputs [trials, batch, out]."""
        weight, bias = unknowns[f"{name}.weight"], unknowns[f"{name}.bias"]
        product = weight * self._reach(latents) if self.single else latents @ weight
        return product + bias.repeat(1, weight.shape[2] // bias.shape[1])[:, None]

    def labels(self, unknowns: Tensors, latents: Tensor) -> Tensor:
        """Return logits [trials, batch, classes]."""
        return self._first(unknowns, latents, "label")

    def images(self, unknowns: Tensors, latents: Tensor) -> Tensor:
        """Return images [trials, batch, channels, rows, columns] in [0, 1]."""
        seed = self._first(unknowns, latents, "seed")
        x = _gated(seed.view(len(seed), self.batch, 4, 4, -1))
        for number in range(len(self.blocks)):
            block = f"block{number}"
            x = _upsampled_convolution(x, unknowns[f"{block}.weight"])
            x = _gated(_normalised(x, unknowns[f"{block}.scale"], unknowns[f"{block}.shift"]))
        return x.sigmoid().permute(0, 1, 4, 2, 3)
