"""Layers that the victims share."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from leakbench.base.errors import Unfit

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "linear": nn.Identity,
}  # fmt: skip

# Mean and standard deviation of each channel's pixels in [0, 1], from the code of InvG, torchvision, GGL and
# iLRG.
STATISTICS = {
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "mnist": ((0.1306637,), (0.3081078,)),
    "cifar10": ((0.4914672, 0.4822617, 0.4467701), (0.2470322, 0.2434851, 0.2615878)),
    "cifar100": ((0.5071598, 0.4866937, 0.4412019), (0.2673343, 0.2564385, 0.2761505)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}

# The functions that change each value by itself, by their names without underscores.
ELEMENTWISE = {
    "abs", "add", "celu", "clamp", "clip", "div", "dropout", "elu", "exp", "gelu", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "log", "mish", "mul", "neg", "pow", "rdiv", "relu", "relu6", "rsub", "selu",
    "sigmoid", "silu", "softplus", "softsign", "sqrt", "square", "sub", "tanh", "to",
}  # fmt: skip


def sequential(**layers: nn.Module) -> nn.Sequential:
    """Return the named layers as one network, in the order of the arguments."""
    return nn.Sequential(OrderedDict(layers))


def activate(network: nn.Module, activation: str) -> nn.Module:
    """Replace the attribute `relu` of every part of `network` that has one, and return the network."""
    for layer in list(network.modules()):
        if hasattr(layer, "relu"):
            layer.relu = ACTIVATIONS[activation]()
    return network


class Normalise(nn.Module):
    """Shift and scale values in [0, 1] by mean and deviation [channels, 1, 1], or [channels, rows, columns].

    If both are `measured` on the training data, they are sent with the weights.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Tensor, deviation: Tensor, *, measured: bool = False) -> None:
        super().__init__()
        self.measured = measured
        self.register_buffer("mean", mean, persistent=measured)
        self.register_buffer("deviation", deviation, persistent=measured)

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation

    def measure(self, x: Tensor) -> None:
        """Take mean and deviation from training data [n, channels, rows, columns]."""
        deviation = x.double().std(0, correction=0)
        self.mean.copy_(x.double().mean(0))
        self.deviation.copy_(deviation.where(deviation > 0, 1.0))


def normalised(network: nn.Module, statistics: str, shape: tuple[int, int, int] = (1, 1, 3)) -> nn.Module:
    """Return `network` behind a normalisation by a name in STATISTICS, `none`, `train` or `batch`."""
    if statistics == "none":
        return network
    if statistics == "batch":
        norm = nn.BatchNorm2d(shape[2], affine=False, track_running_stats=False)
        return sequential(normalise=norm, network=network)
    if statistics == "train":
        rows, columns, channels = shape
        place = channels, rows, columns
        layer = Normalise(torch.zeros(place), torch.ones(place), measured=True)
    else:
        mean, deviation = (torch.tensor(each)[:, None, None] for each in STATISTICS[statistics])
        layer = Normalise(mean, deviation)
    return sequential(normalise=layer, network=network)


class Cast(nn.Module):
    """A layer that converts images to another precision."""

    def __init__(self, precision: torch.dtype) -> None:
        super().__init__()
        self.precision = precision

    def forward(self, x: Tensor) -> Tensor:
        return x.to(self.precision)


def in_precision(network: nn.Module, precision: torch.dtype) -> nn.Module:
    """Return `network` with all weights in a precision, to which images are converted."""
    if precision == torch.float32:
        return network
    return sequential(cast=Cast(precision), network=network.to(precision))


def normalisation(model: nn.Module, channels: int) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of the model's own normalisation, 0 and 1 [channels, 1, 1] if it has none."""
    for layer in model.modules():
        if isinstance(layer, Normalise):
            return layer.mean, layer.deviation
    return torch.zeros(channels, 1, 1), torch.ones(channels, 1, 1)


