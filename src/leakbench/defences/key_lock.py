"""Key-lock (FedKL): the scale and shift behind a normalisation come from a key and from lock layers.

Neither the key nor the lock layers ever leave the client.
"""

import copy
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.errors import Unfit
from leakbench.defences import Defence, no_names

# Names of the parameters of the two lock layers, below the name of a lock.
LAYERS = ("scale.weight", "scale.bias", "shift.weight", "shift.bias")
ACTIVATIONS = {"none": lambda value: value, "relu": torch.relu, "sigmoid": torch.sigmoid}


class KeyLock(nn.BatchNorm2d):
    """Batch norm whose scale γ and shift β are act(W·key + b) of two lock layers, `scale` and `shift`.

    `key` [key length] is a buffer; a chained lock reads γ and β of the lock `before` it instead. All other
    names are those of batch norm. Source: thesis, section 5.2.3; the activation is that of the authors' code.
    """

    key: Tensor

    def __init__(
        self, norm: nn.BatchNorm2d, key: Tensor | None, activation: str, before: "KeyLock | None" = None
    ) -> None:
        channels = norm.num_features
        super().__init__(
            channels, norm.eps, norm.momentum, affine=False, track_running_stats=norm.track_running_stats
        )
        self.load_state_dict(
            {name: value for name, value in norm.state_dict().items() if name not in ("weight", "bias")}
        )
        self.activation = activation
        # In a tuple, so that torch does not register the lock before as a part of this one.
        self.before = () if before is None else (before,)
        reads = 2 * before.num_features if before is not None else len(key) if key is not None else 0
        if key is not None:
            self.register_buffer("key", key)
        self.scale, self.shift = nn.Linear(reads, channels), nn.Linear(reads, channels)

    def factors(self) -> tuple[Tensor, Tensor]:
        """Return γ and β, each [channels]."""
        key = torch.cat(self.before[0].factors()) if self.before else self.key
        act = ACTIVATIONS[self.activation]
        return act(self.scale(key)), act(self.shift(key))

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = self.factors()
        return super().forward(x) * scale[:, None, None] + shift[:, None, None]


def draw_key(length: int, rng: torch.Generator) -> Tensor:
    """Return a private key [length], uniform in [0, 1), as the authors' code draws it."""
    return torch.rand(length, generator=rng)


def first_norms(model: nn.Module) -> list[str]:
    """Return the names of the batch norms that follow a convolution, in order."""
    found: list[str] = []
    previous: nn.Module | None = None
    for name, layer in model.named_modules():
        if not isinstance(layer, nn.Conv2d | nn.BatchNorm2d):
            continue
        after = isinstance(previous, nn.Conv2d)
        if after and isinstance(layer, nn.BatchNorm2d):
            found.append(name)
        elif after and not found:
            break
        previous = layer
    if not found:
        raise Unfit(
            "defence key-lock: the victim has no batch norm behind its first convolution (choose its twin "
            "with one)"
        )
    return found


def lock(
    model: nn.Module, rng: torch.Generator, *, key_length: int = 1024, activation: str = "relu",
    blocks: str = "first",
) -> nn.Module:  # fmt: skip
    """Return a copy of `model` behind a lock."""
    locked = copy.deepcopy(model)
    names = first_norms(locked)
    before = None
    for name in names[:1] if blocks == "first" else names:
        key = draw_key(key_length, rng) if before is None else None
        norm = locked.get_submodule(name)
        assert isinstance(norm, nn.BatchNorm2d)
        before = KeyLock(norm, key, activation, before if blocks == "all" else None)
        initialise(before, rng)
        locked.set_submodule(name, before.train(norm.training))
    return locked


@torch.no_grad()
def initialise(layer: KeyLock, rng: torch.Generator) -> None:
    """Draw the lock layers as torch draws a dense layer."""
    bound = layer.scale.in_features**-0.5
    for parameter in layer.parameters():
        parameter.copy_((torch.rand(parameter.shape, generator=rng) * 2 - 1) * bound)


def _locks(model: nn.Module) -> dict[str, KeyLock]:
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, KeyLock)}


def key_names(model: nn.Module) -> frozenset[str]:
    return frozenset(f"{name}.key" for name, layer in _locks(model).items() if not layer.before)


def layer_names(model: nn.Module) -> frozenset[str]:
    """Return the names of the parameters of a locked model's lock layers."""
    return frozenset(f"{name}.{part}" for name in _locks(model) for part in LAYERS)


def secret_names(model: nn.Module) -> frozenset[str]:
    """Return the names of the tensors of a locked model that stay on the client: key and lock layers."""
    return key_names(model) | layer_names(model)


def key_lock(
    *,
    key_length: Annotated[int, Field(gt=0)] = 1024,
    activation: Literal["none", "relu", "sigmoid"] = "relu",
    blocks: Literal["first", "all"] = "first",
    shares: tuple[Literal["key", "lock-weights", "lock-gradients"], ...] = (),
) -> Defence:
    """Lock the first convolution–normalisation block, or all of them.

    key_length: the number of values of the key.
    activation: the activation of the lock layers.
    blocks: `first` locks the first block. `all` locks every block, where each block's key is γ and β of the
    block before it.
    shares: the secrets that a client shows the server all the same (thesis, section 5.3.4).

    Raises Unfit if no batch norm follows the victim's first convolution.
    """

    def shown(model: nn.Module) -> frozenset[str]:
        keys = key_names(model) if "key" in shares else frozenset()
        return keys | (layer_names(model) if "lock-weights" in shares else frozenset())

    return Defence(
        model=lambda model, rng: lock(
            model, rng, key_length=key_length, activation=activation, blocks=blocks
        ),
        secret=secret_names,
        shown=shown,
        sent=layer_names if "lock-gradients" in shares else no_names,
        hidden=lambda model: {
            "layers": list(_locks(model)),
            "about": {"key_length": key_length, "activation": activation},
        },
    )
