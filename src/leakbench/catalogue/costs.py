"""The cost model: what a job computes, how long one core takes for it, and what it asks of a cluster.

Work is counted as millions of operations in convolutions and in matrix products, and as thousands of calls of
torch. A calibration says how much of each a core does in a second. Every machine plans by the calibration
REFERENCE, so that the same cells run everywhere. `leakbench plan` also measures the machine that it runs on.
"""

import itertools
import json
import math
import operator
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from leakbench.base.code import PACKAGE
from leakbench.catalogue.cell import Cell, Spec
from leakbench.catalogue.signature import constant, module_file


class Effort(NamedTuple):
    """The work of a job: millions of operations in convolutions and products, thousands of calls of torch."""

    convolutions: float = 0.0  # narrow ones
    products: float = 0.0
    calls: float = 0.0
    wide: float = 0.0  # convolutions of 64 channels and more

    def times(self, factor: float) -> "Effort":
        return Effort(*(factor * each for each in self))

    def plus(self, other: "Effort") -> "Effort":
        return Effort(*map(operator.add, self, other))

    def seconds(self, speed: "Effort | None" = None) -> float:
        """Return the core-seconds that the work takes if a core does `speed` (or REFERENCE) in a second."""
        return sum(map(operator.truediv, self, speed or REFERENCE))


# What one core of an Intel Xeon with AVX-512 does in a second. Wide convolutions are booked like narrow ones,
# for a scale's choice of cells follows from these numbers.
REFERENCE = Effort(convolutions=60_000, products=80_000, calls=100, wide=60_000)
# Networks that take at least this number of millions of operations for an image of 32×32 have convolutions of
# 64 channels and more, which are faster than those of a LeNet.
WIDE = 500


class Network(NamedTuple):
    """The size of a network, as its file states it in COST."""

    operations: float  # millions of operations of the forward pass of one image of 32×32
    weights: float  # millions of parameters
    layers: int
    dense: bool = False  # whether all of its layers are dense


# A network whose file states no COST, and whose operations cannot be counted, is taken for a large one.
UNKNOWN = Network(1300, 30, 50)
# Networks that read tokens, and the number of different tokens that they are taken to know.
READERS, VOCABULARY = ("transformer", "encoder", "published"), 2048
# Forward passes that a training step costs, and one of matching by exact second derivatives or differences.
STEP, EXACT, FROZEN = 3, 14, 7
# Thousands of calls of torch for each layer, in a training step and in an iteration of gradient matching.
STEPPED, MATCHED = 0.01, 0.16
# One iteration of L-BFGS evaluates the loss up to 20 times, and uses a hundred earlier gradients.
LBFGS = 26
# What follows is in millions of operations. For each million weights of a gradient that is matched.
GRADIENT = 300
# For each image of 32×32 and iteration: the generator of GRNN, one that reads latents, the filters of DLF.
GENERATOR, LATENT, FILTERED = 90, 60, 80
# Fidel: the division of an update for each million parameters, and the image that a generator makes of a
# neuron, of which NEURONS live in a layer that feeds it.
DIVIDED, IMAGINED, NEURONS = 2000, 240, 64
# An exact attack: the span of one update, and as much for each million weights.
SPANNED = 8000
# Text: for each token of an update, with the whole vocabulary at each place (TESTED); for each million
# weights, for each token of a candidate (HELD), for each pair of tokens of an update when sentences are grown
# (GROWN), and for each token when they are fitted (FITTED). Timed with 1 to 32 sentences of 16 tokens.
TESTED, HELD, GROWN, FITTED = 250, 5, 4, 1000
# SPEAR, for each million weights: proofs grow with the square of the batch (PROOF), searches with its cube
# (SEARCH), and with SETTLED for each thousand neurons, of at most ROWS that samples open differently.
PROOF, SEARCH, SETTLED, ROWS = 0.2, 0.07, 100_000, 1000
# Peeling, for each million weights: proofs for each label that a sample may have (LABELS), and each pair of
# samples (PAIRS). The columns of all samples, where all are found, are eigenvectors of a matrix (EIGEN) in
# double precision, which is half as fast (DOUBLE).
LABELS, PAIRS, EIGEN, DOUBLE = 8, 0.1, 10, 2
# The move of an image through a network of convolutions, for each pass, in batches of more than CACHED images
# (LeNet-5 and Fidel's CNN were timed with 8 to 1,024).
MOVED, CACHED = 15, 256
# Label inference: thousands of calls of torch for each update. After several local steps two rules pass
# images through every client's own model: NOISE images of noise (zlg), or EACH samples of each class (rlu).
LABELLED, NOISE, EACH = 0.05, 64, 100
# The learned inverter: forward passes that cost as much as the gradient of one sample alone, and millions of
# operations of Adam's step for each million weights.
ALONE, ADAM = 10, 170
# Core-seconds that each job takes in addition, for files and Snakemake, and that the table and the figure of
# an experiment take on average: an experiment that shows nothing has neither.
JOB, EXPERIMENT = 0.5, 0.7
# The images of a train split that are assumed where their number is not known.
IMAGES = 60_000


