"""The cost model: what a job computes, how long one core takes for it, and what it asks of a cluster.

Work is counted as millions of operations in convolutions and in matrix products, and as thousands of calls of
torch. A calibration says how much of each a core does in a second. Every machine plans by the calibration
REFERENCE, so that the same cells run everywhere. `leakbench plan` also measures the machine that it runs on.
"""

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
from leakbench.base.parts import SECTIONS, WITHOUT_RULE
from leakbench.catalogue.cell import Cell, Spec
from leakbench.catalogue.signature import constant, module_file, stated


class Effort(NamedTuple):
    """The work of a job: millions of operations in convolutions and products, thousands of calls of torch."""

    convolutions: float = 0.0  # narrow ones
    products: float = 0.0
    calls: float = 0.0
    wide: float = 0.0  # convolutions of 64 channels and more

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

    weights: float  # millions of parameters
    operations: float  # millions of operations of the forward pass of one image
    layers: int
    dense: bool = False  # whether all of its layers are dense


# A network whose file states no COST, and whose operations cannot be counted, is taken for a large one.
UNKNOWN = Network(30, 1300, 50)
# Forward passes that a training step costs, and one of matching by exact second derivatives or differences.
STEP, EXACT, FROZEN = 3, 14, 7
# Thousands of calls of torch for each layer, in a training step and in an iteration of gradient matching.
STEPPED, MATCHED = 0.01, 0.16
# Millions of operations of a matched gradient, for each million of its weights.
GRADIENT = 300
# What a part of an attack that matches gradients costs if its file states nothing else: evaluations of the
# distance in an iteration, candidates that are compared in each, millions of operations to make an image of
# 32×32, and whether trials have weights of their own. (docs/adding-parts.md says what an expression reads.)
PART = {"evaluations": 1, "candidates": 1, "made": 0, "alone": False}
# What another attack costs if its file states nothing else: it divides each update, for each million weights.
ATTACK = {
    "update": 0, "convolutions": 0, "products": "updates * (2000 * weights + update)",
    "calls": "0.01 * updates", "passes": 0,
}  # fmt: skip
# The move of an image through a network of convolutions, for each pass, in batches of more than CACHED images
# (LeNet-5 and Fidel's CNN were timed with 8 to 1,024).
MOVED, CACHED = 15, 256
# Core-seconds that each job takes in addition, for files and Snakemake, and that the table and the figure of
# an experiment take on average: an experiment that shows nothing has neither.
JOB, EXPERIMENT = 0.5, 0.7
# The images of a train split that are assumed where their number is not known.
IMAGES = 60_000


def network(victim: Spec, shape: list[int]) -> Network:
    """Return the size of a network for samples of `shape` (rows, columns, channels), by its entry."""
    told = {"module": victim["module"], "parameters": victim.get("parameters", {})}
    return _sized(json.dumps(told, sort_keys=True), *shape)


@cache
def _sized(victim: str, rows: int, columns: int, channels: int) -> Network:
    """Return the size of a victim, given in JSON, as its file states it or a process with torch counts it."""
    module, parameters = json.loads(victim).values()
    known = {"tokens": columns, "channels": channels, "values": rows * columns * channels}
    asked = dict.fromkeys(Network._fields, "missing") | Network._field_defaults
    for room in ("victims", "generators"):
        if module_file(room, module).is_file() and constant(room, module, "COST", None):
            return Network(**stated(room, module, asked, parameters, known | {"area": rows * columns / 1024}))
    if not module_file("victims", module).is_file():
        return UNKNOWN
    told = [sys.executable, "-m", "leakbench.jobs.size"]
    given = f"[{victim}, {[rows, columns, channels]}]".encode()
    within = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(told, input=given, env=within, capture_output=True, timeout=120, check=True)
        return Network(**json.loads(done.stdout))
    except (OSError, ValueError, TypeError, subprocess.SubprocessError):
        return UNKNOWN


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
    images, shape = training["epochs"] * min(training["images"] or there, there), spec["dataset"]["shape"]
    return _passes(spec[part], shape, images, STEP, STEPPED * images / training["batch_size"])


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
    clients = federation["clients"]
    alone = capture["defence"]["module"] == "aggregated" and len(clients) > 10
    return played * (1 if alone else len(clients)), played * sum(clients)


