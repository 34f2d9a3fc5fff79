"""What the attacker saw: the models that were sent out, the updates that came back, and the threat model."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from leakbench.base.artefacts import Facts, open_tensors
from leakbench.base.errors import Unfit, UserError
from leakbench.base.processes.workers import Work
from leakbench.networks import generators, victims
from leakbench.networks.per_trial import HiddenNorm, hide
from leakbench.observations.adaptation import Adaptation
from leakbench.observations.facts import VALUES, check_amount, told
from leakbench.observations.threat_model import ThreatModel


@dataclass(frozen=True)
class Observation:
    """The attacker's view: by default that of an honest-but-curious server, otherwise as `knows` says.

    network: the victim's architecture (module, parameters, shape, classes), public to every participant.
    weights: parameter or buffer → [origins, *shape], the models that were sent out.
    updates: parameter → [rounds, clients, *shape], what came back, of the kind `kind`.
    origin: [rounds], the number of the model in `weights` from which each round started.
    clients: the number of samples of each client, if the server knows it.
    kind: `model` if updates are new minus old weights, `gradient` if they are mean gradients.
    knows: the threat model, field by field; every table prints it in words.
    generator: the attacker's own network, if the attack uses one.
    mode: the statistics that batch norms used when clients computed their updates: those of the batch at hand
    (`train`) or those that were sent (`eval`).
    dropout: whether clients dropped units by masks of their own.
    local: how a client trains, as the server has set it: learning rate, batch size (none: its whole set),
    epochs and the other facts of docs/observation.md.
    labelling: what the attack does about labels. It needs none (`none`), is given them (`oracle`), optimises
    them (`joint`) or infers them by the rule of that name (`leakbench.attacks.label_inference`).
    adaptation: what the attacker does about the defence that it knows; by default nothing.
    labels: for each client [rounds, k], in the client's order; only there for an attack that is given them.
    hidden: what is known of parameters that clients hide, if they do (docs/observation.md). `weights` and
    `updates` then lack weight and bias of the batch norms `layers`.
    shown: name → [rounds, clients, *shape], tensors behind the hidden parameters that clients share all the
    same.
    each: parameter → [origins, clients, *shape], parameters of which the server sent every client its own
    value in place of `weights`. The clients are those that took part, even where only a sum over them is
    seen.
    candidates: uint8 [n, rows, columns, channels] (float32 for records), images among which the private ones
    of all rounds are, in random order. None where the attacker holds no such images.
    work: where a killed attack finds its earlier work, how many processes it may use, and on which device.
    own: the network as an object, where it is the user's own and not a victim of the catalogue. `network`
    then names no module.
    """

    network: dict[str, Any]
    weights: dict[str, np.ndarray]
    updates: dict[str, np.ndarray]
    origin: np.ndarray
    clients: list[int]
    kind: Literal["model", "gradient"]
    knows: ThreatModel = field(default_factory=ThreatModel)
    generator: nn.Module | None = None
    mode: Literal["train", "eval"] = "eval"
    dropout: bool = False
    local: dict[str, Any] = field(default_factory=lambda: {"lr": 1.0, "batch_size": None, "epochs": 1})
    labelling: str = "none"
    adaptation: Adaptation = field(default_factory=Adaptation)
    labels: list[np.ndarray] | None = None
    hidden: dict[str, Any] = field(default_factory=dict)
    shown: dict[str, np.ndarray] = field(default_factory=dict)
    each: dict[str, np.ndarray] = field(default_factory=dict)
    candidates: np.ndarray | None = None
    work: Work = field(default_factory=Work)
    own: nn.Module | None = None

    @property
    def rounds(self) -> int:
        """Return the number of rounds observed."""
        return len(self.origin)

    def model(self, origin: int = 0) -> nn.Module:
        """Return the victim with the weights of the model number `origin` that was sent out.

        A batch norm whose scale and shift are hidden is a `HiddenNorm` in it. The network is in evaluation
        mode, so that nothing in it is drawn: only the client knows what its own dropout kept. If `mode` is
        `train`, its norms keep no statistics, so that they use those of the batch at hand.
        """
        network = self.network
        model = (
            deepcopy(self.own)
            if self.own is not None
            else victims.build(network["module"], network["shape"], network["classes"], network["parameters"])
        )
        hide(model, self.hidden.get("layers", []))
        model.load_state_dict(
            {name: torch.from_numpy(np.array(v[origin])) for name, v in self.weights.items()}
        )
        if self.mode == "train":
            for layer in model.modules():
                if isinstance(layer, _NormBase | HiddenNorm):
                    layer.running_mean = layer.running_var = layer.num_batches_tracked = None
                    layer.track_running_stats = False
        return model.eval()

    def update(self, name: str, rounds: slice = slice(None)) -> Tensor:
        """Return one parameter's updates [rounds, clients, *shape], in the precision of the clients."""
        return torch.from_numpy(np.array(self.updates[name][rounds]))

    def part(self, rounds: slice) -> "Observation":
        """Return what was seen in some of the rounds."""
        labels = None if self.labels is None else [each[rounds] for each in self.labels]
        updates, shown = (
            {name: value[rounds] for name, value in part.items()} for part in (self.updates, self.shown)
        )
        return replace(self, updates=updates, shown=shown, origin=self.origin[rounds], labels=labels)

    def beside(self, other: "Observation") -> "Observation":
        """Return this observation and `other` as one, with the rounds of `other` behind its own."""
        labels = None
        updates, shown = (
            {name: _Beside(value, more[name]) for name, value in own.items()}
            for own, more in ((self.updates, other.updates), (self.shown, other.shown))
        )
        if self.labels is not None and other.labels is not None:
            labels = [np.concatenate(both) for both in zip(self.labels, other.labels, strict=True)]
        return replace(
            self,
            updates=updates,  # type: ignore[arg-type]
            shown=shown,  # type: ignore[arg-type]
            origin=np.concatenate([self.origin, other.origin]),
            labels=labels,
        )

    def randomised(self, rounds: int, rng: torch.Generator) -> "Observation":
        """Return the null observation: the first `rounds` rounds with every update replaced by normal noise.

        Each tensor of each update keeps its standard deviation, so only the information is gone.
        """
        updates = {}
        for name in sorted(self.updates):
            true = self.update(name, slice(rounds))
            scale = true.flatten(2).std(-1, unbiased=False) if true.dim() > 2 else true.abs()
            noise = torch.randn(true.shape, generator=rng)
            updates[name] = (noise * scale.reshape(*true.shape[:2], *[1] * (true.dim() - 2))).numpy()
        return replace(self.part(slice(rounds)), updates=updates, work=self.work.part("null"))

    def in_words(self) -> dict[str, str]:
        """Return field → words of the threat model, as tables, captions and the report print it."""
        knows, local, hidden = self.knows, self.local, self.hidden
        known = {False: "unknown", True: "known"}
        steps = f"lr {local['lr']}, epochs {local['epochs']}, batch {local['batch_size'] or 'whole set'}"
        told = hidden.get("shown", []) + [f"gradients of {name}" for name in hidden.get("sent", [])]
        return {
            "threat model": knows.attacker,
            "shared": knows.shared,
            "labels": known[knows.labels_known],
            "batch size": known[knows.counts_known],
            "local training": f"{steps}; known" if knows.local_known else "unknown",
            "buffers": "sent with the model" if self.weights.keys() - self.updates else "none",
            "defence": knows.defence or "none",
            **({"local set": "the same every round"} if knows.local_set_repeats else {}),
            **({"candidates": "held, the private images among them"} if knows.candidates_known else {}),
            **({"dropout": "masks unknown"} if self.dropout else {}),
            **({"secret": f"weight and bias of {', '.join(hidden['layers'])}"} if hidden else {}),
            **({"shared of the secret": ", ".join(told)} if told else {}),
            **({"source": knows.source} if knows.source else {}),
        }


