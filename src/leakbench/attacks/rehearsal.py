"""What a client would send for the attacker's samples: its local step, and the defence that is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakbench import defences
from leakbench.base.errors import Unfit
from leakbench.defences import Defence, Update, gradients_of, unchanged
from leakbench.networks.layers import draw_masks
from leakbench.observations.observation import Observation

# The largest number of gradients that are taken at once, and the largest number of bytes that these take.
AT_ONCE, BYTES = 64, 100_000_000


@dataclass(frozen=True)
class Rehearsal:
    """The local step of a client at the weights that were sent (`fixed`: its buffers), and its defence."""

    model: nn.Module
    weights: Update
    fixed: Update
    defence: Defence
    lr: float | None = None
    decay: float = 0.0

    @property
    def size(self) -> int:
        return sum(value.numel() for value in self.weights.values())

    def updates(self, images: Tensor, labels: Tensor, rng: torch.Generator) -> Tensor:
        """Return what clients with these sets send, float32 [n, coordinates], in the weights' order."""
        few = max(1, min(AT_ONCE, BYTES // (4 * self.size)))
        parts = zip(images.split(few), labels.split(few), strict=True)
        return torch.cat([self._sent(x, y, rng) for x, y in parts])

    def _sent(self, images: Tensor, labels: Tensor, rng: torch.Generator) -> Tensor:
        if self.defence.inputs is not None:
            changed = [self.defence.inputs(x, y, rng) for x, y in zip(images, labels, strict=True)]
            images, labels = (torch.stack(each) for each in zip(*changed, strict=True))
        masks = draw_masks(self.model, tuple(labels.shape), rng)
        # A client has no history yet: a defence that depends on the step is played as in the first step.
        of = self.defence.examples
        step = gradients_of(
            self.model, self.weights, images, labels, masks, self.fixed, of and (lambda batch: of(batch, rng))
        )
        if self.lr is not None:
            # A client subtracts weights that were rounded, so the difference is rounded here too.
            step = {
                name: (value * (1 - self.lr * self.decay) if self.decay else value) - self.lr * step[name]
                for name, value in self.weights.items()
            }
            step = {name: value - self.weights[name] for name, value in step.items()}
        sent = self.defence.update(step, rng)
        return torch.cat([sent[name].flatten(1) for name in self.weights], 1).float()


def known_defence(observation: Observation, given: Mapping[str, Any] | None) -> Defence:
    """Return the defence that the attacker knows. Raises Unfit where its updates cannot be played."""
    if given is not None and not {"module"} <= set(given) <= {"module", "parameters"}:
        raise Unfit(f"attack: defence: has the keys {', '.join(given)} (give module and parameters)")
    name = (given or {}).get("module") or observation.knows.defence or "none"
    try:
        defence = defences.build(name, (given or {}).get("parameters") or {})
    except (ImportError, AttributeError, TypeError) as problem:
        raise Unfit(
            f"attack: the parameters of defence {name} are not known (give the attack's parameter defence: "
            "module and parameters)"
        ) from problem
    if defence.view([1, 1, 1]).seen is not unchanged:
        raise Unfit(f"attack: under defence {name} no update of a single client is seen to learn from")
    if defence.rounds is not None:
        raise Unfit(f"attack: under defence {name} an update depends on earlier rounds, which are not played")
    if defence.weights is not None:
        raise Unfit(f"attack: under defence {name} clients send weights by a rule that is not played")
    return defence


def rehearsal(observation: Observation, origin: int, batch: int, defence: Defence) -> Rehearsal:
    """Return how clients with `batch` samples make an update at the model number `origin` that was sent."""
    local = observation.local
    steps = local["epochs"] * -(-batch // (local["batch_size"] or batch))
    lr = local["lr"] if observation.kind == "model" else None
    if observation.hidden:
        raise Unfit("attack: clients hide parameters, so their updates cannot be played")
    if lr is not None and (steps > 1 or local.get("optimiser", "sgd") != "sgd"):
        raise Unfit(
            f"attack: {steps} local steps by {local.get('optimiser', 'sgd')} are not played (let clients "
            "send a gradient, or take one step of plain gradient descent)"
        )
    model = defence.model(observation.model(origin), torch.Generator())
    weights = {name: value.detach() for name, value in model.named_parameters()}
    if weights.keys() != observation.updates.keys():
        raise Unfit("attack: the defence changes which parameters clients train")
    return Rehearsal(model, weights, dict(model.named_buffers()), defence, lr, local.get("weight_decay", 0.0))
