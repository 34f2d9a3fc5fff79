"""A class-conditional generator that two CPU cores train in seconds: the decoder of a variational
auto-encoder."""

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from leakbench.victims.layers import Drawn

# Log-variances beyond this are as good as none, and their exponentials overflow.
LARGEST = 10.0


class Decoder(nn.Module):
    """Latents [n, latent] and classes int64 [n] → images [n, channels, rows, columns] in [0, 1].

    Latents in (-1, 1) stand for `reach` standard deviations of the prior to either side.
    """

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
        """Return the network that is fitted, of which this one is a part."""
        return Autoencoder(self)


class _Sample(Drawn):
    """Mean and log-variance [n, 2 · width] → a normal sample [n, width], by noise that is handed in."""

    def forward(self, x: Tensor) -> Tensor:
        mean, spread = x.chunk(2, 1)
        return mean + (spread / 2).exp() * self.keep

    def draw(self, n: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Draw normal noise [*n, width]."""
        return torch.randn((*n, self.width), generator=rng)


class Autoencoder(nn.Module):
    """Images → (the images, mean and log-variance of their latents, a sample of these); `loss` decodes the
    sample."""

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
        """Return minus the evidence lower bound per image, but for a constant, under normal noise on the
        pixels."""
        images, code, latents = found
        mean, spread = code.chunk(2, 1)
        apart = (self.decoder(latents / self.decoder.reach, labels) - images).square().flatten(1).sum(1)
        prior = (mean.square() + spread.exp() - 1 - spread).sum(1)
        return (apart / self.decoder.noise**2 + prior).mean() / 2

    def errors(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the squared errors of images decoded from the means of their latents: [n, channels, rows,
        columns]."""
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
    """Return the decoder: dense to 4·width × rows/8 × columns/8 – three transposed convolutions 4×4 of stride
    2, sigmoid.

    `inputs`: the number of classes alone. Batch norm and ReLU before each transposed convolution. Raises
    ValueError for sides that are no multiples of eight. Source: the shape of GGL's own generator for faces
    (dense 128 → 4×4, transposed convolutions of stride 2); how it is fitted is ours.
    """
    if shape[0] % 8 or shape[1] % 8:
        raise ValueError(
            f"cvae doubles thrice, so sides must be multiples of eight, not {shape[0]}×{shape[1]}"
        )
    return Decoder(inputs[0], shape, latent, width, reach, noise)
