"""What a job asks of a cluster: counted again by torch, measured against real runs, and what a record
changes."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from leakbench import victims
from leakbench.catalogue import budget
from leakbench.catalogue.workflow import Workflow

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def paper() -> Workflow:
    return Workflow(ROOT, "paper")


@pytest.fixture(scope="module")
def quick() -> Workflow:
    return Workflow(ROOT, "quick")


@pytest.fixture(scope="module")
def trained(paper: Workflow) -> dict[str, dict[str, Any]]:
    """One network of each entry that is counted by: entry → spec."""
    found: dict[str, dict[str, Any]] = {}
    for name, spec in paper.plan.specs.items():
        if name.startswith(("train/", "study/")):
            parameters = spec["victim"]["parameters"]
            longer = [spec["victim"]["module"], parameters.get("depth"), parameters.get("stem")]
            names = {"-".join(str(part) for part in longer[:count] if part) for count in (1, 2, 3)}
            for entry in names & budget.NETWORKS.keys():
                if spec["dataset"]["shape"][0] <= 64 or entry not in found:
                    found[entry] = spec
    return found


def test_every_network_of_the_paper_scale_is_counted(
    paper: Workflow, trained: dict[str, dict[str, Any]]
) -> None:
    assert trained.keys() >= budget.NETWORKS.keys() - {"convnet"}
    for name, spec in paper.plan.specs.items():
        if name.startswith(("train/", "study/")):
            counted = budget.network(spec["victim"], [32, 32, 3])
            assert counted != budget.UNKNOWN, name


def test_operations_and_parameters_are_those_that_torch_counts(trained: dict[str, dict[str, Any]]) -> None:
    for entry, spec in trained.items():
        victim, image = spec["victim"], spec["dataset"]
        shape = [min(image["shape"][0], 64), min(image["shape"][1], 64), image["shape"][2]]
        with torch.device("meta"):
            model = victims.build(victim["module"], tuple(shape), image["classes"], victim["parameters"])
            picture = torch.zeros(1, shape[2], shape[0], shape[1])
        model.eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(picture)
        operations, weights = budget.network(victim, shape)
        assert 0.7 < operations * 1e6 / counter.get_total_flops() < 5, entry
        own = sum(value.numel() for value in model.parameters()) / 1e6
        assert 0.9 * own < weights < max(1.4 * own, own + 0.6), entry


# Seconds and megabytes of runs of the quick scale on one core, from their records.
MEASURED = [
    ("attack/cifar10/resnet20-4/agic-gradient/none/invg-single/0", 90, 830),
    ("attack/cifar10/resnet20-4/agic-gradient-batch4/none/agic/0", 8, 898),
    ("attack/cifar10/lenet-dlg/agic-gradient/none/dlg/0", 30, 580),
    ("attack/mnist/fcnn-relu/fidel-reveal/none/fidel/0", 4, 1798),
    ("train/mnist/fcnn-relu-dropout/0", 66, 938),
    ("generator/mnist/cnn-relu/fidel-mnist/0", 21, 827),
    ("capture/mnist/fcnn-relu-dropout/fidel-reveal-moving/none/0", 8, 617),
]


@pytest.mark.parametrize(("name", "seconds", "megabytes"), MEASURED)
def test_what_was_measured_fits_with_room(
    name: str, seconds: float, megabytes: float, quick: Workflow, paper: Workflow
) -> None:
    verb, _, stem = name.partition("/")
    needs = quick.needs(verb, stem)
    assert needs.minutes() * 60 > 2 * seconds
    assert needs.megabytes() > 1.5 * megabytes
    # The published sizes are never asked less for.
    if f"{verb}/{stem}" in paper.plan.specs:
        assert paper.needs(verb, stem).seconds >= needs.seconds


def test_retries_ask_for_more_and_threads_for_less_time() -> None:
    needs = budget.Needs(seconds=3600, base=2000, each=1000)
    assert needs.minutes() == budget.START + budget.MARGIN * 60
    assert needs.minutes(threads=4) == budget.START + math.ceil(budget.MARGIN * 15)
    assert needs.megabytes(threads=4) == 6000
    assert (needs.minutes(attempt=2), needs.megabytes(attempt=2)) == (
        2 * needs.minutes(),
        2 * needs.megabytes(),
    )
    assert budget.Needs(1e9, 1).minutes() == budget.LONGEST


def write(path: Path, told: object, age: int) -> Path:
    path.write_text(json.dumps(told))
    os.utime(path, (1_000_000 + age, 1_000_000 + age))
    return path


def test_a_record_counts_until_its_spec_changes(tmp_path: Path) -> None:
    spec = write(tmp_path / "spec.json", {}, 10)
    record = tmp_path / "record.json"
    told = {"seconds": 600.0, "peak_memory_mb": 2000}
    assert budget.recorded(record, spec, workers=False) is None
    write(record, told, 20)
    alone, shared = (budget.recorded(record, spec, workers=workers) for workers in (False, True))
    assert alone == budget.Needs(1200, 3500, 0)
    assert shared == budget.Needs(1200, 3500, 3000)
    write(record, told, 5)
    assert budget.recorded(record, spec, workers=False) is None


@pytest.mark.parametrize(
    "told", [{}, [], {"seconds": "long", "peak_memory_mb": 1}, {"seconds": 0.003, "peak_memory_mb": 507}]
)
def test_a_record_that_tells_nothing_does_not_count(told: object, tmp_path: Path) -> None:
    spec = write(tmp_path / "spec.json", {}, 10)
    assert budget.recorded(write(tmp_path / "record.json", told, 20), spec, workers=False) is None


def test_the_workflow_takes_the_record_of_a_cell(tmp_path: Path) -> None:
    flow = Workflow.__new__(Workflow)
    flow.home, flow.results = tmp_path, "results/quick"
    stem = "tiny/tiny/tiny/none/fidel/0"
    for kind, told, age in (("specs", {}, 1), ("records", {"seconds": 60, "peak_memory_mb": 100}, 2)):
        path = tmp_path / f"results/quick/{kind}/attack/{stem}.json"
        path.parent.mkdir(parents=True)
        write(path, told, age)
    assert flow.needs("attack", stem) == budget.Needs(120, 650, 150)


def test_a_step_size_that_decays_does_so_before_the_last_iteration(quick: Workflow) -> None:
    def falls(optimiser: dict[str, Any], **parameters: int) -> bool:
        return budget.decays({"parameters": parameters, "optimiser": optimiser})

    lowered = {"adam": {"decay": True}}
    assert falls(lowered, iterations=160)
    # The first steps of a longer run, and an attack that lowers nothing.
    assert not falls(lowered, iterations=160, decay_over=4000)
    assert falls(lowered, iterations=160, decay_over=300)
    assert not falls({"adam": {"decay": False}}, iterations=160)
    assert not falls({})
    # As the catalogue writes it.
    scored = [spec["attacks"] for name, spec in quick.plan.specs.items() if name.startswith("score/")]
    found = {name: entry["decays"] for attacks in scored for name, entry in attacks.items()}
    assert (found["invg"], found["invg-single"], found["grnn"]) == (True, False, False)
