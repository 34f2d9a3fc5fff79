"""Updates that were recorded: a capture, rounds of a Flower app, or two files of weights."""

import re
import zipfile
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.audit.child import Json, Tell, loaded
from leakbench.audit.client import observed
from leakbench.audit.network import drops, finite, rounded, trainable, untrained
from leakbench.base.errors import Altered, UserError
from leakbench.base.tensors import Tensors
from leakbench.base.whole import whole
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.observations.rounds import Rounds, read_rounds
from leakbench.observations.threat_model import ThreatModel

# What somebody can do whose file is no capture.
_MEND = (
    "an audit takes FILE.py:NAME, a folder of rounds or a capture, which you may copy again, or two files of "
    "weights: before.pt after.pt --model FILE.py:NAME"
)
# What DataParallel, torch.compile and Opacus put before the names of tensors.
_WRAPPED = re.compile(r"^(?:(?:_orig_mod|_module|module)\.)+")
# The largest edge, in pixels, of images with which a network is tried.
LARGEST = 256


@dataclass(frozen=True)
class Options:
    """The options of the command (`jobs.audit`)."""

    budget: float
    declared: dict[str, float]
    demo: bool = False
    batch: int | None = None
    local_steps: int = 1
    lr: float = 1.0
    show: bool = False
    model: str | None = None
    defence: str | None = None
    repeats: bool = False
    # The file of weights that a client sent back, if the target is the one that it was sent.
    returned: str | None = None
    memory: float = 4.0  # in gigabytes, of the process and all that it starts
    # The file that gets the client, if it is data alone, or that has it.
    handed: str = ""


def recorded(path: Path, options: Options, tell: Tell) -> tuple[Observation, list[str]]:
    """Return what the server saw, and sentences on what is left out of it."""
    if options.returned:
        return _of_states(path, Path(options.returned), options)
    if path.is_dir():
        return _of_rounds(path, options, tell)
    try:
        whole(path)
        return read_observation(path)[0], []
    except Altered as problem:
        # Rules make this project's captures again. This file may be anybody's, and the only copy.
        raise Altered(path, problem.what, _MEND) from problem


def _of_rounds(folder: Path, options: Options, tell: Tell) -> tuple[Observation, list[str]]:
    if options.model is None:
        raise UserError(f"{folder}: --model is missing (FILE.py:NAME, a function that returns the network)")
    rounds = read_rounds(folder)
    for why in rounds.left_out.values():
        tell(f"left out: {why}")
    try:
        model, example = _network(loaded(options.model))
    except UserError as problem:
        raise UserError(f"{options.model}: {problem}") from problem
    frozen = untrained(model, trainable(model))
    notes = [f"{frozen} are not trained in the network of --model, and are left out."] if frozen else []
    notes += [f"Left out: {why}." for why in rounds.left_out.values()]
    return _observed(rounds, folder, model, example, options), notes


def _of_states(before: Path, after: Path, options: Options) -> tuple[Observation, list[str]]:
    if options.model is None or not options.batch:
        raise UserError(
            f"{before}: --model and --batch are missing (FILE.py:NAME, a function that returns the network; "
            "and the number of records behind the update)"
        )
    model, example = _network(loaded(options.model))
    own = model.state_dict()
    read = [_state(path, own) for path in (before, after)]
    sent, back = ({n: v[None].float() for n, v in each.items()} for each in read)
    low = [f"The weights that came back are {how}." for how in map(rounded, read[1:]) if how]
    moved = finite({n: (back[n] - v)[None] for n, v in sent.items() if own[n].is_floating_point()})
    weights, updates = ({n: v.numpy() for n, v in each.items()} for each in (sent, moved))
    rounds = Rounds(weights, updates, [0], [options.batch], {}, {})
    return _observed(rounds, after, model, example, options), low