def of_attack(spec: Spec, capture: Spec) -> Effort:
    attack, victim, shape = spec["attack"], capture["victim"], capture["dataset"]["shape"]
    federation, chosen, weights = capture["federation"], attack["parameters"], network(victim, shape).weights
    updates, images = trials(spec, capture)
    if attack["optimiser"]:
        return _of_matching(attack, capture, weights, updates, images)
    rule, classes = attack.get("labels", "none"), capture["dataset"]["classes"]
    played = (chosen.get("defence") or capture["defence"])["module"]
    known = {
        "local_epochs": federation["local"]["epochs"] if federation["update"] == "model" else 1,
        "updates": updates, "images": images, "samples": images / updates, "weights": weights,
        "values": math.prod(shape), "tokens": shape[1], "classes": classes, "models": starts(federation),
        "held": federation.get("candidates", 0) + images, "generator": bool(attack["generator"]),
        # A sentence has no class.
        "labels": 1 if constant("victims", victim["module"], "READS", "") == "tokens" else classes,
        "defended": constant("defences", played, "COST", 0), "probed": 0,
    }  # fmt: skip
    if rule not in WITHOUT_RULE:
        known |= stated("labels", rule, {"probed": 0}, {}, known)
    _, *others, passes = stated("attacks", attack["module"], ATTACK, chosen, known).values()
    return _passes(victim, shape, passes, 1, 0).plus(Effort(*others))


def _of_matching(attack: Spec, capture: Spec, weights: float, updates: float, images: float) -> Effort:
    federation, chosen, shape = capture["federation"], attack["parameters"], capture["dataset"]["shape"]
    parts = [
        stated(room, name, PART, given, chosen)
        for section, room in SECTIONS.items()
        for name, given in (attack.get(section) or {}).items()
    ]
    steps, batches = chosen["iterations"] * chosen["restarts"], 1
    if chained := chosen["updates"] != "one-batch" and federation["update"] == "model":
        # Each epoch is a pass over the samples, in mini-batches or in one batch.
        local = federation["local"]
        steps *= local["epochs"]
        if local["batch_size"] and chosen["updates"] != "epochs":
            batches = math.ceil(images / updates / local["batch_size"])
    steps *= math.prod(part["evaluations"] for part in parts)
    candidates = math.prod(part["candidates"] for part in parts)
    # Candidates are compared by their gradients, of which no derivative is taken.
    passes = STEP if candidates > 1 else FROZEN if chosen["derivative"] == "frozen" else EXACT
    made = sum(part["made"] for part in parts)
    # The engines are compared before the first iteration, and the gradients once more after the last.
    times = steps * candidates + 2
    # Trials with weights of their own go through the network one after another, and so do mini-batches.
    alone = updates if chained or any(part["alone"] for part in parts) else 1
    besides = Effort(images * times * made * shape[0] * shape[1] / 1024, updates * times * weights * GRADIENT)
    calls = MATCHED * (steps * alone * batches + updates)
    return _passes(capture["victim"], shape, images * times, passes, calls).plus(besides)


def work(kind: str, spec: Spec, capture: Spec | None = None, there: int = IMAGES) -> Effort:
    """Return the work of a job by the kind of its spec. An attack needs the spec of its capture."""
    if capture:
        return of_attack(spec, capture)
    if kind == "capture":
        return of_capture(spec)
    return of_study(spec, there) if kind == "study" else of_training(spec, there)


def works(specs: Mapping[str, Spec], there: Mapping[str, int]) -> dict[str, Effort]:
    """Return the work of each training, capture and attack. `there`: data set → images of its train split."""
    found = {}
    for name, spec in specs.items():
        kind, _, stem = name.partition("/")
        if kind in ("train", "generator", "study", "capture", "attack"):
            capture = specs[Cell.parse(stem).path("capture")] if kind == "attack" else None
            found[name] = work(kind, spec, capture, 0 if capture else images_of(spec, there))
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
