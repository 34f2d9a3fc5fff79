"""The generator of BigGAN-deep at 256×256 (Brock et al. 2019), read with its published weights."""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d, relu

from leakbench.networks.generators import OfLatents

# For each block the channels that come in and go out, in units of the width, and whether it doubles the
# image. The blocks lead from 4×4 to 256×256.
BLOCKS = (
    (16, 16, False), (16, 16, True), (16, 16, False), (16, 8, True), (8, 8, False), (8, 8, True),
    (8, 8, False), (8, 4, True), (4, 4, False), (4, 2, True), (2, 2, False), (2, 1, True),
)  # fmt: skip
# The number of blocks before the attention, which sees images of 64×64.
ATTENTION = 8
EPSILON = 1e-4


class StoredNorm(nn.Module):
    """Normalisation by stored statistics; scale and shift are learnt, or made of a `code`."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, code: int = 0) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.code = code
        if code:
            self.scale, self.offset = (nn.Linear(code, channels, bias=False) for _ in range(2))
        else:
            self.weight, self.bias = (nn.Parameter(fill(channels)) for fill in (torch.ones, torch.zeros))

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        scale, shift = (1 + self.scale(code), self.offset(code)) if self.code else (self.weight, self.bias)
        scale = scale * (self.running_var + EPSILON).rsqrt()
        shift = shift - self.running_mean * scale
        return x * scale[..., None, None] + shift[..., None, None]


class Quarter(nn.Module):
    """Convolutions 1×1, 3×3, 3×3, 1×1 through a quarter of the channels, added to the image that came in.

    If fewer channels go out than come in, the shortcut keeps the first of those that came in.
    """

    def __init__(self, read: int, made: int, code: int, doubles: bool) -> None:
        super().__init__()
        inner = read // 4
        self.made, self.doubles = made, doubles
        self.bn_0, self.conv_0 = StoredNorm(read, code), nn.Conv2d(read, inner, 1)
        self.bn_1, self.conv_1 = StoredNorm(inner, code), nn.Conv2d(inner, inner, 3, padding=1)
        self.bn_2, self.conv_2 = StoredNorm(inner, code), nn.Conv2d(inner, inner, 3, padding=1)
        self.bn_3, self.conv_3 = StoredNorm(inner, code), nn.Conv2d(inner, made, 1)

    def _sized(self, x: Tensor) -> Tensor:
        return interpolate(x, scale_factor=2.0) if self.doubles else x

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        y = self.conv_0(relu(self.bn_0(x, code)))
        y = self.conv_1(self._sized(relu(self.bn_1(y, code))))
        y = self.conv_2(relu(self.bn_2(y, code)))
        y = self.conv_3(relu(self.bn_3(y, code)))
        return y + self._sized(x[:, : self.made])


class Attention(nn.Module):
    """Self-attention: adds to pixels what they read of the image at half size (Zhang et al. 2019)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1))
        self.snconv1x1_theta = nn.Conv2d(channels, channels // 8, 1, bias=False)
        self.snconv1x1_phi = nn.Conv2d(channels, channels // 8, 1, bias=False)
        self.snconv1x1_g = nn.Conv2d(channels, channels // 2, 1, bias=False)
        self.snconv1x1_o_conv = nn.Conv2d(channels // 2, channels, 1, bias=False)

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        asked = self.snconv1x1_theta(x).flatten(2)
        offered, content = (
            max_pool2d(layer(x), 2).flatten(2) for layer in (self.snconv1x1_phi, self.snconv1x1_g)
        )
        read = content @ (asked.mT @ offered).softmax(-1).mT
        out: Tensor = x + self.gamma * self.snconv1x1_o_conv(read.unflatten(2, x.shape[2:]))
        return out


class BigGAN(OfLatents):
    """Map latents [n, latent] and classes int64 [n] to images [n, 3, 256, 256] in [0, 1]."""

    def __init__(self, classes: int, size: tuple[int, int], width: int) -> None:
        super().__init__()
        self.latent, self.size, self.width = 128, size, width
        code = 2 * self.latent
        self.embeddings = nn.Linear(classes, self.latent, bias=False)
        self.gen_z = nn.Linear(code, 16 * 16 * width)
        layers: list[nn.Module] = [Quarter(read * width, made * width, code, up) for read, made, up in BLOCKS]
        layers.insert(ATTENTION, Attention(BLOCKS[ATTENTION][0] * width))
        self.layers = nn.ModuleList(layers)
        self.bn = StoredNorm(width)
        # The first three outputs are colours. The published weights also have the others.
        self.conv_to_rgb = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, latents: Tensor, labels: Tensor) -> Tensor:
        code = torch.cat([latents, self.embeddings.weight.T[labels]], 1)
        # The published weights order these outputs with the channels last.
        x = self.gen_z(code).view(-1, 4, 4, 16 * self.width).permute(0, 3, 1, 2)
        for layer in self.layers:
            x = layer(x, code)
        images = (self.conv_to_rgb(relu(self.bn(x, code)))[:, :3].tanh() + 1) / 2
        return images if images.shape[2:] == self.size else interpolate(images, self.size, mode="area")


def biggan_deep(inputs: tuple[int, ...], shape: tuple[int, int, int], *, width: int = 128) -> nn.Module:
    """Return the generator, untrained, for `inputs` (classes,).

    Its latents of length 128 are at truncation one. Names and sizes are those of the published weights
    (`datasets.biggan_deep_256`). Source: Brock et al., Tables 7 to 9; the area resize is from GGL's code.

    width: the unit of the channels of each block; 128 as published.

    Raises ValueError if the images are not in colour.
    """
    if shape[2] != 3:
        raise ValueError(f"biggan-deep makes three channels, not {shape[2]}")
    return BigGAN(inputs[0], shape[:2], width)
