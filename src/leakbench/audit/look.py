"""What closed forms say about a round before any attack runs, from one pass of the client's own batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import exp, inf, lgamma

import torch
from torch import Tensor, nn

from leakbench.attacks.matching.received import noise_images
from leakbench.audit.found import in_all
from leakbench.audit.layers import first_unsent, hides_records, one_pass, sent_alone, short, uncountable
from leakbench.audit.reasons import reason
from leakbench.audit.view import Truth
from leakbench.base.errors import Unfit
from leakbench.networks.layers import first_dense, last_dense, normalisation
from leakbench.observations.observation import Observation

# Draws per second of SPEAR's published search: 185,000 in 3.7 s at 16 records and 200 neurons on two cores.
DRAWS = 50_000
UNITS = (("years", 31_557_600), ("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1))


@dataclass
class Look:
    """What is known without an attack.

    facts: question → answer.
    predicted: attack → how many records it will read, only for attacks with a closed form.
    layer: the name of the first dense layer, empty if there is none.
    pixels: whether that layer reads the records themselves.
    degrees: how many neurons are open for 0, 1, 2, … records.
    """

    facts: dict[str, str] = field(default_factory=dict)
    predicted: dict[str, int] = field(default_factory=dict)
    layer: str = ""
    pixels: bool = False
    degrees: list[int] = field(default_factory=list)


def look(observation: Observation, truth: Truth | None, plain_loss: bool = True) -> Look:
    """Return what closed forms say of the update of one client.

    observation: what one client sent in one round.
    truth: the private records; if they are unknown, less can be said.
    plain_loss: whether the loss is the mean cross-entropy. Nothing is predicted for another loss.
    """
    model = observation.model()
    found = Look()
    (records,) = observation.clients
    with _noting(found, "first layer"):
        _of_first(found, model, observation)
    if found.layer:
        with _noting(found, "prediction"):
            _of_layer(found, model, observation, truth, plain_loss)
    with _noting(found, "labels"):
        found.facts["labels"] = _of_labels(model, observation, plain_loss)
    norms = [n for n in observation.weights if n.endswith("running_mean")]
    if norms:
        found.facts["batch norm"] = (
            f"{len(norms)} layers send the mean and variance of the batch's features"
            if observation.mode == "train"
            else f"{len(norms)} layers go by what they were sent, and send nothing of the batch"
        )
    trap = (1 - 1 / max(_widest(model), 1)) ** (records - 1)
    found.facts["an active server"] = (
        f"one that may choose the weights can isolate {trap:.0%} of a batch of this size "
        f"(bins of {_widest(model)} neurons, expected)"
    )
    return found


@contextmanager
def _noting(found: Look, question: str) -> Iterator[None]:
    """Give as the answer to a question why the block gave none, whatever somebody's own network raises."""
    try:
        yield
    except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
        found.facts[question] = f"none: {reason(problem)}"


def _of_first(found: Look, model: nn.Module, observation: Observation) -> None:
    """Find the first dense layer, and whether it reads the records themselves."""
    rows, columns, channels = observation.network["shape"]
    noise = noise_images((channels, rows, columns))
    try:
        found.layer, read = first_dense(model, noise)
    except Unfit:
        found.facts["first layer"] = (
            "no dense layer is seen to read a flattened record: nothing can be divided out"
        )
        return
    mean, deviation = normalisation(model, channels)
    found.pixels = read.shape == noise.shape and torch.allclose(
        read, (noise - mean) / deviation, rtol=1e-4, atol=1e-5
    )


def _of_layer(
    found: Look, model: nn.Module, observation: Observation, truth: Truth | None, plain_loss: bool
) -> None:
    layer: nn.Linear = model.get_submodule(found.layer)  # type: ignore[assignment]
    bias = layer.bias is not None
    reads = "the records themselves" if found.pixels else "features of the records"
    found.facts["first layer"] = (
        f"{short(found.layer)} is dense with {layer.out_features} neurons, {'has' if bias else 'has no'} "
        f"bias and reads {reads}"
    )
    if why := first_unsent(observation, layer, found.layer, "weight"):
        found.facts["prediction"] = f"none: {why}"
        return
    (records,) = observation.clients
    least = min(layer.out_features, layer.in_features)
    found.facts["rank"] = (
        f"the update's span has at most {records} dimensions of {least}: it tells members from others"
        if records < least
        else f"{records} records fill all {least} dimensions: the update's span tells nothing"
    )
    # Neurons of a later layer give away features instead of records.
    if truth is not None and found.pixels:
        _of_neurons(found, model, layer, observation, truth, plain_loss)


