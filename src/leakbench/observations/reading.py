"""The reader of a capture, which a stranger may have written: it must fit its own victim."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from leakbench.base.artefacts import Facts, open_tensors
from leakbench.base.errors import Unfit, UserError
from leakbench.base.processes.workers import Crew
from leakbench.networks import generators, victims
from leakbench.networks.per_trial import hide
from leakbench.observations.facts import VALUES, check_amount, told
from leakbench.observations.observation import Observation
from leakbench.observations.threat_model import ThreatModel

Arrays = dict[str, np.ndarray]
# What may be raised for values of a file that fit no network, by its constructor or for hidden layers that it
# lacks.
_NO_NETWORK = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError, RuntimeError, ArithmeticError,
    AssertionError, NotImplementedError,
)  # fmt: skip
_UNSTABLE = " (was the client's training stable?)"


def read_observation(
    path: Path,
    generator: Path | None = None,
    labels: Path | None = None,
    labelling: str = "none",
    work: Crew | None = None,
) -> tuple[Observation, Facts]:
    """Read a capture and check that it fits its own victim.

    path: the file of the observation (docs/observation.md).
    generator: the file of the attacker's generator, if the attack uses one.
    labels: the file of the labels, if an oracle gives them.
    labelling: what the attack does about labels (`Observation`).
    work: where a killed attack finds its earlier work, how many processes it may use, and on which device.

    Returns the observation, and the facts as the file has them. Raises UserError for a file that is
    malformed, lacks a tensor or holds NaN or Inf.
    """
    tensors, read = open_tensors(path)
    facts = told(read, str(path))
    if "origin" not in tensors:
        raise UserError(f"{path}: not an observation, 'origin' is missing (see docs/observation.md)")
    check_amount(facts, tensors["origin"].size, str(path))
    observation = Observation(
        weights=_below(tensors, "global/"),
        updates=_below(tensors, "updates/"),
        shown=_below(tensors, "shown/"),
        each=_below(tensors, "each/"),
        origin=np.array(tensors["origin"]),
        candidates=tensors.get("candidates"),
        knows=ThreatModel(**facts["knows"]),
        labelling=labelling,
        work=work or Crew(),
        **{key: facts[key] for key in ("network", "clients", "kind", "hidden", "mode", "dropout", "local")},
    )
    check(observation, str(path))
    if generator is not None:
        observation = replace(observation, generator=_read_generator(generator, observation.network))
    if labels is not None:
        observation = replace(observation, labels=_read_labels(labels, observation))
    return observation, read


def _below(tensors: Arrays, folder: str) -> Arrays:
    return {name.removeprefix(folder): each for name, each in tensors.items() if name.startswith(folder)}


def _one_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"


def check(observation: Observation, where: str) -> None:
    """Refuse an observation from the file `where` whose tensors do not fit its victim."""
    network, origin = observation.network, observation.origin
    try:
        rows, columns, channels = map(int, network["shape"])
        # Only names and shapes are made, so a network that does not fit its file's tensors takes no memory.
        with torch.device("meta"):
            shape = rows, columns, channels
            model = victims.build(network["module"], shape, network["classes"], network["parameters"])
            hide(model, observation.hidden.get("layers", []))
    except _NO_NETWORK as problem:
        what = f"network is not a victim ({_one_line(problem)}; see docs/observation.md)"
        raise UserError(f"{where}: {what}") from problem
    if origin.ndim != 1 or not np.issubdtype(origin.dtype, np.integer) or (len(origin) and origin.min() < 0):
        raise UserError(
            f"{where}: origin is {origin.dtype} {origin.shape}, not the number of a sent model for each round"
        )
    _check_names(observation, set(model.state_dict()), where)
    _check_candidates(observation, where)
    _check_each(observation, where)
    updates, sent = (len(origin), len(observation.clients)), int(origin.max()) + 1 if len(origin) else 0
    trained = {name for name, _ in model.named_parameters()}
    for name, value in model.state_dict().items():
        expected, dtype = tuple(value.shape), str(value.dtype).removeprefix("torch.")
        for kind, tensors in (("global", observation.weights), ("updates", observation.updates)):
            if kind == "updates" and name not in trained:
                continue
            if name not in tensors:
                raise Unfit(f"{where}: {kind}/{name} is missing (the victim has it)")
            array = tensors[name]
            lead = 1 if kind == "global" else 2
            if array.ndim != lead + len(expected) or array.shape[lead:] != expected or array.dtype != dtype:
                raise Unfit(
                    f"{where}: {kind}/{name} is {array.dtype} {array.shape[lead:]}, the victim has {dtype} "
                    f"{expected}"
                )
            _raise_unless_finite(array, f"{where}: {kind}/{name}", _UNSTABLE)
        if observation.weights[name].shape[0] < sent:
            raise Unfit(
                f"{where}: global/{name} has {observation.weights[name].shape[0]} models, origin names {sent}"
            )
        if name in trained and observation.updates[name].shape[:2] != updates:
            raise Unfit(
                f"{where}: updates/{name} has {observation.updates[name].shape[:2]} rounds and clients, "
                f"origin and clients say {updates}"
            )


def _raise_unless_finite(array: np.ndarray, what: str, mend: str = "") -> None:
    # In parts, because the array may be that of a large file.
    if not all(np.isfinite(part).all() for part in array):
        raise Unfit(f"{what} holds NaN or Inf{mend}")


def _check_names(observation: Observation, own: set[str], where: str) -> None:
    """Refuse undeclared tensors that are not the victim's, and declared tensors that are missing."""
    lead = len(observation.origin), len(observation.clients)
    kinds = (("global", observation.weights, ""), ("updates", observation.updates, "sent"),
             ("shown", observation.shown, "shown"))  # fmt: skip
    for kind, tensors, fact in kinds:
        declared = set(observation.hidden.get(fact, []))
        for name in sorted((set(tensors) - (own if kind != "shown" else set())) | declared):
            if name not in declared:
                raise Unfit(
                    f"{where}: {kind}/{name} belongs to no layer of the victim and is not declared as shared "
                    "(leave it on the client, or name it in the fact hidden.shown or hidden.sent)"
                )
            if name not in tensors:
                raise Unfit(f"{where}: {kind}/{name} is missing (the fact hidden.{fact} declares it)")
            if tensors[name].shape[:2] != lead or tensors[name].dtype != np.float32:
                raise Unfit(
                    f"{where}: {kind}/{name} is {tensors[name].dtype} {tensors[name].shape}, not float32 of "
                    f"{lead[0]} rounds and {lead[1]} clients"
                )
            _raise_unless_finite(tensors[name], f"{where}: {kind}/{name}", _UNSTABLE)


