"""The attacks of an audit, each within its share of the budget, on records and on what is beside them."""

import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from math import isnan
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from leakbench import attacks
from leakbench.attacks.exact import membership
from leakbench.attacks.exact.span import span
from leakbench.audit.found import LABELLED, NOTHING, Found, Score, pixels_of, score
from leakbench.audit.look import readable, short, uncountable
from leakbench.audit.round import reason
from leakbench.audit.view import UNKNOWN, Truth, plain
from leakbench.base.code import home
from leakbench.base.errors import Unfit
from leakbench.base.yamls import read_yaml
from leakbench.catalogue.load import merge, validate
from leakbench.metrics.interval import interval
from leakbench.networks.layers import normalisation
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction
from leakbench.papers.bibliography import source

# TRIALS: the fewest trials for a verdict on a search. FEWEST: the fewest iterations of a search.
TRIALS, FEWEST = 3, 100
# SHORT and LONGER: iterations of two short runs, whose difference tells the time of one iteration. MARGIN:
# the factor on these times for a whole search.
SHORT, LONGER, MARGIN = 2, 22, 1.5
# The weights of the total variation that a search tries beside its own.
SMOOTH = (1e-2, 1e-3)
# Seconds after which an alarm that rang during an import rings again.
SOON = 0.01
# Seconds after which every alarm rings again. Python ignores an exception that is raised while an object is
# deleted.
AGAIN = 1.0
# In seconds: nothing is started with a smaller share of the budget.
LEAST = 1e-3
# The largest number of local steps that are simulated one by one.
SIMULATED = 8


# An entry of the catalogue, or of attacks.yaml with one.
Entry = dict[str, Any]


class OutOfTime(BaseException):
    """An attack's share of the budget is spent."""

    # The class is no Exception, because libraries catch those: torch would turn it into an error of its own.


