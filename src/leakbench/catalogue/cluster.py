"""What a job asks of a cluster, in minutes and memory: by the record of its last run, or by its spec.

A scheduler ends a job that takes more than it asked for. So both numbers are generous, and a job that is
tried again asks for more. Nothing here changes a result.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.catalogue import costs

Spec = dict[str, Any]

MARGIN, START = 2, 10
# A killed attack resumes where it was, so a job never asks for more minutes than most clusters grant.
LONGEST = 2 * 24 * 60
# A job whose data is missing ends at once. A time below this says nothing about the job.
IDLE_SECONDS = 0.1


@dataclass(frozen=True)
class Needs:
    """The time and the memory that a job needs.

    seconds: seconds of one thread.
    base: megabytes of the job without its workers.
    each: megabytes of each of its workers.
    """

    seconds: float
    base: float
    each: float = 0.0

    def minutes(self, threads: int = 1, attempt: int = 1) -> int:
        """Return the minutes to ask for, at the first or a later attempt, at most LONGEST."""
        return min(LONGEST, attempt * (START + math.ceil(MARGIN * self.seconds / threads / 60)))

    def megabytes(self, threads: int = 1, attempt: int = 1) -> int:
        """Return the memory to ask for, at the first or a later attempt."""
        return attempt * math.ceil(self.base + self.each * threads)


def of_training(spec: Spec, part: str = "victim") -> Needs:
    """Return the needs of training a victim or generator."""
    # There are three states of each weight, and gradients. A million numbers are four megabytes.
    memory = 3000 + 24 * costs.network(spec[part], spec["dataset"]["shape"]).weights
    return Needs(costs.of_training(spec, part).seconds(), memory)


def of_study(spec: Spec) -> Needs:
    """Return the needs of a training study."""
    weights = costs.network(spec["victim"], spec["dataset"]["shape"]).weights
    return Needs(costs.of_study(spec).seconds(), 3000 + 24 * weights * (1 + spec["training"]["clients"]))


def of_capture(spec: Spec) -> Needs:
    """Return the needs of playing a federation."""
    weights = costs.network(spec["victim"], spec["dataset"]["shape"]).weights
    return Needs(costs.of_capture(spec).seconds(), 4000 + 40 * weights)


def of_attack(spec: Spec, capture: Spec) -> Needs:
    """Return the needs of the attack of `spec` on the capture whose spec is `capture`."""
    shape = capture["dataset"]["shape"]
    weights = costs.network(capture["victim"], shape).weights
    # Trials are worked on in chunks, which bounds their memory. One trial of a large image or network may
    # still need more.
    pictures = 20 * max(capture["federation"]["clients"]) * shape[0] * shape[1] / 1024
    return Needs(costs.of_attack(spec, capture).seconds(), 2000, 1000 + pictures + 24 * weights)


def recorded(record: Path, spec: Path, *, workers: bool) -> Needs | None:
    """Return what a job's last run took, by its record.

    record: the file of the record.
    spec: the file of the job's spec.
    workers: whether the job shares its work among worker processes, each of which needs memory.

    Returns None if there is no sound record, or if the spec has changed since.
    """
    try:
        if record.stat().st_mtime < spec.stat().st_mtime:
            return None
        took = json.loads(record.read_text())
        seconds, peak = float(took["seconds"]), float(took["peak_memory_mb"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not (IDLE_SECONDS <= seconds < math.inf and 0 <= peak < math.inf):
        return None
    # The peak is that of the largest process. It does not say how many processes shared the work.
    return Needs(2 * seconds, 500 + 1.5 * peak, 1.5 * peak if workers else 0)
