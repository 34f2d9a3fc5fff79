"""Random small networks of what torch offers, those that the engines know and those that they do not."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, relu, relu_, scaled_dot_product_attention

CHANNELS, SIDE, CLASSES = 4, 6, 3


class Calls(nn.Module):
    """A function that is no module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Residual(nn.Module):
    """What a body adds to what it reads; an in-place body changes that too."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Rereads(nn.Module):
    """A convolution whose output is rectified in place and read again."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return relu_(y) + 2 * y


class Scale(nn.Module):
    """A bare parameter of a network, beside a layer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(CHANNELS, 1, 1) + 0.5)
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * self.scale


class Attention(nn.Module):
    """Attention between pixels, by torch's layer or by dense layers of its own."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.layer = None if own else nn.MultiheadAttention(CHANNELS, 2, batch_first=True)
        self.reads = nn.ModuleList(nn.Linear(CHANNELS, CHANNELS) for _ in range(3 if own else 0))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT
        if self.layer is None:
            found = scaled_dot_product_attention(*(read(tokens) for read in self.reads))
        else:
            found = self.layer(tokens, tokens, tokens, need_weights=False)[0]
        return found.mT.unflatten(2, x.shape[2:])


class TiedTwice(nn.Module):
    """Two convolutions with one weight between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(2))
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


def twice(layer: nn.Module) -> nn.Module:
    """Return a network that uses one layer two times."""
    return nn.Sequential(layer, nn.Tanh(), layer)


def conv(size: Any, **options: Any) -> nn.Module:
    return nn.Conv2d(CHANNELS, CHANNELS, size, **options)


# Name → a part that keeps the number of channels; every name is drawn.
PARTS: dict[str, Callable[[], nn.Module]] = {
    "conv": lambda: conv(3, padding=1), "stride": lambda: conv(2, stride=2, padding=1),
    "stride beyond": lambda: conv(4, stride=3, padding=2), "pixels": lambda: conv(1, stride=2, bias=False),
    "uneven": lambda: conv((3, 5), stride=(2, 1), padding=(1, 2)),
    "turned": lambda: conv(5, stride=2, padding=2), "turned, no padding": lambda: conv(3, stride=2),
    "turned one way": lambda: conv(5, stride=(1, 2), padding=(2, 2)),
    "uneven dilation": lambda: conv((3, 2), stride=(1, 2), padding=(2, 0), dilation=(2, 1)),
    "dilation": lambda: conv(3, padding=2, dilation=2, bias=False), "same": lambda: conv(3, padding="same"),
    "groups": lambda: conv(3, padding=1, groups=2), "depthwise": lambda: conv(3, padding=1, groups=CHANNELS),
    "reflect": lambda: conv(3, padding=1, padding_mode="reflect"),
    "circular": lambda: conv(3, padding=1, padding_mode="circular"),
    "replicate": lambda: conv(3, padding=1, padding_mode="replicate"),
    "transposed": lambda: nn.ConvTranspose2d(CHANNELS, CHANNELS, 2, stride=2), "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "conv, relu_": lambda: nn.Sequential(conv(1), Calls(relu_)), "functional relu": lambda: Calls(relu),
    "leaky in place": lambda: nn.LeakyReLU(0.1, inplace=True), "sigmoid": nn.Sigmoid, "tanh": nn.Tanh,
    "gelu": lambda: Calls(gelu), "prelu": nn.PReLU, "batch norm": lambda: nn.BatchNorm2d(CHANNELS),
    "batch norm by the batch": lambda: nn.BatchNorm2d(CHANNELS, track_running_stats=False),
    "batch norm, no weights": lambda: nn.BatchNorm2d(CHANNELS, affine=False, track_running_stats=False),
    "group norm": lambda: nn.GroupNorm(2, CHANNELS),
    "layer norm": lambda: nn.Sequential(nn.AdaptiveAvgPool2d(SIDE), nn.LayerNorm([CHANNELS, SIDE, SIDE])),
    "instance norm": lambda: nn.InstanceNorm2d(CHANNELS, affine=True), "max-pool": lambda: nn.MaxPool2d(2, 1),
    "max-pool, overlapping": lambda: nn.MaxPool2d(3, 2, 1),
    "max-pool, ceil": lambda: nn.MaxPool2d(2, 2, ceil_mode=True), "mean-pool": lambda: nn.AvgPool2d(2, 1, 1),
    "residual": lambda: Residual(nn.Sequential(conv(3, padding=1), nn.ReLU(), conv(1))),
    "residual in place": lambda: Residual(nn.Sequential(nn.ReLU(inplace=True), conv(1))), "rereads": Rereads,
    "conv twice": lambda: twice(conv(3, padding=1)), "norm twice": lambda: twice(nn.BatchNorm2d(CHANNELS)),
    "tied": TiedTwice, "bare parameter": Scale, "attention": lambda: Attention(own=False),
    "own attention": lambda: Attention(own=True),
    "dense over channels": lambda: nn.Sequential(
        Calls(lambda x: x.movedim(1, -1)), nn.Linear(CHANNELS, CHANNELS), Calls(lambda x: x.movedim(-1, 1))
    ),
}  # fmt: skip


def assembled(parts: list[str], flat: bool, seed: int = 0) -> nn.Module:
    """Return a network in float64; `flat`: a module flattens the image, or a function its means."""
    torch.manual_seed(seed)
    body = nn.Sequential(conv(3, padding=1), *(PARTS[part]() for part in parts))
    head = [nn.Flatten()] if flat else [nn.AdaptiveAvgPool2d(2), Calls(lambda x: x.flatten(1))]
    model = nn.Sequential(*body, *head, nn.LazyLinear(CLASSES)).eval()
    model(torch.zeros(1, CHANNELS, SIDE, SIDE))
    model.double()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None:
            layer.running_mean.normal_(0, 0.2)
            layer.running_var.uniform_(0.5, 2)
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model.requires_grad_(False)
