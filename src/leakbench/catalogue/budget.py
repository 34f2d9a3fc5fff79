"""What a job asks of a cluster, minutes and memory: by the record of its last run, or estimated from its
spec.

A scheduler ends what takes more, so both are generous, and a job that is tried again asks for more. Nothing
here changes a result.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Spec = dict[str, Any]

# Network (module, or module with depth and stem) → million operations of a forward pass of an image of 32×32,
# and million parameters. A test counts both again.
NETWORKS = {
    "fcnn": (0.9, 0.5),
    "cnn": (3.5, 1.0),
    "convnet": (250, 3),
    "lenet-dlg": (1.5, 0.1),
    "lenet-grnn": (1.5, 0.1),
    "lenet-fedkl": (1.5, 0.1),
    "resnet20-4": (1300, 4.4),
    "cifar-resnet-20": (82, 0.3),
    "cifar-resnet-32": (140, 0.5),
    "resnet-18-large": (75, 12),
    "resnet-34-large": (150, 22),
    "resnet-50-large": (170, 26),
    "resnet-18-small": (1120, 12),
    "resnet-18-unpooled": (290, 12),
    "resnet-34-unpooled": (590, 22),
    "densenet": (120, 8),
    "vgg": (870, 135),
    "crnn": (400, 9),
    "perceptron": (0.06, 0.001),
}
# A network that nobody has counted is taken for a large one.
UNKNOWN = (1300, 30)
# Of a training step and of an iteration of gradient matching, in forward passes; of what a processor's core
# does in a second (docs/performance.md: 16 to 38), and of what an image takes besides.
STEP, ITERATION = 3, 7
MILLIONS_A_SECOND, SECONDS_AN_IMAGE = 20_000, 0.003
# One iteration of L-BFGS evaluates the loss up to this many times.
LBFGS = 20
# A generator in the loop, as GRNN and GGL have it, costs more than a small network.
GENERATOR = 2000
# Where the step size of an attack that lowers it falls first, as a share of the length over which it does.
DECAYS_AT = 3 / 8
MARGIN, START = 2, 10
# A killed attack goes on where it was, so no more is asked for at once than most clusters grant.
LONGEST = 2 * 24 * 60
# What a job takes that has nothing to do, for want of its data, says nothing of it.
IDLE_SECONDS = 0.1


@dataclass(frozen=True)
class Needs:
    """seconds: of one thread. base, each: megabytes of the job, and of each of its workers."""

    seconds: float
    base: float
    each: float = 0.0

    def minutes(self, threads: int = 1, attempt: int = 1) -> int:
        """Return the minutes to ask for, at the first or a later attempt, at most LONGEST."""
        return min(LONGEST, attempt * (START + math.ceil(MARGIN * self.seconds / threads / 60)))

    def megabytes(self, threads: int = 1, attempt: int = 1) -> int:
        """Return the memory to ask for, at the first or a later attempt."""
        return attempt * math.ceil(self.base + self.each * threads)


def network(victim: Spec, shape: list[int]) -> tuple[float, float]:
    """Return million operations of a forward pass of one image of `shape` (rows, columns, channels), million
    parameters."""
    parameters = victim.get("parameters", {})
    name = victim["module"]
    longer = [name, *(str(parameters[key]) for key in ("depth", "stem") if key in parameters)]
    names = ["-".join(longer[:count]) for count in range(len(longer), 0, -1)]
    operations, weights = next((NETWORKS[key] for key in names if key in NETWORKS), UNKNOWN)
    return operations * shape[0] * shape[1] / 1024, weights


def _seconds(images: float, passes: float, operations: float) -> float:
    return images * (passes * operations / MILLIONS_A_SECOND + SECONDS_AN_IMAGE)


def _samples(federation: Spec) -> int:
    starts = 1 if federation["checkpoints"] == "last" else len(federation["checkpoints"])
    return int(starts * federation["rounds"] * sum(federation["clients"]))


def of_training(spec: Spec, part: str = "victim") -> Needs:
    """Return the needs of training a victim or generator."""
    training = spec[part]["training"]
    operations, weights = network(spec[part], spec["dataset"]["shape"])
    # Three states of each weight, and gradients; millions of them are megabytes by four.
    memory = 3000 + 24 * weights
    if training is None:
        return Needs(0, memory)
    # A step of many images costs little besides.
    auxiliary = spec[part].get("auxiliary")
    there = auxiliary["stop"] - auxiliary["start"] if auxiliary else 60_000
    images = training["epochs"] * (training["images"] or there)
    return Needs(images * (STEP * operations / MILLIONS_A_SECOND + SECONDS_AN_IMAGE / 30), memory)


def of_study(spec: Spec) -> Needs:
    """Return the needs of a training study."""
    training, shape = spec["training"], spec["dataset"]["shape"]
    size = training["size"] or 0
    operations, weights = network(spec["victim"], [size or shape[0], size or shape[1], shape[2]])
    images = training["rounds"] * training["local_epochs"] * (training["images"] or 60_000)
    seconds = images * (STEP * operations / MILLIONS_A_SECOND + SECONDS_AN_IMAGE / 30)
    return Needs(seconds, 3000 + 24 * weights * (1 + training["clients"]))


def of_capture(spec: Spec) -> Needs:
    """Return the needs of playing a federation."""
    operations, weights = network(spec["victim"], spec["dataset"]["shape"])
    images = _samples(spec["federation"]) * spec["federation"]["local"]["epochs"]
    return Needs(_seconds(images, STEP, operations), 4000 + 40 * weights)


def of_attack(spec: Spec, capture: Spec) -> Needs:
    """Return the needs of an attack on what `capture` (its spec) makes: its iterations on every image, null
    baseline too."""
    federation, shape = capture["federation"], capture["dataset"]["shape"]
    chosen, sections = spec["attack"]["parameters"], spec["attack"]
    operations, weights = network(capture["victim"], shape)
    null = min(spec["null_rounds"] / federation["rounds"], 1 / 4)
    images = _samples(federation) * (1 + null)
    evaluations = chosen.get("iterations", 1) * chosen.get("restarts", 1)
    for name, arguments in sections["optimiser"].items():
        evaluations *= LBFGS if name == "lbfgs" else arguments.get("population", 1)
    if chosen.get("updates") == "simulated" and federation["update"] == "model":
        evaluations *= federation["local"]["epochs"]
    if sections["generator"] or set(sections["unknowns"]) - {"dummies"}:
        operations += GENERATOR / ITERATION
    # Chunks keep within bounds what trials take together; one trial of a large image or network may be more.
    pictures = 20 * max(federation["clients"]) * shape[0] * shape[1] / 1024
    return Needs(_seconds(images * evaluations, ITERATION, operations), 2000, 1000 + pictures + 24 * weights)


def decays(attack: Spec) -> bool:
    """Return whether the step size of a resolved attack falls before its last iteration."""
    length = attack["parameters"].get("iterations", 0)
    over = attack["parameters"].get("decay_over") or length
    lowered = any(arguments.get("decay") for arguments in attack["optimiser"].values())
    return lowered and int(DECAYS_AT * over) < length


def recorded(record: Path, spec: Path, *, workers: bool) -> Needs | None:
    """Return what a job's last run took, by its record; none if there is none or its spec has changed
    since."""
    try:
        if record.stat().st_mtime < spec.stat().st_mtime:
            return None
        took = json.loads(record.read_text())
        seconds, peak = float(took["seconds"]), float(took["peak_memory_mb"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if seconds < IDLE_SECONDS:
        return None
    # A peak is that of the largest process; it does not say how many shared the work.
    return Needs(2 * seconds, 500 + 1.5 * peak, 1.5 * peak if workers else 0)
