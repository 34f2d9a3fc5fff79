"""Which tokens a block of attention read: the span of its update, and the test of a vector against it.

The query, key and value of a block read the same vector of each token, so the rows of their gradients span
these vectors (DAGER, Petrov et al., NeurIPS 2024). An adapter B A on a frozen layer has two gradients: the
rows of A's span the vectors x themselves, and those of B's the images A x. A's is zero while B is zero.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakbench.attacks.exact.adam import by_error, once_by_adam
from leakbench.attacks.exact.membership import outside, without_decay
from leakbench.attacks.exact.span import Span, span
from leakbench.attacks.matching.received import local_steps
from leakbench.base.errors import Unfit
from leakbench.networks.victims.adapted import ViT
from leakbench.networks.victims.published import Published
from leakbench.observations.observation import Observation

LAYERS = ("query", "key", "value")
# What is left of weight decay alone is the rounding of both weights.
ROUNDED = 8 * torch.finfo(torch.float32).eps


class Test(NamedTuple):
    """A test of vectors against the update of one block.

    parts: spans (none where an update is zero), each with the matrix [rank, width] that vectors go through
    before they are tested, if any.
    """

    parts: list[tuple[Span | None, Tensor | None]]

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return how far vectors [n, width] are outside the nearest span, [n], and whether noise explains
        that of any, [n].
        """
        each = [outside(found, x if through is None else x @ through.T) for found, through in self.parts]
        apart, inside = (torch.stack(values) for values in zip(*each, strict=True))
        return apart.amin(0), inside.any(0)


class Heard(NamedTuple):
    """One update of a transformer: the network that was sent, in float64, and the tests of two blocks.

    still: whether the client took one step, so that the second block reads what the sent model gives.
    sent: name of a parameter → its update without weight decay, float64, or None if it is not sent.
    """

    round: int
    client: int
    model: Any
    tests: list[Test]
    still: bool
    sent: Callable[[str], Tensor | None]

    def left(self, place: int) -> tuple[Tensor, Tensor]:
        """Return how far each token at a place is outside the first span, and which are in it, [tokens]."""
        every = torch.arange(self.model.embedding.num_embeddings)
        return self.tests[0](self.model.blocks[0].reads(self.model.at(every, place)))


def heard(observation: Observation, attack: str, pictures: bool = False) -> Iterator[Heard]:
    """Yield every update of a transformer with the tests of its blocks; `attack` is the name that an error
    gives, and `pictures` says whether it takes patches of these for tokens.

    Raises Unfit for another network than a transformer, and where an update has as many tokens as its layers
    (or adapters) have dimensions, because every vector then lies in the span.
    """
    for number, origin in enumerate(observation.origin.tolist()):
        model, seen = observation.model(origin), observation
        if not (pictures and isinstance(model, ViT)):
            embedding_of(model, attack)
        if isinstance(model, Published):
            seen = replace(observation, updates=model.renamed(observation.updates))
            model = model.twin()
        model = model.double()
        length = model.begins(torch.zeros(1, *observation.pixels).double()).shape[1]  # type: ignore[operator]
        for client, batch in enumerate(observation.clients):
            sent = partial(_sent, seen, model, number, client, batch * length)
            once = observation.kind == "gradient" or len(local_steps(observation, batch)) == 1
            sends: list[Callable[[str], Tensor | None]] = [sent]
            if once_by_adam(observation):
                sends.append(partial(_unscaled, seen, model, number, client))
            tests = [
                _test(block, f"blocks.{n}", sends, batch * length, once, f"attack: {attack}", pictures)
                for n, block in enumerate(model.blocks[:2])  # type: ignore[index]
            ]
            plain = observation.local.get("optimiser", "sgd") == "sgd"
            yield Heard(number, client, model, tests, once and plain, sent)


def _sent(
    observation: Observation, model: nn.Module, number: int, client: int, tokens: int, name: str
) -> Tensor | None:
    """Return an update without weight decay (then of rank `tokens` at most), or None if it is not sent."""
    if name not in observation.updates:
        return None
    value = observation.update(name, number)[client].double()
    weight = model.get_parameter(name).detach()
    decays = observation.kind == "model" and bool(observation.local.get("weight_decay"))
    if not decays or not weight.any():
        return value
    moved = without_decay(value, weight, tokens)
    return moved if moved.abs().max() > ROUNDED * weight.abs().max() else torch.zeros_like(moved)


def _unscaled(
    observation: Observation, model: nn.Module, number: int, client: int, name: str
) -> Tensor | None:
    """Return what one step of Adam tells of a gradient, or None if it is not sent."""
    if name not in observation.updates:
        return None
    return by_error(observation.update(name, number)[client], model.get_parameter(name).detach(), observation)


def embedding_of(model: nn.Module, attack: str) -> nn.Embedding:
    """Return a network's embedding of tokens. Raises Unfit where it has none."""
    found = next((layer for layer in model.modules() if isinstance(layer, nn.Embedding)), None)
    if found is None:
        raise Unfit(f"attack: {attack} needs a network that embeds tokens (choose the victim transformer)")
    return found


def _test(
    block: nn.Module, name: str, sends: list[Callable[[str], Tensor | None]], tokens: int, once: bool,
    where: str, pictures: bool,
) -> Test:  # fmt: skip
    """Return the test of a block that read this number of `tokens`; an error begins with `where`.

    `sends` are ways to read the update of a parameter.
    """
    weights = block.state_dict()
    # In one step from a B of zero A does not move: what A sends then is a defence's noise.
    moves = [layer for layer in LAYERS if not once or weights.get(f"{layer}.up", torch.ones(1)).any()]
    spans: list[tuple[float, tuple[Span | None, Tensor | None]]] = []
    most = 0
    kinds = ("weight", LAYERS), ("down", moves), ("up", ("value",))
    for sent, (last, layers) in product(sends, kinds):
        own = [value for layer in layers if (value := sent(f"{name}.{layer}.{last}")) is not None]
        # The query of a first token changes nothing, so only the value adapter has read all tokens.
        if not any(value.any() for value in own) and (last != "up" or not own or spans):
            continue
        rows = torch.cat(own)
        most = max(most, min(rows.shape))
        if min(rows.shape) <= tokens:
            continue
        found, through, error = span(rows, tokens, clear=1.0), None, 0.0
        if last == "up":
            through, moved = weights["value.down"], sent(f"{name}.value.down")
            # In several steps what B reads moves with A, so its span is off by as much.
            error = 0.0 if once or moved is None else float(moved.norm() / through.norm())
        # What no token read lies outside the span by this share. Noise moves the span itself.
        share = (1 - tokens / rows.shape[1]) ** 0.5
        spans.append((max(error, found.noise) / share if found else torch.inf, (found, through)))
    if not spans and most:
        raise Unfit(f"{where} needs fewer tokens than dimensions (an update has {tokens}, {name} {most})")
    if not spans:
        raise Unfit(f"{where} needs the update of a query, key or value, or of an adapter on the value")
    # The way and the matrix of an adapter that tell more are read: after steps of AdamW the others are nearer
    # to strangers (AUC 0.80 to 0.95 by all, 1.00 by this one, of four sentences at rank 64). Patches are
    # alike, so their spans have faint directions, and of each picture another matrix may tell more.
    return Test([part for _, part in sorted(spans, key=itemgetter(0))][: None if pictures else 1])