class _Beside:
    """Two arrays [rounds, clients, …] as one.

    It is read in part, since the first array may be that of a large file.
    """

    def __init__(self, first: np.ndarray, then: np.ndarray) -> None:
        self.first, self.then = first, then
        self.shape = (len(first) + len(then), *first.shape[1:])
        self.dtype = first.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        rounds, *rest = index if isinstance(index, tuple) else (index,)
        asked = np.arange(len(self))[rounds]
        number = np.atleast_1d(asked)
        own = number < len(self.first)
        parts = ((self.first, number[own]), (self.then, number[~own] - len(self.first)))
        found = np.empty((len(number), *self.then[(slice(0, 1), *rest)].shape[1:]), self.dtype)
        for where, (array, wanted) in zip((own, ~own), parts, strict=True):
            if len(wanted):
                found[where] = array[(wanted, *rest)]
        return found if asked.ndim else found[0]


# What may be raised for values of a file that fit no network, by its constructor or for hidden layers that it
# lacks.
_NO_NETWORK = (
    KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError, RuntimeError, ArithmeticError,
    AssertionError, NotImplementedError,
)  # fmt: skip


def _one_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {' '.join(str(problem).split())}"


def check(observation: Observation, where: str) -> None:
    """Refuse an observation from the file `where` whose tensors do not fit its victim."""
    network, origin = observation.network, observation.origin
    try:
        shape = tuple(int(n) for n in network["shape"])
        # Only names and shapes are made, so no memory is spent on a network that does not fit its file's
        # tensors.
        with torch.device("meta"):
            model = victims.build(
                network["module"], (shape[0], shape[1], shape[2]), network["classes"], network["parameters"]
            )
            hide(model, observation.hidden.get("layers", []))
    except _NO_NETWORK as problem:
        raise UserError(
            f"{where}: network is not a victim ({_one_line(problem)}; see docs/observation.md)"
        ) from problem
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
            if not all(np.isfinite(part).all() for part in array):
                raise Unfit(f"{where}: {kind}/{name} holds NaN or Inf (was the client's training stable?)")
        if observation.weights[name].shape[0] < sent:
            raise Unfit(
                f"{where}: global/{name} has {observation.weights[name].shape[0]} models, origin names {sent}"
            )
        if name in trained and observation.updates[name].shape[:2] != updates:
            raise Unfit(
                f"{where}: updates/{name} has {observation.updates[name].shape[:2]} rounds and clients, "
                f"origin and clients say {updates}"
            )


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
            if not np.isfinite(tensors[name]).all():
                raise Unfit(f"{where}: {kind}/{name} holds NaN or Inf (was the client's training stable?)")


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
        if not np.isfinite(array).all():
            raise Unfit(f"{where}: each/{name} holds NaN or Inf")


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
    if not np.isfinite(found).all():
        raise Unfit(f"{where}: candidates holds NaN or Inf")


