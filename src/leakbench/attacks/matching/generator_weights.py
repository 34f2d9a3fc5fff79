"""The weights of a generator as unknowns: GRNN's two branches, one generator for each trial, all at once."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from leakbench.attacks.matching.engines.upsampling_block import normalised_gate, upsampled_convolution
from leakbench.base.tensors import Tensors


@dataclass(frozen=True)
class GeneratorWeights:
    """GRNN's generator: it makes images and label logits of `batch` samples from latents that never change.

    The image branch is a transposed convolution to 4×4 and a gated linear unit (GLU), then blocks of nearest
    ×2, 3×3 convolution, batch norm and GLU that halve the channels down to `width`, then a sigmoid. A dense
    layer computes the label logits. Source: Ren's thesis, section 3.2.2 and Table 3.1, and the authors' code.

    With a single sample, a first layer returns a fixed latent z times a matrix. RMSprop (and signed Adam)
    move all elements of one output alike, as one unknown with Σ|z| times the learning rate. With `collapsed`,
    this product, divided by Σ|z|, is the unknown in place of the matrix.
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
        """The numbers of channels that each upsampling block reads and returns."""
        count = int(math.log2(self.resolution)) - 2
        widths = [self.width * 2 ** (count - 1 - i) for i in range(count)] + [self.channels]
        return list(itertools.pairwise(widths))

    @cached_property
    def single(self) -> bool:
        return self.collapsed and self.batch == 1

    def draw(self, rng: torch.Generator, trials: int) -> tuple[Tensors, Tensor]:
        """Draw the first unknowns and the latents of each trial, trial by trial."""
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
        # For a transposed convolution, torch's initialisation bound counts the outputs instead of the inputs.
        widths = {
            "seed": (16 * first, 1 / math.sqrt(16 * first)),
            "label": (self.classes, 1 / math.sqrt(self.latent)),
        }
        found: Tensors = {}
        for name, (out, bound) in widths.items():
            matrix = uniform(bound, self.latent, out)
            # A transposed convolution has one bias for each channel, the dense layer one for each class.
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
        """Return Σ|z| of each latent z: how far its product moves if each weight moves by one."""
        return latents.abs().sum(-1, keepdim=True)

    def _first(self, unknowns: Tensors, latents: Tensor, name: str) -> Tensor:
        """Return the outputs of the first layer `name`, [trials, batch, out]."""
        weight, bias = unknowns[f"{name}.weight"], unknowns[f"{name}.bias"]
        product = weight * self._reach(latents) if self.single else latents @ weight
        return product + bias.repeat(1, weight.shape[2] // bias.shape[1])[:, None]

    def labels(self, unknowns: Tensors, latents: Tensor) -> Tensor:
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