@cache
def sizes(module: str) -> dict[str, Network]:
    """Return what the file of a victim or a generator states as COST, by depth and stem or network."""
    room = next((each for each in ("victims", "generators") if module_file(each, module).is_file()), "")
    said = (constant(room, module, "COST", None) if room else None) or {}
    return {key: Network(**size) for key, size in ({"": said} if "weights" in said else said).items()}


@cache
def _counted(victim: str, shape: tuple[int, ...]) -> Network:
    """Return the size of a victim, given in JSON, as a process with torch counts it."""
    told = [sys.executable, "-m", "leakbench.jobs.size"]
    asked = f"[{victim}, {json.dumps(shape)}]"
    within = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(
            told, input=asked, env=within, capture_output=True, text=True, timeout=120, check=False
        )
        return Network(**json.loads(done.stdout)) if done.returncode == 0 else UNKNOWN
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired):
        return UNKNOWN


def network(victim: Spec, shape: list[int]) -> Network:
    """Return the size of a network for images of `shape` (rows, columns, channels), by its resolved entry."""
    parameters, known = victim.get("parameters", {}), sizes(victim["module"])
    longer = [str(parameters[key]) for key in ("depth", "stem", "network") if key in parameters]
    names = ("-".join(longer[:count]) for count in range(len(longer), -1, -1))
    found = next((known[name] for name in names if name in known), None)
    if victim["module"] in ("mlp", "peeling"):
        widths = [math.prod(shape), *parameters.get("hidden", [1000])]
        weights = sum(a * b for a, b in itertools.pairwise(widths)) / 1e6
        return Network(2 * weights, weights, len(widths), dense=True)
    if victim["module"] in READERS:
        wide, blocks = parameters.get("width", 256), parameters.get("blocks", 2)
        weights = (12 * blocks * wide**2 + VOCABULARY * wide) / 1e6
        # The rows of the embedding are looked up, not multiplied.
        return Network(2 * weights * shape[1], weights + VOCABULARY * wide / 1e6, 8 * blocks + 2, dense=True)
    larger = shape[0] * shape[1] / 1024
    if victim["module"] == "imprinted":
        behind, clients = sizes("lenet-dlg")[""], parameters.get("clients", 0)
        weights = (1 + max(clients, 1)) * math.prod(shape) * parameters["bins"] / 1e6
        # The convolution in front has nine weights for each channel of each client and of a sample.
        kernels = 18 * clients * shape[2] * math.prod(shape) / 1e6
        return Network(
            behind.operations * larger + 2 * weights + kernels, behind.weights + weights, behind.layers + 2
        )
    if found is None:
        own = json.dumps({"module": victim["module"], "parameters": parameters}, sort_keys=True)
        return _counted(own, tuple(shape)) if module_file("victims", victim["module"]).is_file() else UNKNOWN
    if victim["module"] == "fedavg-cnn":
        # Its weights are those of its second convolution, which has most operations, and first dense layer.
        wide, dense = parameters.get("width", 64), parameters.get("hidden", 200)
        weights = (18 * wide**2 + 128 * larger * wide * dense) / 1e6
        operations = larger * (512 * 18 * wide**2 + 56_000 * wide + 256 * wide * dense) / 1e6
        return found._replace(operations=operations, weights=weights)
    if victim["module"] == "fcnn":
        # Nearly all of its weights are in the first layer, which has some for each value of an image.
        larger *= shape[2] / 3
        found = found._replace(weights=found.weights * larger)
    return found._replace(operations=found.operations * larger)