def _state(path: Path, own: Tensors) -> Tensors:
    """Return the weights in a file of torch.save, safetensors or NumPy. No object is unpickled."""
    # Raises UserError for a file that is none, or whose tensors are not those of the network `own`.
    most = 4 * sum(value.nbytes for value in own.values()) + (1 << 20)
    try:
        packed = zipfile.is_zipfile(path)
        size = sum(e.file_size for e in zipfile.ZipFile(path).infolist()) if packed else path.stat().st_size
        if size > most:
            raise UserError(f"{path}: holds {size:,} bytes, far more than the network (--model)")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                found: Any = {name: torch.from_numpy(file[name]) for name in file.files}
        elif path.suffix == ".safetensors":
            from safetensors.torch import load_file

            found = load_file(path)
        else:
            found = torch.load(path, map_location="cpu", weights_only=True)
    except UserError:
        raise
    except Exception as problem:
        raise UserError(f"{path}: holds more than tensors, and is not unpickled (save "
                        "model.state_dict())") from problem  # fmt: skip
    for key in ("state_dict", "model"):
        found = found[key] if isinstance(found, dict) and isinstance(found.get(key), dict) else found
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{path}: is no state_dict (save model.state_dict())")
    found = _named(found, own)
    found = {_WRAPPED.sub("", str(name)): value for name, value in found.items()}
    _check({name: tuple(value.shape) for name, value in found.items()}, own, path)
    return {name: found[name].detach().to_dense() for name in own}


def _named(found: Json, own: Tensors) -> Json:
    """Return arrays that have no names under those of the network, in its order."""
    names = {f"arr_{place}": name for place, name in enumerate(own)}
    return {names[n]: value for n, value in found.items()} if found.keys() <= names.keys() else found


def _check(shapes: dict[str, tuple[int, ...]], own: Tensors, where: Path) -> None:
    for name, value in own.items():
        if shapes.get(name) != tuple(value.shape):
            raise UserError(
                f"{where}: {name} is {shapes.get(name, 'missing')}, and {tuple(value.shape)} in the network "
                "(--model)"
            )


def _observed(
    rounds: Rounds, folder: Path, model: nn.Module, example: Tensor, options: Options
) -> Observation:
    """Return the observation of recorded rounds."""
    # The network reads inputs such as `example`. Raises UserError if the rounds are not of this network.
    own = model.state_dict()
    rounds = replace(rounds, sent=_named(rounds.sent, own), updates=_named(rounds.updates, own))
    _check({name: value.shape[1:] for name, value in rounds.sent.items()}, own, folder)
    # Frozen parameters come back as they were sent, which tells nothing.
    trained = set(trainable(model))
    if odd := sorted(trained - set(rounds.updates)):
        raise UserError(f"{folder}: {odd[0]} is {rounds.sent[odd[0]].dtype}, no real numbers (record again)")
    return observed(
        model, example, trained, weights={f"network.{name}": rounds.sent[name] for name in own},
        updates={f"network.{name}": rounds.updates[name] for name in trained},
        origin=np.arange(len(next(iter(rounds.sent.values())))), clients=rounds.clients, kind="model",
        local={"lr": options.lr, "batch_size": None, "epochs": options.local_steps},
        dropout=drops(model, example),
        knows=ThreatModel(source="a Flower app", local_set_repeats=options.repeats),
    )  # fmt: skip


def _network(made: Any) -> tuple[nn.Module, Tensor]:
    """Return the network that --model names, or that its function returns, and an example of its inputs."""
    if not isinstance(made, nn.Module | tuple) and callable(made):
        made = made()
    model, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        raise UserError(f"returned {type(model).__name__}, not a torch.nn.Module")
    if isinstance(example, Tensor):
        return model, example
    return model, _example(model)


def _example(model: nn.Module) -> Tensor:
    """Return two inputs of the size that a network reads, which is that of the first dense layer."""
    # If the first layer is a convolution, the inputs are square images of the smallest edge that the network
    # reads, up to LARGEST, in steps of 4 pixels. Raises UserError if it reads none of them, or some that are
    # much larger.
    first = next((m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)), None)
    if isinstance(first, nn.Linear):
        return torch.rand(2, first.in_features)
    if isinstance(first, nn.Conv2d):
        fitting, own = [], deepcopy(model).eval()
        for edge in range(8, LARGEST + 1, 4):
            images = torch.rand(2, first.in_channels, edge, edge)
            with torch.no_grad(), suppress(RuntimeError, ValueError):
                fitting += [images] if len(own(images)) == len(images) else []
        # Pooling rounds sizes down, so slightly larger images may fit too.
        if fitting and fitting[-1].shape[-1] < 1.5 * fitting[0].shape[-1]:
            return fitting[0]
    raise UserError("return (network, example), with a batch of inputs that are like the clients'")


def one(observation: Observation, number: int, client: int) -> Observation:
    part = observation.part(slice(number, number + 1))
    own = slice(client, client + 1)
    updates, shown = ({n: v[:, own] for n, v in each.items()} for each in (part.updates, part.shown))
    labels = None if part.labels is None else [part.labels[client]]
    return replace(part, updates=updates, shown=shown, clients=[observation.clients[client]], labels=labels)
