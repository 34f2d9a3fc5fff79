"""A class-conditional decoder of a variational auto-encoder, which two CPU cores train in seconds."""

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from leakbench.networks.generators import OfLatents
from leakbench.networks.layers import RandomLayer

# Its size (`catalogue.costs.Network`), by what its training was measured to take.
COST = {"operations": "16 * area", "weights": 1, "layers": 10}

# A latent with a larger log-variance tells as good as nothing, and the exponential overflows.
LARGEST = 10.0


class Decoder(OfLatents):
    """Map latents [n, latent] and classes int64 [n] to images [n, channels, rows, columns] in [0, 1]."""

    def __init__(
        self, classes: int, shape: tuple[int, int, int], latent: int, width: int, reach: float, noise: float
    ) -> None:
        super().__init__()
        rows, columns, channels = shape
        self.classes, self.latent, self.width = classes, latent, width
        self.reach, self.noise = reach, noise
        self.start = (4 * width, rows // 8, columns // 8)
        self.dense = nn.Linear(latent + classes, 4 * width * (rows // 8) * (columns // 8))
        self.blocks = nn.Sequential(
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, channels, 4, 2, 1),
            nn.Sigmoid(),
        )

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        known = one_hot(labels, self.classes).to(latents)
        seed = self.dense(torch.cat([latents * self.reach, known], 1)).unflatten(1, self.start)
        images: Tensor = self.blocks(seed.contiguous(memory_format=torch.channels_last))
        return images

    def learner(self) -> "Autoencoder":
        """Return the network that is fitted, of which this decoder is a part."""
        return Autoencoder(self)


class _Sample(RandomLayer):
    """Map means and log-variances [n, 2 · width] to a normal sample [n, width], with noise from outside."""

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = x.chunk(2, 1)
        return mean + (spread / 2).exp() * self.keep

    def draw(self, n: tuple[int, ...], rng: torch.Generator) -> Tensor:
        return torch.randn((*n, self.width), generator=rng)


class Autoencoder(nn.Module):
    """The decoder and an encoder, which are fitted together: images → images, code, latents for `loss`."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        width, (channels, rows, columns) = decoder.width, decoder.start
        self.decoder = decoder
        last = decoder.blocks[-2]
        assert isinstance(last, nn.ConvTranspose2d)
        self.encoder = nn.Sequential(
            nn.Conv2d(last.out_channels, width, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 4, 2, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(channels * rows * columns, 2 * decoder.latent),
        )
        self.sample = _Sample(decoder.latent)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.encoder(images).clamp_max(LARGEST)
        return images, found, self.sample(found)

    def loss(self, found: tuple[Tensor, Tensor, Tensor], labels: Tensor) -> Tensor:
        """Return minus the evidence lower bound per image, up to a constant."""
        images, code, latents = found
        mean, spread = code.chunk(2, 1)
        apart = (self.decoder(latents / self.decoder.reach, labels) - images).square().flatten(1).sum(1)
        prior = (mean.square() + spread.exp() - 1 - spread).sum(1)
        return (apart / self.decoder.noise**2 + prior).mean() / 2

    def errors(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the squared errors, in the images' shape, of decoding the means of their latents."""
        mean, _ = self.encoder(images).chunk(2, 1)
        return (self.decoder(mean / self.decoder.reach, labels) - images).square()


def cvae(
    inputs: tuple[int, ...],
    shape: tuple[int, int, int],
    *,
    latent: int = 128,
    width: int = 16,
    reach: float = 2.0,
    noise: float = 1.0,
) -> nn.Module:
    """Return the decoder: a dense layer, three transposed convolutions 4×4 of stride 2, and a sigmoid.

    The dense layer makes 4·width × rows/8 × columns/8 values. Batch norm and ReLU come before each transposed
    convolution. `inputs` is the number of classes alone. The shape is that of GGL's own generator for faces
    (dense 128 → 4×4, transposed convolutions of stride 2); how the network is fitted is this project's
    choice.

    latent: the length of the latents.
    width: the channels before the last layer; the first layers have 4 and 2 times as many.
    reach: how many standard deviations of the prior latents of -1 and 1 stand for.
    noise: standard deviation of the normal noise on the pixels that training assumes.

    Raises ValueError if rows or columns are not multiples of eight.
    """
    if shape[0] % 8 or shape[1] % 8:
        raise ValueError(
            f"cvae doubles thrice, so sides must be multiples of eight, not {shape[0]}×{shape[1]}"
        )
    return Decoder(inputs[0], shape, latent, width, reach, noise)