class RandomLayer(nn.Module):
    """A layer whose random numbers are handed in, so that all come from one named stream.

    `keep` is what was drawn for the samples at hand, [n, width]; the scalar 1 stands for evaluation. `trials`
    is the number of batches that lie one behind the other in what the layer reads.
    """

    keep: Tensor
    active = True
    trials = 1

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("keep", torch.ones(()), persistent=False)

    def draw(self, n: tuple[int, ...], rng: torch.Generator) -> Tensor:
        """Draw random numbers for samples of the shape `n`: [*n, width]."""
        raise NotImplementedError


class Dropout(RandomLayer):
    """Dropout, whose masks hold 0 and 1/(1 - rate)."""

    def __init__(self, rate: float, width: int) -> None:
        super().__init__(width)
        self.rate, self.active = rate, rate > 0

    def forward(self, x: Tensor) -> Tensor:
        return x * self.keep

    def draw(self, n: tuple[int, ...], rng: torch.Generator) -> Tensor:
        kept = torch.rand((*n, self.width), generator=rng) >= self.rate
        return kept * (1 / (1 - self.rate))


def tokens(x: Tensor, vocabulary: int) -> Tensor:
    """Return the numbers int64 [n, length] of tokens [n, 1, 1, length], shares in `datasets.text`."""
    return (x.flatten(1) * vocabulary).round().long().clamp(0, vocabulary - 1)


def freeze(model: nn.Module, kept: Sequence[str], *, begun: bool = False) -> None:
    """Turn all parameters but `kept` ones into buffers; `begun` trains these too at first (`thawed`)."""
    names = [name for name, _ in model.named_parameters() if not {*name.split(".")} & {*kept}]
    model.frozen, model.begun = names, begun  # type: ignore[assignment]
    _turn(model, names, buffers=True)


@contextmanager
def thawed(model: nn.Module) -> Iterator[None]:
    """Make what `freeze` turned into buffers parameters again for as long as a network is trained."""
    names, own = getattr(model, "frozen", []), list(model.parameters())
    _turn(model, names, buffers=False)
    for value in own:
        value.requires_grad_(getattr(model, "begun", True))
    yield
    _turn(model, names, buffers=True)
    for value in own:
        value.requires_grad_(True)


def _turn(model: nn.Module, names: Sequence[str], *, buffers: bool) -> None:
    for name in names:
        place, _, last = name.rpartition(".")
        layer = model.get_submodule(place)
        value = getattr(layer, last).detach()
        delattr(layer, last)
        if buffers:
            layer.register_buffer(last, value)
        else:
            layer.register_parameter(last, nn.Parameter(value))


def by_batch(model: nn.Module) -> bool:
    """Return whether the model's batch norms use the batch at hand in evaluation mode too."""
    norms = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    return bool(norms) and all(norm.running_mean is None for norm in norms)


def draw_masks(model: nn.Module, n: tuple[int, ...], rng: torch.Generator) -> dict[str, Tensor]:
    """Draw the random numbers of every layer of `model` that needs any."""
    return {
        f"{name}.keep": layer.draw(n, rng)
        for name, layer in model.named_modules()
        if isinstance(layer, RandomLayer) and layer.active
    }


def glorot(model: nn.Module) -> nn.Module:
    """Initialise a model in place as Keras does by default (Fidel's demonstration code), and return it."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


def last_dense(model: nn.Module) -> str:
    """Return the name of the last dense layer. Raises Unfit if the model has none."""
    names = [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
    if not names:
        raise Unfit("attack: the victim has no dense layer (set labels: oracle)")
    return names[-1]


@torch.no_grad()
def first_dense(model: nn.Module, images: Tensor) -> tuple[str, Tensor]:
    """Return the first dense layer's name that reads something flattened, and that, unflattened."""
    found: list[tuple[str, torch.Size]] = []
    whole: list[Tensor] = []

    def read(name: str, x: Tensor) -> None:
        if not found and (like := watch.unflattened(x)) is not None:
            found.append((name, like.shape[1:]))
            whole.append(x)

    watch = _Watch(images[:2])
    hooks = []
    for layer in model.modules():
        hooks.append(layer.register_forward_pre_hook(lambda _, inputs: watch.note(inputs)))
        hooks.append(layer.register_forward_hook(lambda _, inputs, output: watch.note(output)))
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            hooks.append(layer.register_forward_pre_hook(lambda _, given, name=name: read(name, given[0])))
    with hooked(hooks), watch:
        model(images[:2])
    if not found:
        raise Unfit("attack: no dense layer is seen to read a flattened record")
    name, shape = found[0]
    if len(images) > 2:
        # The second pass keeps only one tensor, because all tensors of a deep network take gigabytes.
        whole.clear()
        with model.get_submodule(name).register_forward_pre_hook(lambda _, inputs: whole.append(inputs[0])):
            model(images)
    return name, whole[0].unflatten(1, shape)


