"""The attacks of an audit, each within its share of the budget, on records, labels and members."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakbench import attacks
from leakbench.attacks.exact import membership
from leakbench.attacks.exact.span import span
from leakbench.audit.client import UNKNOWN, Truth
from leakbench.audit.findings import LABELLED, NOTHING, Found, Score, pixels_of, score, timed, within
from leakbench.audit.network import reason
from leakbench.audit.predictions import readable, short, uncountable
from leakbench.base.code import home
from leakbench.base.errors import Unfit
from leakbench.base.yamls import read_yaml
from leakbench.catalogue.load import merge, validate
from leakbench.metrics.interval import interval
from leakbench.networks.layers import normalisation
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction
from leakbench.papers.bibliography import source

# TRIALS: the fewest trials for a verdict on a search. FEWEST: the fewest iterations of each.
TRIALS, FEWEST = 3, 100
# SHORT and LONGER: iterations of two short runs, whose difference tells the time of one iteration; the longer
# one is the search if there is no time for more. MARGIN: the factor on these times for a whole search.
SHORT, LONGER, MARGIN = 2, 22, 1.5
# The weights of the total variation that a search tries beside its own.
SMOOTH = (1e-2, 1e-3)
# The title of what an update gives away about the set of tokens.
TOKENS = "tokens"
# The largest number of local steps that are simulated one by one.
SIMULATED = 8
# An entry of the catalogue, or of attacks.yaml with one.
Entry = dict[str, Any]


@cache
def catalogue() -> dict[str, Entry]:
    """Return attack → what attacks.yaml says of it, with its entry of the catalogue."""
    every = read_yaml(Path(__file__).parent / "attacks.yaml")
    for name, about in every.items():
        # The other attacks are not read, because the budget of an audit runs already.
        entry = merge(read_yaml(home() / "attacks" / f"{name}.yaml"), about.get("changes", {}))
        entry = {key: value for key, value in entry.items() if key not in ("variants", "grid")}
        about["entry"] = validate("attacks", name, name, entry).model_dump(mode="json")
    return every


def attack(
    name: str, observation: Observation, truth: Truth | None, limit: float, most: float = 0.0,
    longest: int | None = None,
) -> Found:  # fmt: skip
    """Run one attack for at most `limit` seconds."""
    # A search may take `most` seconds if `limit` is too short for FEWEST iterations, and it has at most
    # `longest` iterations. Without the private records only what an attack proves counts, and no search runs.
    about, records = catalogue()[name], observation.clients[0]
    found = Found(
        name, about["title"], about["stage"], about["attacker"], str(source(about["source"])), records,
        [NOTHING] * records,
    )  # fmt: skip
    if about["stage"] == "exact":
        timed(found, limit, lambda: _exact(found, about, observation, truth))
    elif truth is None:
        found.why_not = "not run: without the records nothing tells a success from a failure"
    else:
        most = max(limit, most)
        longest = longest or about["longest"]
        timed(found, most, lambda: _matching(found, about["entry"], observation, truth, limit, most, longest))
        # A search that ends early keeps the trials that it finished.
        if found.trials:
            found.why_not, found.out_of_time = "", False
    return found


@torch.no_grad()
def _exact(found: Found, about: Entry, observation: Observation, truth: Truth | None) -> None:
    observation, proves = readable(observation, about["needs_bias"]), about["proves"]
    made = _run(about["entry"], observation)
    if made.target == "features":
        found.why_not = "reads what the first dense layer reads, features and not the records"
        return
    images = pixels_of(made)
    count, null = len(images), None
    if truth is None:
        found.images = images
        if proves:
            found.proven, found.levels = count, [LABELLED] * count + [NOTHING] * (found.records - count)
        else:
            found.why_not = f"{count} candidates, of which nothing proves that they are records"
        return
    if not proves:
        noise = observation.randomised(1, torch.Generator().manual_seed(1))
        null = score(pixels_of(_run(about["entry"], noise)), None, truth).error
    labels = None if made.labels is None else made.labels[0, 0][made.usable[0, 0]]
    _fill(found, score(images, labels, truth, null))
    found.proven = count if proves else 0


def _run(entry: Entry, observation: Observation) -> Reconstruction:
    labelled = replace(observation, labelling=entry["labels"])
    return attacks.run(entry, labelled, torch.Generator().manual_seed(0))


def _fill(found: Found, scored: Score) -> None:
    found.levels, found.images = scored.levels, scored.images
    found.quality = [round(float(r), 4) for r in scored.r]


def _matching(
    found: Found, entry: Entry, observation: Observation, truth: Truth, limit: float, most: float,
    longest: int,
) -> None:  # fmt: skip
    """Run one search, beside the same search on noise, until the verdict is clear."""
    begun = time.perf_counter()
    entry = _fitted(entry, observation)
    found.sought = entry["labels"] == "joint"
    start, each, first = _cost(entry, observation)
    found.trials, found.iterations = 1, LONGER
    _judge(found, first, truth, (-1, 0.0))
    spent = time.perf_counter() - begun
    # A shorter search shows what it reads, though its failure says little.
    trials = TRIALS if spent + TRIALS * (start + FEWEST * each) <= most else 1
    needed = trials * (start + FEWEST * each)
    if spent + needed > most:
        return
    limit = max(limit, spent + needed)
    length = max(FEWEST, int(((limit - spent) / trials - start) / each))
    length = min(length, longest)
    entry |= {"parameters": entry["parameters"] | {"iterations": length}}
    left_for_one = begun + limit - start - length * each
    # On a busy machine, the search may take twice the time that the first steps foretell.
    with within(min(most, limit + needed) - spent):
        _search(found, entry, observation, truth, trials, lambda: time.perf_counter() < left_for_one)


def _search(
    found: Found, entry: Entry, observation: Observation, truth: Truth, trials: int,
    goes_on: Callable[[], bool],
) -> None:  # fmt: skip
    """Run trials until the mean correlation is clearly above or below that of noise, or time is up."""
    # Nobody knows beforehand which weight of the total variation suits a network, so trials take turns. The
    # audit knows the truth and keeps the best trial, as an attacker may who tries all and looks.
    gains: list[float] = []
    best = -1, 0.0
    while goes_on() or len(gains) < trials:
        seed = len(gains)
        seen = replace(observation, labelling=entry["labels"])
        noise = seen.randomised(1, torch.Generator().manual_seed(1000 + seed))
        search, rng = attacks.composed(_weighed(entry, seed)), torch.Generator().manual_seed(seed)
        gain, best = _judge(found, search(seen.beside(noise), rng), truth, best)
        gains.append(gain)
        found.trials, found.iterations = len(gains), entry["parameters"]["iterations"]
        if found.trials >= TRIALS:
            low, high = interval(np.array(gains))
            found.interval = None if isnan(low) else (round(low, 4), round(high, 4))
            if low > 0 or high < 0:
                return


def _judge(
    found: Found, both: Reconstruction, truth: Truth, best: tuple[int, float]
) -> tuple[float, tuple[int, float]]:
    """Score a search and the same search on noise; keep it if it is nearer than `best`.

    Returns how much nearer than noise it is, and the best nearness.
    """
    own, null = both.part(slice(0, 1)), both.part(slice(1, 2))
    assert own.labels is not None
    of_noise = score(pixels_of(null), None, truth)
    scored = score(pixels_of(own), own.labels[0, 0], truth, of_noise.error)
    nearness = sum(scored.levels), float(scored.r.mean())
    if nearness > best:
        _fill(found, scored)
        found.null = sum(level > 0 for level in of_noise.levels)
    return float(scored.r.mean() - of_noise.r.mean()), max(nearness, best)


def _weighed(entry: Entry, turn: int) -> Entry:
    """Return an attack's entry with the weight of the total variation that a trial takes."""
    prior = entry["objective"].get("total-variation")
    if not prior:
        return entry
    weights = prior["weight"], *SMOOTH
    prior = prior | {"weight": weights[turn % len(weights)]}
    return entry | {"objective": entry["objective"] | {"total-variation": prior}}


