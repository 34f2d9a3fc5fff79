"""The inputs of an audit: a client's code or the demo, recorded rounds, and a capture."""

import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench.audit.audit import Audit, of_client, of_observations, of_round
from leakbench.audit.child import Tell
from leakbench.audit.client import Client, client
from leakbench.audit.options import loaded
from leakbench.audit.replay import watched
from leakbench.audit.round import Round, finite, trainable, untrained
from leakbench.audit.view import batch_statistics, drops, unit, wrapped
from leakbench.base.errors import Altered, UserError
from leakbench.base.tensors import Tensors
from leakbench.base.whole import whole
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.observations.rounds import Rounds, read_rounds
from leakbench.observations.threat_model import ThreatModel

# The options of the command (`jobs.audit`).
Options = dict[str, Any]
# Of the demo's 200 pictures of 25 × 25 pixels, half are faces.
FACES, EDGE, NEURONS = 100, 25, 1000
# What somebody can do whose file is no capture.
_MEND = (
    "an audit takes FILE.py:NAME, a folder of rounds or a capture, which you may copy again, or two files of "
    "weights: before.pt after.pt --model FILE.py:NAME"
)
# What DataParallel, torch.compile and Opacus put before the names of tensors.
_WRAPPED = re.compile(r"^(?:(?:_orig_mod|_module|module)\.)+")
# The largest edge, in pixels, of images with which a network is tried.
LARGEST = 256


def audited(name: str, options: Options, tell: Tell) -> dict[str, Any]:
    """Return the audit and the pictures, as values for JSON, of what a name stands for, or of the demo."""
    # It names a function in a file, a folder of recorded rounds, a file of weights, or an observation.
    if options["demo"]:
        found = _of_code(demo, options, tell)
    elif ":" in name:
        made = loaded(name)
        if not callable(made):
            raise UserError(f"is {type(made).__name__}, not a function that returns (model, loss, batch)")
        found = _of_code(made, options, tell)
    elif options["returned"]:
        found = of_states(Path(name), Path(options["returned"]), options, tell)
    else:
        found = (of_rounds if Path(name).is_dir() else of_capture)(Path(name), options, tell)
    found.source, found.declared = name if ":" in name else str(Path(name)), options["declared"]
    return {"audit": found.to_dict(), "pictures": found.pictures}


def _of_code(make: Callable[[], Any], options: Options, tell: Tell) -> Audit:
    own = _client(make, options)
    defence = loaded(options["defence"]) if options["defence"] else None
    if isinstance(own, Round):
        return of_round(own, options["budget"], tell, show=options["show"])
    return of_client(own, options["budget"], tell, show=options["show"], defence=defence)


def _client(make: Callable[[], Any], options: Options) -> Client | Round:
    torch.manual_seed(0)
    returned, watch = watched(make)
    several = isinstance(returned, tuple | list) and len(returned) > 0
    # A function that trains may return several values too. Flower's clients return weights, a number of
    # records and metrics.
    if several and (isinstance(returned[0], torch.nn.Module) or not watch.steps):
        return client(returned, options["batch"], options["local_steps"], options["lr"])
    if callable(returned) and not isinstance(returned, torch.nn.Module):
        returned, watch = watched(returned)
    return watch.read(returned)


