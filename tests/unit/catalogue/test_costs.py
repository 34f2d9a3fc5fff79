"""The cost model: operations counted again by torch, seconds beside real runs, and requests to a cluster."""

import copy
import csv
import fnmatch
import json
import math
import os
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from leakbench.attacks.inverter import Inverter
from leakbench.catalogue import costs
from leakbench.catalogue.cell import Cell
from leakbench.catalogue.signature import constant, part_names
from leakbench.catalogue.workflow import Workflow
from leakbench.jobs.plan import measured
from leakbench.networks import victims

ROOT = Path(__file__).parents[3]
PARTS = {"train": "victim", "generator": "generator"}
LENET = costs.network({"module": "lenet-dlg", "parameters": {}}, [32, 32, 3])
# The networks of images whose files state their size. One is trained by experiments of its own only.
STATED = {
    name for name in part_names("victims")
    if constant("victims", name, "COST", None) and not constant("victims", name, "READS", "")
} - {"convnet"}  # fmt: skip


def test_operations_and_parameters_are_those_that_torch_counts(flow: Workflow) -> None:
    trained: dict[tuple[str, costs.Network], dict[str, Any]] = {}
    for name, spec in flow.plan.specs.items():
        if name.startswith(("train/", "study/")):
            size, module = costs.network(spec["victim"], [32, 32, 3]), spec["victim"]["module"]
            assert size != costs.UNKNOWN, name
            if module in STATED and (spec["dataset"]["shape"][0] <= 64 or (module, size) not in trained):
                trained[module, size] = spec
    assert {name for name, _ in trained} == STATED
    assert len([name for name, _ in trained if name == "resnet"]) == 6
    for entry, spec in trained.items():
        victim, image = spec["victim"], spec["dataset"]
        shape = [min(image["shape"][0], 64), min(image["shape"][1], 64), image["shape"][2]]
        with torch.device("meta"):
            model = victims.build(victim["module"], tuple(shape), image["classes"], victim["parameters"])
            picture = torch.zeros(1, shape[2], shape[0], shape[1])
        model.eval()
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(picture)
        weights, operations, *_ = costs.network(victim, shape)
        assert 0.7 < operations * 1e6 / counter.get_total_flops() < 5, entry
        own = sum(value.numel() for value in model.parameters()) / 1e6
        assert 0.9 * own < weights < max(1.4 * own, own + 0.6), entry


def spec_of(flow: Workflow, row: dict[str, str]) -> costs.Effort:
    """Return the modelled work of a measured run: a job of the catalogue, shorter."""
    kind, _, stem = row["name"].partition("/")
    spec = copy.deepcopy(flow.plan.specs[row["name"]])
    if kind == "attack":
        capture = copy.deepcopy(flow.plan.specs[f"capture/{Cell.parse(stem).capture}"])
        capture["federation"] |= {"rounds": int(row["trials"]), "checkpoints": "last"}
        spec["null_rounds"] = 2
        if row["iterations"]:
            spec["attack"]["parameters"]["iterations"] = int(row["iterations"])
        return costs.of_attack(spec, capture)
    training = spec["training"] if kind == "study" else spec[PARTS[kind]]["training"]
    training |= {"epochs": 1, "rounds": 1, "images": int(row["images"])}
    if kind == "study":
        return costs.of_study(spec, there=10**9)
    if spec[PARTS[kind]].get("auxiliary"):
        spec[PARTS[kind]]["auxiliary"] |= {"start": 0, "stop": 10**9}
    return costs.of_training(spec, there=10**9)


def test_the_model_is_within_a_factor_of_two_of_what_was_measured(flow: Workflow) -> None:
    """seconds.csv: core-seconds on the reference machine, beside trials, iterations and images of each job.

    Of an attack it is what its iterations took, without its start.
    """
    with (Path(__file__).parent / "seconds.csv").open() as file:
        rows = list(csv.DictReader(file))
    ratios = {row["name"]: spec_of(flow, row).seconds() / float(row["seconds"]) for row in rows}
    assert {name: ratio for name, ratio in ratios.items() if not 0.45 < ratio < 2.2} == {}
    # It errs to neither side.
    assert 0.7 < statistics.median(ratios.values()) < 1.4