def _imports(frame: FrameType | None) -> int:
    count = 0
    while frame is not None:
        count += frame.f_code.co_name == "_find_and_load"
        frame = frame.f_back
    return count


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise OutOfTime in the block after `seconds`, or before the block if no time is left."""
    # If an import is under way, OutOfTime is raised after it, because a module whose import is cut short
    # stays broken. Outside of the main thread, a block that has begun has no limit.

    # With so little time, the block might end before an alarm that rang too early rings again.
    if seconds <= LEAST:
        raise OutOfTime
    before_it = _imports(sys._getframe())

    def unraisable(told: "sys.UnraisableHookArgs") -> None:
        # An alarm that rang within a destructor is lost there, and the next one rings soon.
        if not isinstance(told.exc_value, OutOfTime):
            reported(told)

    def ring(_: int, frame: FrameType | None) -> None:
        if _imports(frame) > before_it:
            signal.setitimer(signal.ITIMER_REAL, SOON, AGAIN)
        else:
            raise OutOfTime

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before, graded = signal.signal(signal.SIGALRM, ring), torch.is_grad_enabled()
    reported, sys.unraisablehook = sys.unraisablehook, unraisable
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = reported
        signal.signal(signal.SIGALRM, before)
        # An alarm may ring while a torch.no_grad() begins or ends, and would leave gradients off for good.
        torch.set_grad_enabled(graded)


@contextmanager
def _timed(found: Found, limit: float) -> Iterator[None]:
    """Add to `found` the seconds that the block took of its `limit`, and why the block gave no result."""
    begun = time.perf_counter()
    try:
        yield
    except OutOfTime:
        # A search that ends early keeps the trials that it finished.
        if not found.trials:
            found.out_of_time, found.why_not = True, late(limit)
    except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
        # A search keeps the trials that it finished here too.
        if not found.trials:
            found.why_not = reason(problem)
    finally:
        found.seconds = round(found.seconds + time.perf_counter() - begun, 3)


def late(limit: float) -> str:
    if limit <= LEAST:
        return "not run: the budget was spent"
    return f"not finished in its share of the budget, {limit:.2g} s"


@cache
def catalogue() -> dict[str, Entry]:
    """Return attack → what attacks.yaml says of it, with its entry of the catalogue in place of the name."""
    every = read_yaml(Path(__file__).parent / "attacks.yaml")
    for name, about in every.items():
        # The other attacks are not read, because the budget of an audit runs already.
        entry = merge(read_yaml(home() / "attacks" / f"{about['entry']}.yaml"), about.get("changes", {}))
        entry = {key: value for key, value in entry.items() if key not in ("variants", "grid")}
        about["entry"] = validate("attacks", about["entry"], name, entry).model_dump(mode="json")
    return every


def started(name: str, about: Entry, observation: Observation) -> Found:
    records = observation.clients[0]
    paper = str(source(about["source"]))
    return Found(name, about["title"], about["stage"], about["attacker"], paper, records, [NOTHING] * records)


def exact(name: str, about: Entry, observation: Observation, truth: Truth | None, limit: float) -> Found:
    """Run one exact attack for at most `limit` seconds."""
    # Without the private records, only what the attack proves counts.
    found, entry = started(name, about, observation), about["entry"]
    with _timed(found, limit), within(limit), torch.no_grad():
        observation = readable(observation, about["needs_bias"])
        if not plain(observation):
            # As behind dropout, records are proven by the span of the update, whatever follows the layer.
            observation = replace(observation, dropout=True)
        made = _run(entry, observation)
        if made.target == "features":
            found.why_not = "reads what the first dense layer reads, features and not the records"
            return found
        if truth is None:
            _unjudged(found, about, made)
            found.images = pixels_of(made)
            return found
        scored = score(
            pixels_of(made),
            None if made.labels is None else made.labels[0, 0][made.usable[0, 0]],
            truth,
            None if about["proves"] else _of_noise(entry, observation, truth),
        )
        found.proven = int(made.usable[0, 0].sum()) if about["proves"] else 0
        _fill(found, scored)
    return found


def _unjudged(found: Found, about: Entry, made: Reconstruction) -> None:
    count = int(made.usable[0, 0].sum())
    if not about["proves"]:
        found.why_not = f"{count} candidates, of which nothing proves that they are records"
        return
    found.proven = count
    found.levels = [LABELLED] * count + [NOTHING] * (found.records - count)


def _run(entry: Entry, observation: Observation) -> Reconstruction:
    labelled = replace(observation, labelling=entry["labels"])
    return attacks.run(entry, labelled, torch.Generator().manual_seed(0))


def _of_noise(entry: Entry, observation: Observation, truth: Truth) -> np.ndarray:
    noise = observation.randomised(1, torch.Generator().manual_seed(1))
    return score(pixels_of(_run(entry, noise)), None, truth).error


def _fill(found: Found, scored: Score) -> None:
    found.levels, found.images = scored.levels, scored.images
    found.quality = [round(float(r), 4) for r in scored.r]


def matching(
    name: str,
    about: Entry,
    observation: Observation,
    truth: Truth | None,
    limit: float,
    most: float = 0.0,
) -> Found:
    """Run one search, beside the same search on noise, until the verdict is clear."""
    # It may take `most` seconds if `limit` is too short for FEWEST iterations. Without the private records it
    # does not run.
    found = started(name, about, observation)
    if truth is None:
        found.why_not = "not run: without the records nothing tells a success from a failure"
        return found
    begun = time.perf_counter()
    most = max(limit, most)
    with _timed(found, most), within(most):
        entry = _fitted(about["entry"], observation)
        found.sought = entry["labels"] == "joint"
        start, each = _cost(entry, observation)
        spent = time.perf_counter() - begun
        needed = TRIALS * (start + FEWEST * each)
        if spent + needed > most:
            found.why_not = f"not run: {FEWEST} iterations of {TRIALS} trials take {needed:.0f} s (--budget)"
            return found
        limit = max(limit, spent + needed)
        length = max(FEWEST, int(((limit - spent) / TRIALS - start) / each))
        found.iterations = length = min(length, about["longest"])
        entry |= {"parameters": entry["parameters"] | {"iterations": length}}
        left_for_one = begun + limit - start - length * each
        # On a busy machine, the search may take twice the time that the first steps foretell.
        with within(min(most, limit + needed) - spent):
            _search(found, entry, observation, truth, lambda: time.perf_counter() < left_for_one)
    return found


def _search(
    found: Found, entry: Entry, observation: Observation, truth: Truth, goes_on: Callable[[], bool]
) -> None:
    """Run trials until the mean correlation is clearly above or below that of noise, or time is up."""
    # Nobody knows beforehand which weight of the total variation suits a network, so trials take turns. The
    # audit knows the truth and keeps the best trial, as an attacker may who tries all and looks.
    gains: list[float] = []
    best = 0, 0.0
    while goes_on() or found.trials < TRIALS:
        seed = found.trials
        seen = replace(observation, labelling=entry["labels"])
        noise = seen.randomised(1, torch.Generator().manual_seed(1000 + seed))
        search, rng = attacks.composed(_weighed(entry, seed)), torch.Generator().manual_seed(seed)
        both = search(seen.beside(noise), rng)
        own, null = both.part(slice(0, 1)), both.part(slice(1, 2))
        assert own.labels is not None
        of_noise = score(pixels_of(null), None, truth)
        scored = score(pixels_of(own), own.labels[0, 0], truth, of_noise.error)
        gains.append(float(scored.r.mean() - of_noise.r.mean()))
        nearness = sum(scored.levels), float(scored.r.mean())
        if not found.trials or nearness > best:
            best = nearness
            _fill(found, scored)
            found.null = sum(level > 0 for level in of_noise.levels)
        found.trials += 1
        if found.trials >= TRIALS:
            low, high = interval(np.array(gains))
            found.interval = None if isnan(low) else (round(low, 4), round(high, 4))
            if low > 0 or high < 0:
                return


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
    if "layer-weights" in objective and _still(observation):
        objective["layer-weights"] = objective["layer-weights"] | {"zeros": "outputs"}
    parameters = dict(entry["parameters"])
    if observation.local["epochs"] > SIMULATED:
        parameters["updates"] = "one-batch"
    labels = {"labels": "joint"} if not plain(observation) or uncountable(observation) else {}
    return entry | {"objective": objective, "parameters": parameters} | labels


def _still(observation: Observation) -> bool:
    convolutions = [m for m in observation.model().modules() if isinstance(m, torch.nn.Conv2d)]
    return any(next(layer.parameters(), None) is None for layer in convolutions)


def _cost(entry: Entry, observation: Observation) -> tuple[float, float]:
    """Return the seconds that a trial beside one on noise takes to begin, and those of an iteration."""
    seen = replace(observation, labelling=entry["labels"])
    both = seen.beside(seen.randomised(1, torch.Generator().manual_seed(0)))
    spent = []
    # The first run loads libraries, so its time does not count.
    for iterations in (SHORT, SHORT, LONGER):
        short = entry | {"parameters": entry["parameters"] | {"iterations": iterations}}
        begun = time.perf_counter()
        attacks.composed(short)(both, torch.Generator().manual_seed(0))
        spent.append(time.perf_counter() - begun)
    return MARGIN * spent[1], MARGIN * max(spent[2] - spent[1], 0.1 * spent[2]) / (LONGER - SHORT)


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
    classes = plain(observation) and bool((truth.labels != UNKNOWN).all())
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
        by, seen = _adapter(observation)
    found = []
    for images in (truth.images, truth.others):
        samples = seen.read(images)
        apart = membership.distances(seen.found, samples)
        found.append(int(membership.within(seen.found, samples, apart).sum()))
    return (
        f"{found[0]} of {len(truth.images)} records are recognised as members, and {found[1]} of "
        f"{len(truth.others)} records of others are taken for members{by}"
    )


def _adapter(observation: Observation) -> tuple[str, membership.Seen]:
    """Return the span of a matrix that is sent and may read the records. Raises Unfit if there is none."""
    (batch,), (rows, columns, channels) = observation.clients, observation.network["shape"]
    mean, deviation = (v.double() for v in normalisation(observation.model(), channels))
    for name in observation.updates:
        update = observation.update(name)[0, 0].double()
        if update.dim() == 2 and update.shape[1] == rows * columns * channels and update.shape[0] > batch:
            found = span(update, batch, clear=1.0)
            if found is not None:
                by = f", by the rows of {short(name)}"
                return by, membership.Seen(
                    0, 0, lambda x: ((x.double() - mean) / deviation).flatten(1), True, found
                )
    raise Unfit(
        "no matrix that reads the records, with more rows than there are records, is sent and has changed"
    )
