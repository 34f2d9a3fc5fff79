"""The weights of a generator as unknowns: GRNN's two branches, one generator for each trial, all trials at
once."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from leakbench.matching.upsampling_block import normalised_gate, upsampled_convolution
from leakbench.tensors import Tensors


@dataclass(frozen=True)
class GeneratorWeights:
    """GRNN's generator: images and label logits of `batch` samples from latents that never change.

    Transposed convolution to 4×4 and GLU – blocks of nearest ×2, 3×3 convolution, batch norm, GLU – sigmoid;
    channels fall by halves to `width`, then to the image's. A dense layer of the same latents gives the
    logits. Source: Ren's thesis, section 3.2.2 and Table 3.1; widths, latents of 128 and torch's default
    initialisation: the authors' code.

    A single sample's first layers are a fixed latent z times a matrix. RMSprop (and signed Adam) move every
    element of such a row by as much, so its product with z moves as one unknown does at Σ|z| times the
    learning rate, but for the optimiser's epsilon: with `collapsed` it is kept as that.
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
        """Return each trial's first unknowns [trials, …] and its latents [trials, batch, latent], drawn trial
        by trial."""
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
            found[f"block{number}.weight"] = uniform(1 / math.sqrt(9 * channels), channels, 3, 3, 2 * out)
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
        x = torch.nn.functional.glu(seed.view(len(seed), self.batch, 4, 4, -1), -1)
        for number in range(len(self.blocks)):
            block = f"block{number}"
            x = upsampled_convolution(x, unknowns[f"{block}.weight"])
            x = normalised_gate(x, unknowns[f"{block}.scale"], unknowns[f"{block}.shift"])
        return x.sigmoid().permute(0, 1, 4, 2, 3)
