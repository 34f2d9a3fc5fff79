"""What an audit may ask of somebody's own network, and that network as an attacker has it."""

import re
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Proxy
from torch.nn.functional import batch_norm, binary_cross_entropy_with_logits, cross_entropy, relu6
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrize import is_parametrized
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import CheckpointFunction

from leakbench.attacks.matching.received import noise_images
from leakbench.base.errors import UserError
from leakbench.base.tensors import Tensors
from leakbench.networks.layers import Normalise, first_dense, hooked

# What somebody can do whose model takes several inputs.
SPLITS = "which is not audited (put it into a module that takes one tensor [records, …] and splits it)"
# The largest number of letters that are kept of a message that leakbench did not write.
LONGEST = 200
# Advice of the catalogue's attacks, which names options that an audit does not have.
_ADVICE = re.compile(r" \((?:set|leave) [^()]*\)")
# The name of a tensor, in the error of an attack that looked for it among those that were sent.
_TENSOR = re.compile(r"(?:network\.)?([\w.]+\.(?:weight|bias))")


def one_line(problem: BaseException) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:LONGEST].removesuffix(":")


def reason(problem: Exception) -> str:
    """Return why something gave no result, in one line."""
    if isinstance(problem, MemoryError) or "allocate memory" in str(problem):
        return "it needs more memory than is left (raise --memory)"
    if isinstance(problem, UserError):
        return _ADVICE.sub("", str(problem).removeprefix("attack: "))
    if isinstance(problem, KeyError) and (tensor := _TENSOR.fullmatch(str(problem.args[0]))):
        return f"it needs the update of {tensor[1]}, which is not sent under this name"
    # What torch says of its own calls tells a user nothing.
    of_torch = isinstance(problem, RuntimeError | IndexError)
    return f"fails on this network ({type(problem).__name__ if of_torch else one_line(problem)})"


@contextmanager
def failing(what: str) -> Iterator[None]:
    """Raise UserError, which says `what`, for any exception that somebody's own code raises in the block."""
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{what} ({one_line(problem)})") from problem


