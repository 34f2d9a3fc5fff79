"""What a job asks of a cluster: measured against real runs, and what a record changes."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from leakbench.catalogue import costs
from leakbench.catalogue.workflow import Workflow

# Megabytes of runs on one core, from their records.
MEASURED = [
    ("attack/cifar10/resnet20-4/agic-gradient/none/invg-single/0", 830),
    ("attack/cifar10/resnet20-4/agic-gradient-batch4/none/agic/0", 898),
    ("attack/cifar10/lenet-dlg/agic-gradient/none/dlg/0", 580),
    ("attack/mnist/fcnn-relu/fidel-reveal/none/fidel/0", 1798),
    ("train/mnist/fcnn-relu-dropout/0", 938),
    ("generator/mnist/cnn-relu/fidel-mnist/0", 827),
    ("capture/mnist/fcnn-relu-dropout/fidel-reveal-moving/none/0", 617),
]


@pytest.mark.parametrize(("name", "megabytes"), MEASURED)
def test_what_was_measured_fits_with_room(name: str, megabytes: float, flow: Workflow) -> None:
    verb, _, stem = name.partition("/")
    needs = flow.needs(verb, stem)
    assert needs.megabytes() > 1.5 * megabytes
    # Twice what the cost model says, which is right within a factor of two.
    assert needs.minutes() * 60 > 2 * needs.seconds or needs.minutes() == costs.LONGEST


def test_retries_ask_for_more_and_threads_for_less_time() -> None:
    needs = costs.Needs(seconds=3600, base=2000, each=1000)
    assert needs.minutes() == costs.START + costs.MARGIN * 60
    assert needs.minutes(threads=4) == costs.START + math.ceil(costs.MARGIN * 15)
    assert needs.megabytes(threads=4) == 6000
    assert needs.minutes(attempt=2) == 2 * needs.minutes()
    assert needs.megabytes(attempt=2) == 2 * needs.megabytes()
    assert costs.Needs(1e9, 1).minutes() == costs.LONGEST


def write(path: Path, told: object, age: int) -> Path:
    path.write_text(json.dumps(told))
    os.utime(path, (1_000_000 + age, 1_000_000 + age))
    return path


def test_a_record_counts_until_its_spec_changes(tmp_path: Path) -> None:
    spec = write(tmp_path / "spec.json", {}, 10)
    record = tmp_path / "record.json"
    told = {"seconds": 600.0, "peak_memory_mb": 2000}
    assert costs.recorded(record, spec, workers=False) is None
    write(record, told, 20)
    alone, shared = (costs.recorded(record, spec, workers=workers) for workers in (False, True))
    assert alone == costs.Needs(1200, 3500, 0)
    assert shared == costs.Needs(1200, 3500, 3000)
    write(record, told, 5)
    assert costs.recorded(record, spec, workers=False) is None


@pytest.mark.parametrize(
    ("seconds", "megabytes"), [("long", 1), (0.003, 507), (math.nan, 1), (1, math.inf), (1, None)]
)
def test_a_record_that_tells_nothing_does_not_count(seconds: Any, megabytes: Any, tmp_path: Path) -> None:
    spec, told = write(tmp_path / "spec.json", {}, 10), {"seconds": seconds, "peak_memory_mb": megabytes}
    for record in (told, {}, []):
        assert costs.recorded(write(tmp_path / "record.json", record, 20), spec, workers=False) is None


def test_the_workflow_takes_the_record_of_a_cell(tmp_path: Path) -> None:
    flow = Workflow.__new__(Workflow)
    flow.home, flow.results = tmp_path, "results/quick"
    stem = "tiny/tiny/tiny/none/fidel/0"
    for kind, told, age in (("specs", {}, 1), ("records", {"seconds": 60, "peak_memory_mb": 100}, 2)):
        path = tmp_path / f"results/quick/{kind}/attack/{stem}.json"
        path.parent.mkdir(parents=True)
        write(path, told, age)
    assert flow.needs("attack", stem) == costs.Needs(120, 650, 150)