def test_a_capture_trains_a_batch_for_each_client_and_calls_torch_for_each_of_them() -> None:
    """Of as many images in all, four clients take twice as many calls as two, and no more operations."""
    local = {"lr": 0.1, "batch_size": None, "epochs": 3}

    def work(clients: list[int]) -> costs.Effort:
        federation = {"clients": clients, "rounds": 5, "checkpoints": "last", "local": local}
        victim = {"module": "lenet-dlg", "parameters": {}}
        return costs.of_capture(
            {"federation": federation, "victim": victim, "dataset": {"shape": [32, 32, 3]}}
        )

    two, four = work([8, 8]), work([4, 4, 4, 4])
    assert four.calls == pytest.approx(2 * two.calls)
    assert four.convolutions == two.convolutions
    # Five rounds of three epochs on sixteen images.
    passes = 5 * 3 * 16 * costs.STEP
    assert two.convolutions == pytest.approx(passes * LENET.operations)


def simulated(updates: str, batch_size: int | None = 5, **objective: dict[str, Any]) -> costs.Effort:
    """Return the work of 100 iterations on 2 updates of 5 epochs on 20 images, of which one is noise."""
    local = {"lr": 0.1, "batch_size": batch_size, "epochs": 5}
    federation = {"clients": [20], "rounds": 1, "checkpoints": "last", "update": "model", "local": local}
    network, nothing = ({"module": name, "parameters": {}} for name in ("lenet-dlg", "none"))
    capture = {
        "federation": federation, "victim": network, "defence": nothing,
        "dataset": {"shape": [32, 32, 3], "classes": 10},
    }  # fmt: skip
    parameters = {"iterations": 100, "restarts": 1, "updates": updates, "derivative": "exact"}
    attack = {
        "module": "gradient-matching", "parameters": parameters, "objective": {"squares": {}} | objective,
        "optimiser": {"adam": {}}, "unknowns": {"dummies": {}}, "generator": None,
    }  # fmt: skip
    return costs.of_attack({"attack": attack, "null_rounds": 1}, capture)


def test_a_simulated_step_is_taken_trial_by_trial_and_an_epoch_is_a_pass_over_the_samples() -> None:
    one = simulated("one-batch")
    assert one.calls == pytest.approx(LENET.layers * costs.MATCHED * (100 + 2))
    for updates in ("simulated", "shuffled", "reshuffled"):
        # Four mini-batches in five epochs of two updates.
        found = simulated(updates)
        assert found.calls == pytest.approx(LENET.layers * costs.MATCHED * (100 * 4 * 5 * 2 + 2))
        assert found.convolutions / one.convolutions == pytest.approx((500 + 2) / (100 + 2))
    # A step an epoch, whether the client's batches are smaller or not.
    for found in (simulated("epochs"), simulated("simulated", None)):
        assert found.calls == pytest.approx(LENET.layers * costs.MATCHED * (100 * 5 * 2 + 2))


def peeled(shape: list[int], classes: int, batch: int) -> float:
    """Return the core-seconds of peeling one update of a dense layer of 1,000 neurons."""
    victim = {"module": "mlp", "parameters": {}}
    federation = {"clients": [batch], "rounds": 1, "checkpoints": "last", "update": "gradient", "local": {}}
    capture = {
        "federation": federation, "victim": victim, "defence": {"module": "none", "parameters": {}},
        "dataset": {"shape": shape, "classes": classes},
    }  # fmt: skip
    attack = {"module": "peel", "parameters": {}, "optimiser": None, "generator": None}
    return costs.of_attack({"attack": attack, "null_rounds": 0}, capture).seconds()


def test_peeling_pays_for_labels_and_columns() -> None:
    """Updates of 300 images were timed, in processor-seconds: of 100 labels (CIFAR-100), of ten (CIFAR-10),
    and of small images where the columns of all were found (MNIST)."""
    photograph, digit = [32, 32, 3], [28, 28, 1]
    assert 0.45 < peeled(photograph, 100, 300) / 15.5 < 2.2
    assert 0.45 < peeled(photograph, 10, 300) / 3.2 < 2.2
    assert 0.45 < peeled(digit, 10, 300) / 3.6 < 2.2