def _check_each(observation: Observation, where: str) -> None:
    """Refuse clients' own tensors that the models lack, or whose shape or precision differs from theirs."""
    clients = {array.shape[1] for array in observation.each.values() if array.ndim > 1}
    for name, array in observation.each.items():
        common = observation.weights.get(name)
        if common is None:
            raise Unfit(f"{where}: each/{name} belongs to no layer of the victim (global/{name} is missing)")
        shapes = array.shape[:1] + array.shape[2:], common.shape
        if array.ndim < 2 or shapes[0] != shapes[1] or array.dtype != common.dtype or len(clients) != 1:
            raise Unfit(
                f"{where}: each/{name} is {array.dtype} {array.shape}, not {common.dtype} of models, clients "
                f"(as many as the others have) and {common.shape[1:]}"
            )
        _raise_unless_finite(array, f"{where}: each/{name}")


def _check_candidates(observation: Observation, where: str) -> None:
    """Refuse candidates that do not have the shape of the victim's images, or that are not declared."""
    found, shape = observation.candidates, tuple(observation.network["shape"])
    if (found is not None) != observation.knows.candidates_known:
        raise Unfit(f"{where}: the tensor candidates and the fact knows.candidates_known go together")
    if found is None:
        return
    if found.ndim != 4 or found.shape[1:] != shape or found.dtype not in (np.uint8, np.float32):
        raise Unfit(f"{where}: candidates is {found.dtype} {found.shape}, not uint8 or float32 of {shape}")
    if not 0 < found.size <= VALUES:
        raise Unfit(f"{where}: candidates: {found.size} values of images, not 1 to {VALUES}")
    _raise_unless_finite(found, f"{where}: candidates")


def _read_generator(path: Path, network: Facts) -> nn.Module:
    tensors, made = open_tensors(path)
    try:
        trained = generators.build(
            made["module"], tuple(made["features"]), tuple(network["shape"]), made["parameters"]
        )
        trained.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in tensors.items()})
    except _NO_NETWORK as problem:
        what = f"not a generator ({_one_line(problem)}; delete it and run its rule again)"
        raise UserError(f"{path}: {what}") from problem
    return trained.eval()


def _read_labels(path: Path, observation: Observation) -> list[np.ndarray]:
    tensors, _ = open_tensors(path)
    found = []
    for client, k in enumerate(observation.clients):
        value, wanted = tensors.get(f"labels/{client}"), (observation.rounds, k)
        if value is None or value.shape != wanted or not np.issubdtype(value.dtype, np.integer):
            raise UserError(
                f"{path}: labels/{client} must be whole numbers {wanted} (see docs/observation.md)"
            )
        if value.size and not 0 <= value.min() <= value.max() < observation.network["classes"]:
            raise UserError(f"{path}: labels/{client} has a label beyond the victim's classes")
        found.append(np.array(value))
    return found