@contextmanager
def hooked(hooks: Iterable[RemovableHandle]) -> Iterator[None]:
    """Remove the hooks when the context ends."""
    with ExitStack() as stack:
        for hook in hooks:
            stack.enter_context(hook)
        yield


class _Watch(TorchFunctionMode):
    """The tensors [n, channels, rows, columns] that modules and elementwise functions read and return."""

    def __init__(self, images: Tensor) -> None:
        super().__init__()
        self.seen = [images]

    def note(self, values: Any) -> None:
        """Note the tensors with four axes among some values."""
        for x in values if isinstance(values, tuple) else (values,):
            if isinstance(x, Tensor) and x.dim() == 4:
                self.seen.append(x)

    def unflattened(self, x: Tensor) -> Tensor | None:
        """Return the last noted tensor that `x` is the flattening of, if there is one."""
        alike = (each for each in reversed(self.seen) if each[0].numel() == x[0].numel())
        return next((each for each in alike if torch.equal(each.flatten(1), x)), None)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "").strip("_") not in ELEMENTWISE:
            return func(*args, **(kwargs or {}))
        self.note(args)
        flat = (self.unflattened(x) for x in args if isinstance(x, Tensor) and x.dim() == 2)
        like = next((each for each in flat if each is not None), None)
        found = func(*args, **(kwargs or {}))
        if like is not None and found.numel() == like.numel():
            self.note(found.reshape(like.shape))
        else:
            self.note(found)
        return found


def dense_input(model: nn.Module, images: Tensor) -> Tensor:
    """Return what the dense layer of `first_dense` reads of `images`, [n, channels, rows, columns]."""
    return first_dense(model, images)[1]


def describe(model: nn.Module) -> list[dict[str, str]]:
    """Return the layers of a sequential network as the papers' tables print them."""
    rows: list[dict[str, str]] = []
    for layer in model.children():
        match layer:
            case nn.Linear():
                row = {"layer": "dense", "size": str(layer.out_features)}
            case nn.Conv2d() | nn.ConvTranspose2d():
                row = {
                    "layer": "conv2d" if isinstance(layer, nn.Conv2d) else "conv2d transpose",
                    "size": f"{layer.kernel_size[0]},{layer.kernel_size[1]} x {layer.out_channels}",
                    "stride": f"{layer.stride[0]},{layer.stride[1]}",
                    "padding": "valid" if layer.padding == (0, 0) else "same",
                }
            case nn.MaxPool2d():
                row = {"layer": "maxpool", "size": f"{layer.kernel_size},{layer.kernel_size}"}
            case nn.Upsample():
                times = int(float(str(layer.scale_factor)))
                row = {"layer": "up-sampling nearest", "size": f"{times},{times}"}
            case nn.BatchNorm2d():
                row = {"layer": "batchnorm"}
            case nn.Flatten():
                row = {"layer": "flatten"}
            case nn.Unflatten():
                sides = tuple(layer.unflattened_size)[1:]
                row = {"layer": "reshape", "size": ",".join(map(str, sides))}
            case nn.ReLU() | nn.Sigmoid() | nn.Tanh():
                if rows:
                    rows[-1]["activation"] = type(layer).__name__.lower()
                continue
            case _:
                continue
        rows.append(row)
    return rows