def test_terms_of_the_objective_cost_what_they_do() -> None:
    plain = simulated("one-batch")
    twice = simulated("one-batch", **{"slope-penalty": {"weight": 0.5, "reach": 1.0}})
    assert twice.convolutions / plain.convolutions == pytest.approx(202 / 102)
    alike = {"epochs-alike": {"weight": 1.0, "of": "filters", "by": "largest"}}
    more = simulated("reshuffled", **alike).convolutions - simulated("reshuffled").convolutions
    # Forty images in five epochs and a hundred iterations.
    assert more == pytest.approx(40 * (5 * 100 + 2) * 80)
    assert simulated("shuffled", **alike) == simulated("shuffled")


def test_an_inverter_s_fit_is_counted_as_torch_counts_it(flow: Workflow) -> None:
    name = "cifar10/lenet-dlg/grnn-matrix/none/learned-inverter/0"
    specs = flow.plan.specs
    spec, capture = specs[f"attack/{name}"], specs[f"capture/{Cell.parse(name).capture}"]
    chosen = spec["attack"]["parameters"]
    inverter = Inverter(torch.zeros(2, chosen["bins"]), torch.zeros(2, 1, 3 * 32 * 32), chosen["hidden"])
    with FlopCounterMode(display=False) as counter:
        inverter(torch.zeros(10, chosen["bins"])).sum().backward()
    fitted = counter.get_total_flops() / 10 * chosen["pairs"] * chosen["epochs"] / 1e6
    # The optimiser's own step comes on top, and the first layer hands nothing back.
    assert fitted < costs.of_attack(spec, capture).products < 2.5 * fitted
    spec = copy.deepcopy(spec)
    spec["attack"]["parameters"]["epochs"] *= 2
    assert costs.of_attack(spec, capture).products > 1.9 * fitted
    of_soteria = copy.deepcopy(spec)
    of_soteria["attack"]["parameters"]["defence"] = {"module": "soteria", "parameters": {}}
    assert costs.of_attack(of_soteria, capture).seconds() > 3 * costs.of_attack(spec, capture).seconds()


def test_a_machine_twice_as_fast_takes_half_as_long() -> None:
    work = costs.Effort(convolutions=120_000, products=40_000, calls=50)
    assert work.seconds() == 2 * work.seconds(costs.REFERENCE.plus(costs.REFERENCE))
    assert work.plus(work).seconds() == 2 * work.seconds()


def test_this_machine_is_measured() -> None:
    here = measured()
    assert min(here) > 0
    assert 0.01 < costs.REFERENCE.seconds(here) / 3 < 100


@pytest.mark.parametrize(("width", "hidden", "side"), [(16, 100, 32), (64, 200, 32), (32, 100, 64)])
def test_the_network_of_fedavg_is_counted_at_each_width(width: int, hidden: int, side: int) -> None:
    parameters = {"width": width, "hidden": hidden}
    with torch.device("meta"):
        model = victims.build("fedavg-cnn", (side, side, 3), 10, parameters)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(torch.zeros(1, 3, side, side))
    found = costs.network({"module": "fedavg-cnn", "parameters": parameters}, [side, side, 3])
    assert found.operations == pytest.approx(counter.get_total_flops() / 1e6, rel=0.1)
    assert found.weights == pytest.approx(sum(p.numel() for p in model.parameters()) / 1e6, rel=0.1)


def test_the_standard_scale_states_the_price_of_each_simulation_that_it_leaves_out(flow: Workflow) -> None:
    specs, prices = flow.plan.specs, flow.plan.definitions["leakbench-fedavg"].left_out["standard"]
    stems = [name.partition("/")[2] for name in flow.plan.needed("leakbench-fedavg") if "attack/" in name]
    priced = set()
    for glob, reason in prices.items():
        for stem in fnmatch.filter(stems, glob):
            capture = specs[f"capture/{Cell.parse(stem).capture}"]
            minutes = math.ceil(costs.of_attack(specs[f"attack/{stem}"], capture).seconds() / 60)
            # Ten images in pairs are five steps.
            steps = 5 * capture["federation"]["local"]["epochs"]
            assert reason.startswith(f"simulating {steps} steps takes {minutes} core-minutes"), stem
            priced.add(stem)
    # Four attacks that simulate, at two numbers of steps and two rates.
    assert len(priced) == 16


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