def _fitted(entry: Entry, observation: Observation) -> Entry:
    """Return an attack's entry as it fits this observation."""
    # Total variation is left out if a record has no neighbouring values. More than SIMULATED local steps are
    # not simulated. AGIC's weights count the zeros of ReLUs if a convolution sends no gradient in which they
    # could be counted. Labels that cannot be counted are sought together with the records.
    rows, columns, _ = observation.network["shape"]
    objective = {n: v for n, v in entry["objective"].items() if n != "total-variation" or rows * columns > 1}
    convolutions = [m for m in observation.model().modules() if isinstance(m, torch.nn.Conv2d)]
    unsent = any(next(layer.parameters(), None) is None for layer in convolutions)
    if "layer-weights" in objective and unsent:
        objective["layer-weights"] = objective["layer-weights"] | {"zeros": "outputs"}
    parameters = dict(entry["parameters"])
    if observation.local["epochs"] > SIMULATED:
        parameters["updates"] = "one-batch"
    labels = {"labels": "joint"} if not observation.plain or uncountable(observation) else {}
    return entry | {"objective": objective, "parameters": parameters} | labels


def _cost(entry: Entry, observation: Observation) -> tuple[float, float, Reconstruction]:
    """Return the seconds that a trial beside one on noise takes to begin, those of an iteration, and what the
    longest of the runs that told them made of the update and of noise."""
    seen = replace(observation, labelling=entry["labels"])
    both = seen.beside(seen.randomised(1, torch.Generator().manual_seed(0)))
    spent = []
    # The first run loads libraries, so its time does not count.
    for iterations in (SHORT, SHORT, LONGER):
        short = entry | {"parameters": entry["parameters"] | {"iterations": iterations}}
        begun = time.perf_counter()
        made = attacks.composed(short)(both, torch.Generator().manual_seed(0))
        spent.append(time.perf_counter() - begun)
    each = MARGIN * max(spent[2] - spent[1], 0.1 * spent[2]) / (LONGER - SHORT)
    return MARGIN * spent[1], each, made