def demo() -> tuple[nn.Module, nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """Return an untrained network, its loss, and 200 pictures with labels, in an order that never changes."""
    with (files("skimage") / "data" / "lfw_subset.npy").open("rb") as file:
        pictures = torch.from_numpy(np.load(file)).float().clamp(0, 1)
    labels = (torch.arange(len(pictures)) < FACES).long()
    rng = torch.Generator().manual_seed(0)
    order = torch.randperm(len(pictures), generator=rng)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = nn.Sequential(
            nn.Flatten(), nn.Linear(EDGE * EDGE, NEURONS), nn.ReLU(), nn.Linear(NEURONS, 2)
        )
    return network, nn.CrossEntropyLoss(), (pictures[order], labels[order])


def of_capture(path: Path, options: Options, tell: Tell) -> Audit:
    """Audit every update of an observation file."""
    try:
        whole(path)
        observation, _ = read_observation(path)
    except Altered as problem:
        # Rules make this project's captures again. This file may be anybody's, and the only copy.
        raise Altered(path, problem.what, _MEND) from problem
    return _audited(observation, options, tell)


def of_rounds(folder: Path, options: Options, tell: Tell) -> Audit:
    """Audit the updates that `leakbench.record` kept."""
    if options["model"] is None:
        raise UserError(f"{folder}: --model is missing (FILE.py:NAME, a function that returns the network)")
    rounds = read_rounds(folder)
    for why in rounds.left_out.values():
        tell(f"left out: {why}")
    try:
        model, example = _network(loaded(options["model"]))
    except UserError as problem:
        raise UserError(f"{options['model']}: {problem}") from problem
    found = _audited(recorded(rounds, folder, model, example, options), options, tell)
    found.about = {"network": options["model"]} | found.about
    if frozen := untrained(model, trainable(model)):
        found.assumptions.append(f"{frozen} are not trained in the network of --model, and are left out.")
    found.assumptions += [f"Left out: {why}." for why in rounds.left_out.values()]
    return found


def of_states(before: Path, after: Path, options: Options, tell: Tell) -> Audit:
    """Audit two files of weights: what a client was sent, and what it sent back."""
    if options["model"] is None or not options["batch"]:
        raise UserError(
            f"{before}: --model and --batch are missing (FILE.py:NAME, a function that returns the network; "
            "and the number of records behind the update)"
        )
    model, example = _network(loaded(options["model"]))
    own = model.state_dict()
    sent, back = ({n: v[None].float().numpy() for n, v in _state(p, own).items()} for p in (before, after))
    moved = {n: (back[n] - v)[None] for n, v in sent.items() if own[n].is_floating_point()}
    one = Rounds(sent, {n: finite({n: torch.from_numpy(v)})[n].numpy() for n, v in moved.items()}, [0],
                 [options["batch"]], {}, {})  # fmt: skip
    found = _audited(recorded(one, after, model, example, options), options, tell)
    found.about = {"network": options["model"]} | found.about
    return found


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
    if list(found) == [f"arr_{place}" for place in range(len(own))]:
        found = dict(zip(own, found.values(), strict=True))
    found = {_WRAPPED.sub("", str(name)): value for name, value in found.items()}
    for name, value in own.items():
        if name not in found or found[name].shape != value.shape:
            there = tuple(found[name].shape) if name in found else "missing"
            raise UserError(f"{path}: {name} is {there}, and {tuple(value.shape)} in the network (--model)")
    return {name: found[name].detach().to_dense() for name in own}


def recorded(
    rounds: Rounds, folder: Path, model: nn.Module, example: Tensor, options: Options
) -> Observation:
    """Return the observation of recorded rounds."""
    # The network reads inputs such as `example`. Raises UserError if the rounds are not of this network.
    mean, deviation, images = unit(example)
    # Frozen parameters come back as they were sent, which tells nothing.
    trained = set(trainable(model))
    whole = wrapped(model, example, mean, deviation, trained)
    channels, rows, columns = images.shape[1:]
    with torch.no_grad():
        classes = whole.eval()(images[:1]).shape[1]
    own = model.state_dict()
    for name, value in own.items():
        if name not in rounds.sent or rounds.sent[name].shape[1:] != tuple(value.shape):
            there = rounds.sent[name].shape[1:] if name in rounds.sent else "missing"
            raise UserError(f"{folder}: {name} is {there}, and {tuple(value.shape)} in the network (--model)")
    if odd := sorted(trained - set(rounds.updates)):
        raise UserError(f"{folder}: {odd[0]} is {rounds.sent[odd[0]].dtype}, no real numbers (record again)")
    return Observation(
        network={"shape": [rows, columns, channels], "classes": classes},
        weights={f"network.{name}": rounds.sent[name] for name in own},
        updates={f"network.{name}": rounds.updates[name] for name in trained},
        origin=np.arange(len(next(iter(rounds.sent.values())))),
        clients=rounds.clients,
        kind="model",
        mode="train" if batch_statistics(model) else "eval",
        dropout=drops(model, example),
        local={"lr": options["lr"], "batch_size": None, "epochs": options["local_steps"]},
        knows=ThreatModel(source="a Flower app", local_set_repeats=options.get("repeats", False)),
        own=whole,
    )


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
        sizes = [torch.rand(2, first.in_channels, edge, edge) for edge in range(8, LARGEST + 1, 4)]
        fitting = [images for images in sizes if _reads(model, images)]
        # Pooling rounds sizes down, so slightly larger images may fit too.
        if fitting and fitting[-1].shape[-1] < 1.5 * fitting[0].shape[-1]:
            return fitting[0]
    raise UserError("return (network, example), with a batch of inputs that are like the clients'")


def _reads(model: nn.Module, inputs: Tensor) -> bool:
    with torch.no_grad(), suppress(RuntimeError, ValueError):
        return len(deepcopy(model).eval()(inputs)) == len(inputs)
    return False


def _audited(observation: Observation, options: Options, tell: Tell) -> Audit:
    each = product(range(observation.rounds), range(len(observation.clients)))
    parts = [(one(observation, number, client), None) for number, client in each]
    about = {"rounds": observation.rounds, "clients": len(observation.clients), **observation.in_words()}
    again = observation.knows.local_set_repeats
    audit = of_observations(
        parts, options["budget"], tell, about, clients=len(observation.clients), repeats=again
    )
    audit.budget = options["budget"]
    audit.assumptions = [
        "The records are unknown here, so only what an attack proves counts.",
        "Clients hold the same records in every round." if again else "Every round has records of its own.",
        f"Clients took {observation.local['epochs']} local steps at rate {observation.local['lr']:g}.",
    ]
    tell(audit.headline())
    return audit


def one(observation: Observation, number: int, client: int) -> Observation:
    part = observation.part(slice(number, number + 1))
    own = slice(client, client + 1)
    updates, shown = ({n: v[:, own] for n, v in each.items()} for each in (part.updates, part.shown))
    labels = None if part.labels is None else [part.labels[client]]
    return replace(part, updates=updates, shown=shown, clients=[observation.clients[client]], labels=labels)
