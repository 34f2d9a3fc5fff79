"""A client as data: what its own code hands over to a process that runs none of it.

Modules of libraries are data already. The forward pass of somebody's own module becomes a list of calls.
Whoever reads these takes known classes, functions and methods alone.
"""

import operator
from collections.abc import Mapping
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.graph import inplace_methods, magic_methods
from torch.overrides import get_overridable_functions
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from leakbench.audit.client import Client, client
from leakbench.audit.network import leaves
from leakbench.base.errors import UserError

# Where classes of modules come from whose code is not the client's.
LIBRARIES = ("torch.nn.modules.", "torchvision.models.", "torchvision.ops.", "transformers.", "peft.")
# What a forward pass may read of a tensor.
_READ = {"shape", "ndim", "dtype", "device", "T", "mT"}
_OVERRIDABLE = get_overridable_functions()
_FUNCTIONS = {
    **{f"{space.__name__}.{each.__name__}": each
       for space in (torch, nn.functional) for each in _OVERRIDABLE[space] if hasattr(each, "__name__")},
    **{f"operator.{name}": getattr(operator, name)
       for name in (*magic_methods, *inplace_methods, "getitem") if hasattr(operator, name)},
    "getattr": lambda value, name: getattr(value, name if name in _READ else ""),
}  # fmt: skip
_NAMES = {id(each): name for name, each in _FUNCTIONS.items()} | {id(getattr): "getattr"}
_METHODS = {name for each in _OVERRIDABLE[Tensor] if (name := getattr(each, "__name__", "_"))[0] != "_"}


class Traced(nn.Module):
    """Somebody's own module: its parts, under their names, and the calls of its forward pass in each mode."""

    def __init__(self, own: nn.Module, calls: dict[bool, list[tuple[Any, ...]]]) -> None:
        super().__init__()
        self.__dict__ |= vars(_parts(own, {}))
        self.calls = calls

    def forward(self, x: Any) -> Any:
        found: Any = {"": x}
        for name, kind, target, *given in self.calls[self.training]:
            args, kwargs = _filled(given, found)
            if kind == "placeholder":
                found[name] = x
            elif kind == "get_attr":
                place, _, last = target.rpartition(".")
                part = self.get_submodule(place)
                found[name] = (part._parameters | part._buffers)[last]
            elif kind == "call_module":
                found[name] = self.get_submodule(target)(*args, **kwargs)
            elif kind == "call_method" and target in _METHODS and isinstance(args[0], Tensor | fx.Proxy):
                found[name] = getattr(args[0], target)(*args[1:], **kwargs)
            else:
                found[name] = args[0] if kind == "output" else _FUNCTIONS[target](*args, **kwargs)
        return found[name]


class _LibraryTracer(fx.Tracer):
    def is_leaf_module(self, module: nn.Module, name: str) -> bool:
        return _of_libraries(module)


def _of_libraries(module: nn.Module) -> bool:
    return all(f"{type(each).__module__}.".startswith(LIBRARIES) for each in module.modules())


def _parts(own: nn.Module, known: dict[int, nn.Module]) -> nn.Module:
    """Return the tensors and the parts of a module, without its code."""
    if _of_libraries(own):
        return own
    if id(own) not in known:
        known[id(own)] = out = nn.Module()
        for name in ("_parameters", "_buffers", "_non_persistent_buffers_set", "training"):
            out.__dict__[name] = getattr(own, name)
        out._modules = {name: part and _parts(part, known) for name, part in own._modules.items()}
    return known[id(own)]


def _plain(value: Any) -> Any:
    """Return arguments of a call as data: the name of a node and the bounds of a slice within a mapping."""
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, slice):
        return {"slice": _plain([value.start, value.stop, value.step])}
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value)) if isinstance(value, tuple) else [*map(_plain, value)]
    return {name: _plain(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _filled(value: Any, found: Mapping[str, Any]) -> Any:
    if isinstance(value, tuple | list):
        return type(value)(_filled(each, found) for each in value)
    if isinstance(value, dict) and value.keys() == {"node"}:
        return found[value["node"]]
    if isinstance(value, dict) and value.keys() == {"slice"}:
        return slice(*_filled(value["slice"], found))
    return {name: _filled(each, found) for name, each in value.items()} if isinstance(value, dict) else value


def _traced(model: nn.Module, inputs: Tensor) -> nn.Module:
    """Return a network as data. Raises an exception where it is none."""
    if _of_libraries(model):
        return model
    calls: dict[bool, list[tuple[Any, ...]]] = {}
    for training in (True, False):
        nodes = _LibraryTracer().trace(deepcopy(model).train(training)).nodes
        calls[training] = [
            (node.name, node.op, node.target if isinstance(node.target, str) else _NAMES[id(node.target)],
             _plain(node.args), _plain(node.kwargs))
            for node in nodes
        ]  # fmt: skip
    found = Traced(model, calls)
    for changed in (lambda net: net, lambda net: net.eval()):
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            each = []
            for net in (model, found):
                torch.manual_seed(0)
                each.append(leaves(changed(deepcopy(net))(inputs[:2].clone())))
        if not all(map(torch.equal, *each)):
            raise UserError("the network computes something else than what was traced")
    return found


def hand_over(own: Client, file: Path) -> bool:
    """Write a client to a file, and return whether it is data alone."""
    try:
        dtype = next(own.model.parameters()).dtype if own.inputs.is_floating_point() else own.inputs.dtype
        made = [_traced(own.model, own.inputs.to(dtype)), own.loss, (own.inputs, own.targets)]
        made += [] if own.validation is None else [own.validation]
        torch.save((made, own.records, own.local_steps, own.lr), file)
        taken(file)
    except Exception:  # noqa: BLE001 - the client's code may raise anything, and is measured where it ran
        file.unlink(missing_ok=True)
        return False
    return True


def taken(file: Path) -> Client:
    """Return the client that was handed over. Raises UserError for what is not data alone."""
    with safe_globals([_known(name) for name in get_unsafe_globals_in_checkpoint(file)]):
        return client(*torch.load(file, weights_only=True))


def _known(name: str) -> Any:
    """Return a class or a function of a library by its whole name."""
    if name.startswith("torch.nn.functional.") and name in _FUNCTIONS:
        return _FUNCTIONS[name]
    place, _, last = name.rpartition(".")
    if name == f"{__name__}.Traced" or f"{place}.".startswith(LIBRARIES):
        found = getattr(import_module(place), last, None)
        module = isinstance(found, type) and issubclass(found, nn.Module)
        if module or (isinstance(found, type) and last.endswith("Config")):
            return found
    raise UserError(f"{name} is the client's own code")