@dataclass(frozen=True)
class Beside:
    """What an attack finds besides records, or why it did not run."""

    title: str
    attacker: str
    source: str
    line: str
    ran: bool
    seconds: float


def besides(observation: Observation, truth: Truth) -> Iterator[Beside]:
    """Yield what an update gives away about labels, if the plain loss has classes, and about members."""
    classes = observation.plain and bool((truth.labels != UNKNOWN).all())
    plans = [("label counts", "B", str(source("llg")), labels)] if classes else []
    plans.append(("membership", "D", f"{source('projres')} (of text)", members))
    for title, letter, paper, attack in plans:
        begun = time.perf_counter()
        try:
            line, ran = attack(observation, truth), True
        except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
            line, ran = reason(problem), False
        yield Beside(title, letter, paper, line, ran, round(time.perf_counter() - begun, 3))


def labels(observation: Observation, truth: Truth) -> str:
    """Return in words how many labels of the batch are counted right, from the last layer alone."""
    if why := uncountable(observation):
        raise Unfit(why)
    made = _run({"module": "labels", "parameters": {}, "labels": "counted"}, observation)
    assert made.labels is not None
    classes = torch.arange(len(truth.labels)) % observation.network["classes"]
    right, even = (
        (Counter(guess.tolist()) & Counter(truth.labels.tolist())).total()
        for guess in (made.labels[0, 0], classes)
    )
    return f"{right} of {len(truth.labels)} labels are right ({even} by guessing all classes equally often)"


@torch.no_grad()
def members(observation: Observation, truth: Truth) -> str:
    """Return in words how many records, and how many of others, lie in the span of the first dense layer."""
    if truth.others is None or not len(truth.others):
        raise Unfit("not run: it needs records of others in the batch, beyond those of the client (--batch)")
    by = ""
    try:
        (seen,) = membership.spans(readable(observation, needs_bias=False), "membership")
    except Unfit:
        # An adapter on a frozen layer reads what that layer reads.
        by, seen = _adapter(observation, truth.images)
    found = []
    for images in (truth.images, truth.others):
        samples = seen.read(images)
        apart = membership.distances(seen.found, samples)
        found.append(int(membership.within(seen.found, samples, apart).sum()))
    return (
        f"{found[0]} of {len(truth.images)} records are recognised as members, and {found[1]} of "
        f"{len(truth.others)} records of others are taken for members{by}"
    )


def _adapter(observation: Observation, images: Tensor) -> tuple[str, membership.Seen]:
    """Return the span of a matrix that is sent and reads the records. Raises Unfit if there is none."""
    (batch,), model = observation.clients, observation.model()
    mean, deviation = (v.double() for v in normalisation(model, images.shape[1]))
    size = images[0].numel()
    weights = [torch.from_numpy(v[0]).double() for v in observation.weights.values() if v.ndim == 3]
    # The second matrix of an adapter reads what the first one makes of the records. While the second is zero,
    # as in the first step, the first one has no gradient.
    for reader in (None, *(each for each in weights if each.shape[1] == size)):
        columns = size if reader is None else len(reader)
        for name in observation.updates:
            update = observation.update(name)[0, 0].double()
            fits = update.dim() == 2 and update.shape[1] == columns and len(update) > batch
            found = span(update, batch, clear=1.0) if fits else None
            if found is None:
                continue
            seen = membership.Seen(0, 0, partial(_seen, reader, mean, deviation), True, found, update)
            own = seen.read(images)
            # Another layer may have the size of a second matrix, and read something else.
            if reader is None or membership.within(found, own, membership.distances(found, own)).all():
                return f", by the rows of {short(name)}", seen
    raise Unfit(
        "no matrix that reads the records, with more rows than there are records, is sent and has changed"
    )


def _seen(reader: Tensor | None, mean: Tensor, deviation: Tensor, images: Tensor) -> Tensor:
    rows = ((images.double() - mean) / deviation).flatten(1)
    return rows if reader is None else rows @ reader.T