def entropy(output: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy of logits [n, classes], or of one logit of two classes: [n] or [n, 1]."""
    if output.dim() == 1 or output.shape[1] == 1:
        return binary_cross_entropy_with_logits(output.flatten(), targets.flatten().to(output))
    return cross_entropy(output, targets.flatten().long())


def classes_in(targets: Tensor | None, scores: Tensor) -> bool:
    """Return whether each of these targets is one class of scores [n, classes], or of a single logit."""
    if targets is None or targets.numel() != len(scores) or scores.dim() > 2:
        return False
    most = max(2, scores[0].numel())
    return bool(((targets == targets.round()) & (targets >= 0) & (targets < most)).all())


def leaves(output: Any) -> list[Tensor]:
    """Return the tensors of real numbers in what a model returns, in order, also those in an object."""
    known = isinstance(output, Tensor | dict | tuple | list) or not hasattr(output, "__dict__")
    found = tree_leaves((dict(output) if isinstance(output, dict) else output) if known else vars(output))
    return [each for each in found if isinstance(each, Tensor) and each.is_floating_point()]


def scores(output: Any, records: int, of: str = "the batch", heads: Collection[int] = ()) -> Tensor:
    """Return what a model returned for each record: its `heads`, or the first tensor with a row for each."""
    # Raises UserError, which calls the inputs `of`, if there is none.
    every = leaves(output)
    found = [each for each in every if each.dim() and len(each) == records]
    own = [every[p] for p in heads if p < len(every) and any(every[p] is each for each in found)]
    if not found:
        what = f"{tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UserError(f"the model returns {what} of {of}, and an audit needs one row of numbers a record "
                        "(records come first: batch_first=True)")  # fmt: skip
    return own[0] if len(own) == 1 else torch.cat([*map(flat, own)], 1) if own else found[0]


def flat(rows: Tensor) -> Tensor:
    return rows.flatten(1) if rows.dim() > 1 else rows[:, None]


@contextmanager
def precisions_in(model: nn.Module, found: set[str]) -> Iterator[None]:
    """Add to `found` each precision below float32 in which a layer of a model computes in the block."""

    def note(_: nn.Module, __: Any, output: Any) -> None:
        low = {each.dtype for each in leaves(output)} - {torch.float32, torch.float64}
        found.update(str(each).removeprefix("torch.") for each in low)

    layers = [layer for layer in model.modules() if not list(layer.children())]
    with hooked(layer.register_forward_hook(note) for layer in layers):
        yield


def uncompiled(model: nn.Module) -> nn.Module:
    """Return the network within what torch.compile, DataParallel or Opacus put around it."""
    # An attacker has the code of the network, and need not wrap it.
    for name in ("_orig_mod", "_module", "module"):
        inner = getattr(model, name, None)
        if isinstance(inner, nn.Module) and len(list(model.children())) == 1 and not list(
            model.parameters(recurse=False)
        ) and type(model).__module__.startswith(("torch.", "opacus.")):  # fmt: skip
            return uncompiled(inner)
    return model


def finite(update: Tensors) -> Tensors:
    """Return an update as it is. Raises UserError for NaN or Inf, out of which no attack reads anything."""
    for name, value in update.items():
        # isfinite() would need as much memory again.
        if value.numel() and not all(each.isfinite() for each in value.aminmax()):
            raise UserError(f"the update of {name} holds NaN or Inf (does this training converge?)")
    return update


def rounded(values: Tensors) -> str:
    """Return in words to which low precision all of these are rounded, or ""."""
    for low in (torch.float16, torch.bfloat16):
        if all(torch.equal(v.to(low).to(v), v) for v in values.values()):
            return f"rounded to {low}".replace("torch.", "")
    return ""


def reads(model: nn.Module, tokens: Tensor) -> str:
    """Return the name of the embedding that reads tokens int64 [n, places]."""
    # Raises UserError where no embedding reads them, or where it has too few rows for them.
    found: list[str] = []
    own = deepcopy(model).eval()

    def note(name: str, layer: nn.Embedding, inputs: Any) -> None:
        same = isinstance(inputs[0], Tensor) and inputs[0].shape == tokens[:1].shape
        if same and torch.equal(inputs[0], tokens[:1]):
            for token in (int(tokens.min()), int(tokens.max())):
                if not 0 <= token < layer.num_embeddings:
                    rows = f"{name} has {layer.num_embeddings} rows (is it another tokenizer's?)"
                    raise UserError(f"token {token} is not in the vocabulary: {rows}")
            found.append(name)

    for name, layer in own.named_modules():
        if isinstance(layer, nn.Embedding):
            layer.register_forward_pre_hook(partial(note, name))
    if any(isinstance(layer, nn.Embedding) for layer in own.modules()):
        with torch.no_grad(), failing("the model fails on one record alone, in evaluation"):
            own(tokens[:1].clone())
    if not found:
        raise UserError(
            f"the inputs are {tokens.dtype}, and no nn.Embedding of the model reads them (add one, or give "
            "real numbers)"
        )
    return found[0]


def as_records(inputs: Tensor) -> Tensor:
    """Return inputs as real numbers, or as tokens int64 [n, places]. Raises UserError for others."""
    real = inputs.is_floating_point() or (inputs.dtype == torch.uint8 and inputs.dim() > 2)
    tokens = not real and inputs.dtype != torch.bool and not inputs.is_complex() and inputs.dim() == 2
    found = inputs.float() if real else inputs.long() if tokens else inputs
    if not 2 <= found.dim() <= 5 or not found.numel() or not (tokens or real):
        raise UserError(
            f"the inputs are {inputs.dtype} of shape {tuple(inputs.shape)}, neither real numbers nor "
            "tokens [records, places] (put the model into a module that takes such a tensor)"
        )
    return found


def computed(layer: nn.Module) -> bool:
    """Return whether the weight of a layer is computed from other tensors, as weight norm does."""
    return is_parametrized(layer) or isinstance(vars(layer).get("weight"), Tensor)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def untrained(model: nn.Module, sent: Collection[str]) -> str:
    """Return in words how many tensors of a model are not in `sent`; empty if all are."""
    names = [name for name, _ in model.named_parameters()]
    missing = sum(name not in sent for name in names)
    return f"{missing} of {len(names)} tensors" if missing else ""


class Scores(nn.Module):
    """What a network returns as one row of numbers a record; one logit z of two classes as 0 and z."""

    def __init__(self, heads: Collection[int]) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, output: Any) -> Tensor:
        if isinstance(output, Proxy):
            raise TypeError("what the network returns is not known before it runs")
        if not isinstance(output, Tensor):
            output = scores(output, len(leaves(output)[next(iter(self.heads), 0)]), heads=self.heads)
        rows = flat(output if output.element_size() > 2 else output.float())
        return rows if rows.shape[1] > 1 else torch.cat([torch.zeros_like(rows), rows], 1)


class Hard(nn.Module):
    """Hardsigmoid, or Hardswish, by an activation whose derivative can be differentiated in its turn."""

    def __init__(self, swish: bool) -> None:
        super().__init__()
        self.swish = swish

    def forward(self, x: Tensor) -> Tensor:
        gate = relu6(x + 3) / 6
        return x * gate if self.swish else gate


class Partial(nn.Sequential):
    """A network of which some parameters are not trained, or that computes below float32 or twice."""

    # The engine that takes a network apart into layers (`engines.chain`) takes each layer for one that is
    # trained whole. This network cannot be traced, so that an engine is chosen that asks for each parameter.

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(x, Proxy):
            raise TypeError("some parameters are not trained")
        with in_float32():
            found: Tensor = super().forward(x)
        return found


class Still(nn.Module):
    """A batch norm that goes by the statistics that were sent, in a network whose others go by the batch."""

    def __init__(self, norm: _BatchNorm) -> None:
        super().__init__()
        self.eps, self._parameters, self._buffers = norm.eps, norm._parameters, norm._buffers

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = (self.get_buffer(name) for name in ("running_mean", "running_var"))
        # They are parameters if they are trained, buffers if not, and None if the norm has none.
        scale, shift = (getattr(self, name, None) for name in ("weight", "bias"))
        return batch_norm(x, mean, variance, scale, shift, training=False, eps=self.eps)


@contextmanager
def in_float32() -> Iterator[list[Any]]:
    """Compute in float32 where a network asks for autocast, and whole where it asks for checkpoints."""
    # Searches take second derivatives, and a re-entrant checkpoint has not even first ones by an input. Those
    # that were asked for are noted.
    own, asked = (torch.autocast.__enter__, torch.autocast.__exit__), list[Any]()

    def whole(function: Any, _: bool, *inputs: Any) -> Any:
        asked.append(function)
        return function(*inputs)

    torch.autocast.__enter__ = lambda self: self  # type: ignore[method-assign]
    torch.autocast.__exit__ = lambda *_: None  # type: ignore[method-assign]
    CheckpointFunction.apply = whole
    try:
        yield asked
    finally:
        torch.autocast.__enter__, torch.autocast.__exit__ = own  # type: ignore[method-assign]
        del CheckpointFunction.apply


def drops(model: nn.Module, inputs: Tensor) -> bool:
    """Return whether a model drops units, or draws anything else, while it trains."""
    # A model that calls a function for that has no layer of it. So the model reads the same inputs twice,
    # each time with chance of its own.
    if any(isinstance(m, _DropoutNd) and m.training and m.p > 0 for m in model.modules()):
        return True
    # A batch of an example may be too small for a batch norm that trains.
    outputs: list[Tensor] = []
    with torch.random.fork_rng(), torch.no_grad(), suppress(Exception):
        for seed in range(2):
            torch.manual_seed(seed)
            outputs.append(deepcopy(model)(inputs.clone()))
        return not torch.allclose(outputs[0], outputs[1], rtol=1e-3, atol=1e-5)
    return False


def batch_statistics(model: nn.Module) -> bool:
    """Return whether batch norms use the statistics of the batch at hand while the model trains."""
    return any(of_batch(m) for m in model.modules() if isinstance(m, _BatchNorm))


def of_batch(norm: _BatchNorm) -> bool:
    return norm.training or norm.running_mean is None


def wrapped(
    model: nn.Module, inputs: Tensor, mean: Tensor, deviation: Tensor, sent: Collection[str],
    precision: str = "", heads: Collection[int] = (),
) -> nn.Module:  # fmt: skip
    """Return a model of the same weights that reads values from 0 to 1 and returns logits [n, classes]."""
    # The copy reads [n, channels, rows, columns]. Its tensors have the prefix "network.". Parameters that are
    # not in `sent` become buffers, so that no attack takes them for parameters that did not change.
    parts: dict[str, nn.Module] = {}
    if mean.any() or (deviation != 1).any():
        parts["normalise"] = Normalise(mean[:, None, None], deviation[:, None, None])
    if inputs.dim() == 2:
        parts["flatten"] = nn.Flatten()
    elif inputs.dim() == 3:
        parts["flatten"] = nn.Flatten(1, 2)
    elif inputs.dim() == 5:
        parts["flatten"] = nn.Unflatten(1, tuple(inputs.shape[1:3]))
    # Weights are shared with the model, because several copies of a large network would fill the memory.
    parts["network"] = fixed(deepcopy(model, {id(p): p for p in model.parameters()}), sent)
    mixed = batch_statistics(model)
    for parent in list(parts["network"].modules()):
        for name, layer in list(parent._modules.items()):
            if mixed and isinstance(layer, _BatchNorm) and not of_batch(layer):
                setattr(parent, name, Still(layer))
            elif isinstance(layer, nn.Hardswish | nn.Hardsigmoid):
                setattr(parent, name, Hard(isinstance(layer, nn.Hardswish)))
    seen = inputs[:1].clone()
    with torch.no_grad(), failing("the model fails on one record alone, in evaluation"), in_float32() as odd:
        output = deepcopy(model).eval()(seen)
    rows = scores(output, 1, "one record alone, in evaluation", heads)
    if not torch.equal(seen, inputs[:1]):
        # It changes its inputs in place, and attacks use them again.
        parts["network"].register_forward_pre_hook(lambda _, given: tuple(each.clone() for each in given))
    if not isinstance(output, Tensor) or rows.dim() != 2 or rows.shape[1] == 1 or len(heads) > 1:
        # Some heads may be there while the network trains alone.
        parts["scores"] = Scores([place for place in heads if place < len(leaves(output))])
    whole = all(name in sent for name, _ in model.named_parameters())
    kind = nn.Sequential if whole and not precision and not odd else Partial
    scale = None if mixed else _scale(kind(OrderedDict(parts)), unit(inputs)[2].shape[1:])
    if scale is not None and not all(map(torch.allclose, scale, (mean, deviation))):
        # A network that scales its inputs itself reads the records all the same. Attacks ask for a scale that
        # comes first, and the network gets what it gets otherwise.
        own, wide = (value[:, None, None] for value in scale)
        back = Normalise((mean[:, None, None] - own) / wide, deviation[:, None, None] / wide)
        parts = {"normalise": Normalise(own, wide), "inputs": back} | {
            name: part for name, part in parts.items() if name != "normalise"
        }
    return kind(OrderedDict(parts))


def _scale(model: nn.Module, shape: tuple[int, ...]) -> tuple[Tensor, Tensor] | None:
    """Return mean and deviation [channels] by which the first dense layer reads records, or None."""
    own = deepcopy(model, {id(p): p for p in model.parameters()}).eval()
    x = noise_images(shape)[:4]  # type: ignore[arg-type]
    with torch.no_grad(), suppress(Exception):
        read = torch.cat([first_dense(own, part)[1] for part in x.split(2)])
        if read.shape == x.shape:
            away, other = (each - each.mean((0, 2, 3), keepdim=True) for each in (x, read))
            slope = (away * other).sum((0, 2, 3), keepdim=True) / away.square().sum((0, 2, 3), keepdim=True)
            shift = (read - slope * x).mean((0, 2, 3), keepdim=True)
            if bool((slope != 0).all()) and torch.allclose(read, slope * x + shift, rtol=1e-4, atol=1e-5):
                return (-shift / slope).flatten(), (1 / slope).flatten()
    return None


def fixed(model: nn.Module, trained: Collection[str]) -> nn.Module:
    """Make each parameter of a model that is not trained a buffer, in place, and return the model."""
    kept = {id(value) for name, value in model.named_parameters() if name in trained}
    for layer in model.modules():
        for name, value in list(layer.named_parameters(recurse=False)):
            if id(value) not in kept:
                delattr(layer, name)
                layer.register_buffer(name, value.detach())
                # A recurrent layer has a list of its weights, which this keeps up to date.
                setattr(layer, name, layer.get_buffer(name))
    return model


def unit(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and deviation by which values from 0 to 1 become inputs, and these values."""
    # Pixels from 0 to 1 or from 0 to 255 have that range. For other inputs, the range of each channel is
    # taken from the batch. Each number of a record without rows and columns is a channel.
    edges = (1, 1) if inputs.dim() == 2 else inputs.shape[-2:]
    images = inputs.reshape(len(inputs), -1, *edges).float()
    lows, highs = images.amin((0, 2, 3)), images.amax((0, 2, 3))
    low, high = float(lows.min()), float(highs.max())
    if low >= 0 and (high <= 1 or (inputs.dim() > 2 and 2 < high <= 255)):
        lows, highs = torch.zeros_like(lows), torch.full_like(highs, 1.0 if high <= 1 else 255.0)
    widths = torch.where(highs > lows, highs - lows, 1.0)
    return -lows / widths, 1 / widths, (images - lows[:, None, None]) / widths[:, None, None]
