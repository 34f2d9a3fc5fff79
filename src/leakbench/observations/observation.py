"""What the attacker saw: the models that were sent out, the updates that came back, and the threat model."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from leakbench.base.artefacts import Facts
from leakbench.base.errors import Unfit
from leakbench.base.pixels import pixels
from leakbench.base.processes.workers import Crew
from leakbench.networks import victims
from leakbench.networks.per_trial import HiddenNorm, hide
from leakbench.observations.adaptation import Adaptation
from leakbench.observations.threat_model import ThreatModel

# The loss by which clients train unless `local` names another one.
LOSS = "mean cross-entropy"


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

    network: Facts
    weights: dict[str, np.ndarray]
    updates: dict[str, np.ndarray]
    origin: np.ndarray
    clients: list[int]
    kind: Literal["model", "gradient"]
    knows: ThreatModel = field(default_factory=ThreatModel)
    generator: nn.Module | None = None
    mode: Literal["train", "eval"] = "eval"
    dropout: bool = False
    local: Facts = field(default_factory=lambda: {"lr": 1.0, "batch_size": None, "epochs": 1})
    labelling: str = "none"
    adaptation: Adaptation = field(default_factory=Adaptation)
    labels: list[np.ndarray] | None = None
    hidden: Facts = field(default_factory=dict)
    shown: dict[str, np.ndarray] = field(default_factory=dict)
    each: dict[str, np.ndarray] = field(default_factory=dict)
    candidates: np.ndarray | None = None
    work: Crew = field(default_factory=Crew)
    own: nn.Module | None = None

    @property
    def plain(self) -> bool:
        """Whether clients are taken to train by the mean cross-entropy, as they are unless it is known."""
        return bool(self.local.get("loss", LOSS) == LOSS)

    @property
    def rounds(self) -> int:
        return len(self.origin)

    @property
    def pixels(self) -> tuple[int, int, int]:
        """The channels, rows and columns of an image."""
        rows, columns, channels = self.network["shape"]
        return channels, rows, columns

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
        model.load_state_dict({name: self.sent(name, origin) for name in self.weights})
        if self.mode == "train":
            for layer in model.modules():
                if isinstance(layer, _NormBase | HiddenNorm):
                    layer.running_mean = layer.running_var = layer.num_batches_tracked = None
                    layer.track_running_stats = False
        return model.eval()

    def update(self, name: str, rounds: slice | int = slice(None)) -> Tensor:
        """Return one parameter's updates [rounds, clients, *shape]; of one round [clients, *shape]."""
        return torch.from_numpy(np.array(self.updates[name][rounds]))

    def sent(self, name: str, origin: int) -> Tensor:
        """Return a parameter or buffer of the model number `origin` that was sent out."""
        return torch.from_numpy(np.array(self.weights[name][origin]))

    def by_model(self) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of each model that rounds started from, and these rounds."""
        for origin in np.unique(self.origin).tolist():
            yield origin, torch.from_numpy(np.flatnonzero(self.origin == origin))

    def held(self, attack: str) -> Tensor:
        """Return the candidates as pixels. Raises Unfit, which names the attack, where there are none."""
        if self.candidates is None:
            raise Unfit(f"attack: {attack} needs candidates (give the federation some: candidates)")
        return pixels(torch.from_numpy(np.array(self.candidates)))

    def part(self, rounds: slice) -> "Observation":
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
        """Return the null observation: the first rounds with updates of noise of their deviation."""
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
        steps += "" if self.plain else f", loss {local['loss']}"
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
    """Two arrays [rounds, clients, …] as one, which is read in part, as the first may be a large file's."""

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