def _passes(
    victim: Spec, shape: list[int], images: float, passes: float, calls: float, moved: float = 0
) -> Effort:
    own = network(victim, shape)
    kind = "products" if own.dense else "wide" if own.operations >= WIDE else "convolutions"
    passed = images * passes * (own.operations + (0 if own.dense else moved))
    return Effort(calls=own.layers * calls, **{kind: passed})


def starts(federation: Spec) -> int:
    """Return the number of states of the network from which a federation is played."""
    return 1 if federation["checkpoints"] == "last" else len(federation["checkpoints"])


def images_of(spec: Spec, there: Mapping[str, int]) -> int:
    """Return the number of images that a network is trained on, by data set → images of its train split."""
    beside = spec.get("training", {}).get("beside", [])
    return sum(there.get(name, IMAGES) for name in (spec["dataset"]["name"], *beside))


def of_training(spec: Spec, there: int = IMAGES) -> Effort:
    part = "generator" if "generator" in spec else "victim"
    training, auxiliary = spec[part]["training"], spec[part].get("auxiliary")
    if training is None:
        return Effort()
    there = auxiliary["stop"] - auxiliary["start"] if auxiliary else there
    images = training["epochs"] * min(training["images"] or there, there)
    return _passes(
        spec[part], spec["dataset"]["shape"], images, STEP, STEPPED * images / training["batch_size"]
    )


def of_study(spec: Spec, there: int = IMAGES) -> Effort:
    training, (rows, columns, channels) = spec["training"], spec["dataset"]["shape"]
    shape = [training["size"] or rows, training["size"] or columns, channels]
    images = training["rounds"] * training["local_epochs"] * min(training["images"] or there, there)
    return _passes(spec["victim"], shape, images, STEP, STEPPED * images / training["batch_size"])


def of_capture(spec: Spec) -> Effort:
    federation = spec["federation"]
    rounds = federation["rounds"] + federation.get("begins", 0)
    updates = starts(federation) * rounds * federation["local"]["epochs"]
    images = updates * sum(federation["clients"])
    batches = updates * len(federation["clients"])
    moved = MOVED if max(federation["clients"]) > CACHED else 0
    return _passes(spec["victim"], spec["dataset"]["shape"], images, STEP, STEPPED * batches, moved)


