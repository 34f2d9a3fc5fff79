"""The attacks of an audit, each within its share of the budget, on records, labels and members."""

import time
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leakbench import attacks
from leakbench.attacks.exact.first_layer import first_layers
from leakbench.attacks.exact.sharp import sharp
from leakbench.attacks.exact.span import span
from leakbench.audit.client import Truth, client, view
from leakbench.audit.findings import HALF_A_LEVEL, NOTHING, RECOGNISABLE, Attempt, pixels_of, score, timed
from leakbench.audit.predictions import readable, uncountable
from leakbench.base.alarm import within
from leakbench.base.code import home
from leakbench.base.yamls import read_yaml
from leakbench.catalogue.load import merge, validate
from leakbench.metrics.interval import interval
from leakbench.networks.layers import normalisation
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction
from leakbench.papers.bibliography import source

# TRIALS: the fewest trials for a verdict on a search. FEWEST: the fewest iterations of each. LONGEST: the
# published number.
TRIALS, FEWEST, LONGEST = 3, 100, 4800
# SHORT and LONGER: iterations of two short runs, whose difference tells the time of one iteration; the longer
# one is the search if there is no time for more. MARGIN: the factor on these times for a whole search.
SHORT, LONGER, MARGIN = 2, 22, 1.5
# The turns of trials: a weight of the total variation (None: the search's own), and a factor on the step.
TURNS = ((None, 1.0), (1e-2, 1.0), (1e-3, 0.3), (None, 0.3), (1e-2, 0.3), (1e-3, 1.0))
# The largest number of local steps that are simulated one by one.
SIMULATED = 8
# An entry of the catalogue.
Setup = dict[str, Any]


@dataclass(frozen=True)
class AuditAttack:
    """What attacks.yaml says of an attack, with its entry of the catalogue."""

    title: str
    stage: str
    attacker: str
    source: str
    proves: bool
    entry: Setup


@cache
def catalogue() -> dict[str, AuditAttack]:
    found = {}
    for name, about in read_yaml(Path(__file__).with_name("attacks.yaml")).items():
        # The other attacks are not read, because the budget of an audit runs already.
        entry = merge(read_yaml(home() / "attacks" / f"{name}.yaml"), about.pop("changes", {}))
        entry = {key: value for key, value in entry.items() if key not in ("variants", "grid")}
        about["entry"] = validate("attacks", name, name, entry).model_dump(mode="json")
        found[name] = AuditAttack(**about | {"source": str(source(about["source"]))})
    return found


def attack(
    name: str, observation: Observation, truth: Truth | None, limit: float, most: float = 0.0,
    longest: int = LONGEST, often: float = inf,
) -> Attempt:  # fmt: skip
    """Run one attack for at most `limit` seconds."""
    # A search may take `most` seconds if `limit` is too short for FEWEST iterations. It has at most `longest`
    # iterations and `often` trials. Without the records only what an attack proves counts; no search runs.
    about, count = catalogue()[name], observation.clients[0]
    found = Attempt(name, about.title, about.stage, about.attacker, about.source, count, [NOTHING] * count)
    if about.stage == "exact":
        timed(found, limit, lambda: _exact(found, about, observation, truth))
    elif truth is None:
        found.why_not = "not run: without the records nothing tells a success from a failure"
    else:
        most = max(limit, most)
        of = found, about.entry, observation, truth, limit, most, longest, often
        timed(found, most, lambda: _matching(*of))
        # A search that ends early keeps the trials that it finished.
        if found.trials:
            found.why_not, found.out_of_time = "", False
    return found