def _read_generator(path: Path, network: dict[str, Any]) -> nn.Module:
    tensors, made = open_tensors(path)
    try:
        trained = generators.build(
            made["module"], tuple(made["features"]), tuple(network["shape"]), made["parameters"]
        )
        trained.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in tensors.items()})
    except _NO_NETWORK as problem:
        raise UserError(
            f"{path}: not a generator ({_one_line(problem)}; delete it and run its rule again)"
        ) from problem
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


def read_observation(
    path: Path,
    generator: Path | None = None,
    labels: Path | None = None,
    labelling: str = "none",
    work: Work | None = None,
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
    network = facts["network"]
    observation = Observation(
        network=network,
        weights={
            name.removeprefix("global/"): value
            for name, value in tensors.items()
            if name.startswith("global/")
        },
        updates={
            name.removeprefix("updates/"): value
            for name, value in tensors.items()
            if name.startswith("updates/")
        },
        origin=np.array(tensors["origin"]),
        clients=facts["clients"],
        kind=facts["kind"],
        knows=ThreatModel(**facts["knows"]),
        hidden=facts["hidden"],
        mode=facts["mode"],
        dropout=facts["dropout"],
        shown={
            name.removeprefix("shown/"): value for name, value in tensors.items() if name.startswith("shown/")
        },
        each={
            name.removeprefix("each/"): value for name, value in tensors.items() if name.startswith("each/")
        },
        local=facts["local"],
        candidates=tensors.get("candidates"),
        labelling=labelling,
        work=work or Work(),
    )
    check(observation, str(path))
    if generator is not None:
        observation = replace(observation, generator=_read_generator(generator, network))
    if labels is not None:
        observation = replace(observation, labels=_read_labels(labels, observation))
    return observation, read