def trials(spec: Spec, capture: Spec) -> tuple[float, float]:
    """Return how many updates an attack works on, with those of its null baseline, and how many images."""
    federation = capture["federation"]
    rounds = federation["rounds"] + min(spec["null_rounds"], -(-federation["rounds"] // 4))
    played = starts(federation) * rounds
    # Of a sum over a hundred clients one update is attacked. Sums over few clients cost next to nothing.
    seen = 1 if capture["defence"]["module"] == "aggregated" and len(federation["clients"]) > 10 else 0
    return played * (seen or len(federation["clients"])), played * sum(federation["clients"])


def of_attack(spec: Spec, capture: Spec) -> Effort:
    attack, victim, shape = spec["attack"], capture["victim"], capture["dataset"]["shape"]
    federation, chosen, weights = capture["federation"], attack["parameters"], network(victim, shape).weights
    updates, images = trials(spec, capture)
    if attack["module"] == "alignment":
        # A pair is a candidate under a class (a sentence has one): its gradient, times each update.
        labels = 1 if victim["module"] in READERS else capture["dataset"]["classes"]
        pairs = labels * (federation.get("candidates", 0) + images)
        return Effort(0, pairs * weights * 2 * (STEP + updates), pairs * STEPPED / 100)
    if attack["module"] == "labels":
        asked = {"zlg": NOISE, "rlu": EACH * capture["dataset"]["classes"]}.get(attack["labels"], 0)
        several = federation["update"] == "model" and federation["local"]["epochs"] > 1
        probed = updates * asked if several else 0
        return _passes(victim, shape, probed, 1, 0).plus(Effort(calls=updates * LABELLED))
    if attack["module"] == "learned-inverter":
        return _of_inverter(victim, shape, images / updates, starts(federation), chosen)
    if not attack["optimiser"]:
        neurons = min(chosen.get("neurons") or NEURONS, NEURONS) if attack["generator"] else 0
        exact = _exact(attack, capture, weights, images / updates, federation.get("candidates", 0) + images)
        return Effort(updates * neurons * IMAGINED, updates * (weights * DIVIDED + exact), updates * STEPPED)
    steps, batches = chosen["iterations"] * chosen["restarts"], 1
    if chained := chosen["updates"] != "one-batch" and federation["update"] == "model":
        # Each epoch is a pass over the samples, in mini-batches or in one batch.
        local = federation["local"]
        steps *= local["epochs"]
        if local["batch_size"] and chosen["updates"] != "epochs":
            batches = math.ceil(images / updates / local["batch_size"])
    steps *= LBFGS if "lbfgs" in attack["optimiser"] else 1
    # The penalty evaluates the distance twice.
    steps *= 2 if "slope-penalty" in attack["objective"] else 1
    candidates = math.prod(arguments.get("population", 1) for arguments in attack["optimiser"].values())
    # Candidates are compared by their gradients, of which no derivative is taken.
    passes = STEP if candidates > 1 else FROZEN if chosen["derivative"] == "frozen" else EXACT
    made = GENERATOR if "generator" in attack["unknowns"] else LATENT if attack["generator"] else 0
    # The engines are compared before the first iteration, and the gradients once more after the last.
    times = steps * candidates + 2
    alike = attack["objective"].get("epochs-alike", {}).get("of") == "filters"
    made += FILTERED if alike and chosen["updates"] == "reshuffled" else 0
    # Trials with weights of their own go through the network one after another, and so do mini-batches.
    alone = updates if chained or any(name.startswith("surrogate") for name in attack["unknowns"]) else 1
    besides = Effort(images * times * made * shape[0] * shape[1] / 1024, updates * times * weights * GRADIENT)
    calls = MATCHED * (steps * alone * batches + updates)
    return _passes(victim, shape, images * times, passes, calls).plus(besides)


def _exact(attack: Spec, capture: Spec, weights: float, batch: float, held: float) -> float:
    """Return the millions of operations of an exact attack on one update of `batch` samples."""
    module, shape = attack["module"], capture["dataset"]["shape"]
    found = SPANNED * (1 + weights) if module in ("membership", "peel", "spear") else 0.0
    # The width of a first layer that has nearly all of the weights.
    width = weights * 1e6 / math.prod(shape)
    match module:
        case "encoder-sentences":
            return (TESTED + weights * FITTED) * shape[1] * batch
        case "token-span" | "sentences" | "sentence-membership":
            candidates = HELD * (held if module == "sentence-membership" else 0.0) * shape[1]
            grown = GROWN * (shape[1] * batch) ** 2 if module == "sentences" else 0.0
            return TESTED * shape[1] * batch + weights * (candidates + grown)
        case "token-places":
            found += weights * shape[1] ** 2 * batch
        case "spear":
            found += weights * (PROOF * batch**2 + SEARCH * batch**3)
            found += SETTLED * min(width, ROWS) / 1000
        case "peel":
            published = attack["parameters"].get("rule") == "published"
            solved = 0.0 if published else batch * (width * batch**2 + EIGEN * batch**3)
            pairs = LABELS * capture["dataset"]["classes"] * batch + PAIRS * batch**2
            found += weights * pairs + DOUBLE * solved / 1e6
    return found


def _of_inverter(victim: Spec, shape: list[int], batch: float, models: int, chosen: Spec) -> Effort:
    """Return the work of fitting an inverter to updates of `batch` samples for each of `models` models."""
    # Updates are counted as drawn anew in each epoch unless the defence works on gradients of single samples.
    hidden, pairs, epochs = chosen["hidden"], chosen["pairs"], chosen["epochs"]
    inputs = network(victim, shape).weights * 1e6
    inputs = min(inputs, chosen["bins"] or inputs)
    weights = (inputs + hidden + batch * math.prod(shape)) * hidden / 1e6
    fit = Effort(products=pairs * epochs * weights * (2 * STEP + ADAM / chosen["batch"]))
    calls = constant("defences", (chosen["defence"] or {"module": "none"})["module"], "COST", 0)
    drawn = 1 if calls else epochs
    played = _passes(victim, shape, pairs * drawn * batch, ALONE, 0).plus(Effort(calls=pairs * calls))
    return fit.plus(played).times(models)


def work(kind: str, spec: Spec, capture: Spec | None = None, there: int = IMAGES) -> Effort:
    """Return the work of a job by the kind of its spec. An attack needs the spec of its capture."""
    match kind:
        case "attack" if capture:
            return of_attack(spec, capture)
        case "capture":
            return of_capture(spec)
        case "study":
            return of_study(spec, there)
    return of_training(spec, there)


def works(specs: Mapping[str, Spec], there: Mapping[str, int]) -> dict[str, Effort]:
    """Return the work of each training, capture and attack. `there`: data set → images of its train split."""
    found = {}
    for name, spec in specs.items():
        kind, _, stem = name.partition("/")
        if kind == "attack":
            found[name] = of_attack(spec, specs[Cell.parse(stem).path("capture")])
        elif kind in ("train", "generator", "study", "capture"):
            found[name] = work(kind, spec, there=images_of(spec, there))
    return found


# A scheduler ends a job that takes more than it asked for, so what a job asks for is generous.
MARGIN, START = 2, 10
# A killed attack resumes where it was, so a job never asks for more minutes than most clusters grant.
LONGEST = 2 * 24 * 60
# A job whose data is missing ends at once. A time below this says nothing about the job.
IDLE_SECONDS = 0.1


@dataclass(frozen=True)
class Needs:
    """The seconds of one thread that a job needs, and the megabytes of the job and of each of its workers."""

    seconds: float
    base: float
    each: float = 0.0

    def minutes(self, threads: int = 1, attempt: int = 1) -> int:
        """Return the minutes to ask for, at the first or a later attempt, at most LONGEST."""
        return min(LONGEST, attempt * (START + math.ceil(MARGIN * self.seconds / threads / 60)))

    def megabytes(self, threads: int = 1, attempt: int = 1) -> int:
        return attempt * math.ceil(self.base + self.each * threads)


def needs(kind: str, spec: Spec, capture: Spec | None = None) -> Needs:
    """Return what a job asks of a cluster, by the kind of its spec. An attack also needs its capture's."""
    seconds, played = work(kind, spec, capture).seconds(), capture or spec
    shape = played["dataset"]["shape"]
    weights = network(played["generator" if kind == "generator" else "victim"], shape).weights
    match kind:
        case "attack":
            # Trials are worked on in chunks, which bounds their memory. One trial of a large image or network
            # may still need more.
            pictures = 20 * max(played["federation"]["clients"]) * shape[0] * shape[1] / 1024
            return Needs(seconds, 2000, 1000 + pictures + 24 * weights)
        case "capture":
            return Needs(seconds, 4000 + 40 * weights)
    # There are three states of each weight, and gradients. A million numbers are four megabytes.
    models = 1 + spec["training"]["clients"] if kind == "study" else 1
    return Needs(seconds, 3000 + 24 * weights * models)


def recorded(record: Path, spec: Path, *, workers: bool) -> Needs | None:
    """Return what a job's last run took, by its record and whether it shared its work among workers."""
    try:
        if record.stat().st_mtime < spec.stat().st_mtime:
            return None
        took = json.loads(record.read_text("utf-8"))
        seconds, peak = float(took["seconds"]), float(took["peak_memory_mb"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not (IDLE_SECONDS <= seconds < math.inf and 0 <= peak < math.inf):
        return None
    # The peak is that of the largest process. It does not say how many processes shared the work.
    return Needs(2 * seconds, 500 + 1.5 * peak, 1.5 * peak if workers else 0)