@torch.no_grad()
def _exact(found: Attempt, about: AuditAttack, observation: Observation, truth: Truth | None) -> None:
    # Without the bias's update records are known up to their scale, so that nothing proves them.
    observation = readable(observation, needs_bias=about.proves)
    made = run(about.entry, observation)
    if made.target == "features":
        found.why_not = "reads what the first dense layer reads, features and not the records"
        return
    images = pixels_of(made)
    labels = None if made.labels is None else made.labels[0, 0][made.usable[0, 0]]
    if about.proves and labels is not None:
        sure = _sure(observation, images, labels)
        found.proven = int(sure.sum())
        if truth is None:
            known = RECOGNISABLE + sure * (1 + (labels >= 0).int())
            found.images, found.levels[: len(images)] = images[sure], known.tolist()
            return
    if truth is None:
        found.images = images
        found.why_not = f"{len(images)} candidates, of which nothing proves that they are records"
        return
    null = None
    if not about.proves:
        noise = observation.randomised(1, torch.Generator().manual_seed(1))
        null = score(pixels_of(run(about.entry, noise)), None, truth).error
    found.take(score(images, labels, truth, null))


def _sure(observation: Observation, images: Tensor, labels: Tensor) -> Tensor:
    """Return which of the samples that an attack proves are one record up to half a level, bool [n]."""
    ((_, _, layer),) = first_layers(observation, "an audit")
    seen = span(layer.slope, layer.batch)
    if seen is None or layer.of_batch or not len(images):
        return torch.ones(len(images), dtype=torch.bool)
    mean, deviation = (v.double() for v in normalisation(observation.model(), images.shape[1]))
    samples = ((images.double() - mean) / deviation).flatten(1)
    return sharp(layer, seen, samples, labels, HALF_A_LEVEL / float(deviation.max()))


def run(entry: Setup, observation: Observation) -> Reconstruction:
    labelled = replace(observation, labelling=entry["labels"])
    return attacks.run(entry, labelled, torch.Generator().manual_seed(0))


def _matching(
    found: Attempt, entry: Setup, observation: Observation, truth: Truth, limit: float, most: float,
    longest: int, often: float,
) -> None:  # fmt: skip
    """Run one search, beside the same search on noise, until the verdict is clear."""
    begun = time.perf_counter()
    entry = _fitted(entry, observation)
    found.sought = entry["labels"] == "joint"
    start, each, first = _cost(entry, observation)
    # The run that told the time counts for what it reads. It is no trial beside others, which are longer: the
    # interval is of searches of one length.
    found.trials, found.iterations = 1, LONGER
    _judge(found, first, truth)
    spent = time.perf_counter() - begun
    # A shorter search shows what it reads, though its failure says little.
    trials = TRIALS if often >= TRIALS and spent + TRIALS * (start + FEWEST * each) <= most else 1
    needed = trials * (start + FEWEST * each)
    if spent + needed > most:
        return
    limit = max(limit, spent + needed)
    length = min(max(FEWEST, int(((limit - spent) / trials - start) / each)), longest)
    gains: list[float] = []
    # On a busy machine, the search may take twice the time that the first steps foretell.
    with within(min(most, limit + needed) - spent):
        # There is time for one trial more until then.
        until = begun + limit - start - length * each
        while len(gains) < trials or (len(gains) < often and time.perf_counter() < until):
            seed = len(gains)
            # Nobody knows beforehand which weight and step suit a network, so trials take turns. The audit
            # knows the truth and keeps the best, as an attacker may who tries all and looks.
            both = _searched(_turned(entry, seed), observation, length, seed, 1000 + seed)
            gains.append(_judge(found, both, truth))
            found.trials, found.iterations = len(gains), length
            if found.trials >= TRIALS:
                low, high = interval(np.array(gains))
                found.interval = None if isnan(low) else (round(low, 4), round(high, 4))
                if low > 0 or high < 0:
                    return


def _searched(
    entry: Setup, observation: Observation, iterations: int, seed: int, noise: int
) -> Reconstruction:
    """Return what a search makes of an observation, and of noise from the seed `noise` in its place."""
    entry = entry | {"parameters": entry["parameters"] | {"iterations": iterations}}
    seen = replace(observation, labelling=entry["labels"])
    both = seen.beside(seen.randomised(1, torch.Generator().manual_seed(noise)))
    return attacks.composed(entry)(both, torch.Generator().manual_seed(seed))