def _of_neurons(
    found: Look, model: nn.Module, layer: nn.Linear, observation: Observation, truth: Truth, plain_loss: bool
) -> None:
    """Count the neurons that are open for each record, and predict where a closed form holds."""
    if why := first_unsent(observation, layer, found.layer, "bias"):
        found.facts["prediction"] = f"none: {why}"
        return
    records = len(truth.labels)
    passed = one_pass(model, layer, truth.images, truth.labels)
    if passed is None:
        found.facts["prediction"] = (
            f"none: {short(found.layer)} is used more than once, or shares its weights with another layer"
        )
        return
    z, slope = passed
    answers = slope != 0
    relu = bool((~answers).any() and not answers[z <= 0].any())
    found.facts["activation"] = "closes neurons (ReLU)" if relu else "every neuron answers to every record"
    degrees = answers.sum(0)
    found.degrees = torch.bincount(degrees, minlength=records + 1).tolist()
    alone = int(answers[:, degrees == 1].any(1).sum())
    found.facts["neurons open for one record alone"] = (
        f"{found.degrees[1]}, which give away {alone} {in_all(records)}"
    )
    # Several steps open other neurons, dropout closes some, and batch norm ties records together.
    still = plain_loss and not observation.dropout and not _tied(model, observation)
    if layer.bias is not None and still and sent_alone(observation, found.layer, truth.images, slope):
        found.predicted["fidel"] = alone
        if relu and hides_records(model, layer, truth.images, z):
            found.predicted["peel"] = replay(answers)
    if relu:
        found.facts["SPEAR's published search"] = _spear(answers)


def _tied(model: nn.Module, observation: Observation) -> bool:
    return observation.mode == "train" and any(
        isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d) for m in model.modules()
    )


def replay(opened: Tensor) -> int:
    """Return how many records peeling reads, from the open neurons alone.

    A neuron that one record alone opens gives that record away. The record is taken out, and the next such
    neuron is looked for (Shariati and Alambardar Meybodi, arXiv:2609.09659).

    opened: bool [n, neurons], which neurons answer to which record.
    """
    left = torch.ones(len(opened), dtype=torch.bool)
    while True:
        single = opened[left].sum(0) == 1
        out = left & opened[:, single].any(1)
        if not out.any():
            return int((~left).sum())
        left &= ~out


def _spear(opened: Tensor) -> str:
    """Return what SPEAR's published search costs, from the share of neurons that each record closes."""
    records = len(opened)
    alive = opened[:, opened.any(0)]
    width = alive.shape[1]
    if width < records:
        return f"impossible: {width} open neurons are fewer than {records} records"
    chances = [
        exp(_choices(int(closed), records - 1) - _choices(width, records - 1))
        for closed in (~alive).sum(1)
        if closed >= records - 1
    ]
    if len(chances) < records or min(chances) == 0:
        return "no choice of neurons finds every record"
    draws = sum(1 / n for n in range(1, records + 1)) / (sum(chances) / records)
    return f"{draws:.2g} draws, {_duration(draws / DRAWS)} at {DRAWS:,} a second"


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit that fits into it, rounded to two digits."""
    if seconds < 1:
        return "less than a second"
    unit, length = next(each for each in UNITS if seconds >= each[1])
    count = float(f"{seconds / length:.2g}")
    return f"{count:,.0f} {unit}" if 10 <= count < 1e6 else f"{count:.2g} {unit}"


def _choices(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) if 0 <= k <= n else -inf


def _of_labels(model: nn.Module, observation: Observation, plain_loss: bool) -> str:
    """Return what the last layer gives away about labels, in words."""
    if not plain_loss:
        return "the loss is not the mean cross-entropy: label counts are not read off it"
    if why := uncountable(observation):
        return f"{why}: label counts are not read off it"
    if f"{last_dense(model)}.bias" in observation.updates:
        return "the last layer's bias changes by predicted minus true class shares: label counts are readable"
    return "nothing is sent of a bias of the last layer; label counts follow from its weights, less sharply"


def _widest(model: nn.Module) -> int:
    return max((m.out_features for m in model.modules() if isinstance(m, nn.Linear)), default=1)