def _judge(found: Attempt, both: Reconstruction, truth: Truth) -> float:
    """Keep a search if it is nearer than those before, and return how much nearer than noise it is."""
    own, null = both.part(slice(0, 1)), both.part(slice(1, 2))
    assert own.labels is not None
    of_noise = score(pixels_of(null), None, truth)
    scored = score(pixels_of(own), own.labels[0, 0], truth, of_noise.error)
    if not found.quality or (sum(scored.levels), float(scored.r.sum())) > found.nearness():
        found.take(scored)
        found.null = sum(level > 0 for level in of_noise.levels)
    return float(scored.r.mean() - of_noise.r.mean())


def _turned(entry: Setup, turn: int) -> Setup:
    """Return an attack's entry with the weight of the total variation and the step that a trial takes."""
    weight, factor = TURNS[turn % len(TURNS)]
    objective = dict(entry["objective"])
    if weight and (prior := objective.get("total-variation")):
        objective["total-variation"] = prior | {"weight": weight}
    optimiser = {name: own | {"lr": factor * own["lr"]} for name, own in entry["optimiser"].items()}
    return entry | {"objective": objective, "optimiser": optimiser}


def easy(truth: Truth) -> tuple[Observation, Truth]:
    """Return what a server sees of the first record in a network that is known to leak, and that record."""
    # DLG's LeNet has sigmoids and weights spread evenly over [-0.5, 0.5] (Zhu et al., 2019), and searches of
    # enough iterations read records out of it. So what a search makes of this one tells how strong it is.
    # Records without rows and columns have dense layers in the place of convolutions.
    image = truth.images[:1]
    channels, *edges = image.shape[1:]
    sizes = ((channels, 2), (12, 2), (12, 1)) if edges != [1, 1] else ()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Conv2d(n, 12, 5, stride, 2), nn.Sigmoid()) for n, stride in sizes]
        layers = layers or [nn.Sequential(nn.Flatten(), nn.Linear(channels, 100), nn.Sigmoid())]
        network = nn.Sequential(*layers, nn.Flatten())
        network.append(nn.Linear(network(image).numel(), 10))
        for value in network.parameters():
            nn.init.uniform_(value, -0.5, 0.5)
        batch = image, torch.zeros(1, dtype=torch.long)
        return view(client((network, nn.CrossEntropyLoss(), batch), 1, 1).play())


def _fitted(entry: Setup, observation: Observation) -> Setup:
    """Return an attack's entry as it fits this observation."""
    # Total variation is left out if a record has no neighbouring values. More than SIMULATED local steps are
    # not simulated. AGIC's weights count the zeros of ReLUs if a convolution sends no gradient in which they
    # could be counted. Labels that cannot be counted are sought together with the records.
    rows, columns, _ = observation.network["shape"]
    objective = {n: v for n, v in entry["objective"].items() if n != "total-variation" or rows * columns > 1}
    convolutions = [m for m in observation.model().modules() if isinstance(m, nn.Conv2d)]
    unsent = any(next(layer.parameters(), None) is None for layer in convolutions)
    if "layer-weights" in objective and unsent:
        objective["layer-weights"] = objective["layer-weights"] | {"zeros": "outputs"}
    parameters = dict(entry["parameters"])
    if observation.local["epochs"] > SIMULATED:
        parameters["updates"] = "one-batch"
    labels = {"labels": "joint"} if not observation.plain or uncountable(observation) else {}
    return entry | {"objective": objective, "parameters": parameters} | labels


def _cost(entry: Setup, observation: Observation) -> tuple[float, float, Reconstruction]:
    """Return the seconds that a search takes to begin, those of an iteration, and what the longest of the
    runs that told them made."""
    spent = []
    # The first run loads libraries, so its time does not count.
    for iterations in (SHORT, SHORT, LONGER):
        begun = time.perf_counter()
        made = _searched(entry, observation, iterations, 0, 0)
        spent.append(time.perf_counter() - begun)
    each = MARGIN * max(spent[2] - spent[1], 0.1 * spent[2]) / (LONGER - SHORT)
    return MARGIN * spent[1], each, made
