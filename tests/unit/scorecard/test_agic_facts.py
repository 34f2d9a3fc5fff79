"""What the scorecard reads about AGIC out of the catalogue, the specs, the records and the victim's file."""

import json
from pathlib import Path

import numpy as np
import pytest

from leakbench.artefacts import write_tensors
from leakbench.catalogue.resolve import described
from leakbench.scorecard.agic import findings
from leakbench.verbs.scorecard import gather_agic

CONFIG = Path(__file__).parents[3] / "config"
CELL = "cifar10/resnet20-4/agic-gradient/none"
STEPS = "cifar10/resnet20-4/agic-fedavg-steps-8/none"


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    specs, records = tmp_path / "specs", tmp_path / "records/attack"
    write(specs / f"attack/{CELL}/agic-single/0.json", {"attack": {"parameters": {"iterations": 80}}})
    write(specs / f"attack/{CELL}/agic/0.json", {"attack": {"parameters": {"iterations": 5}}})
    matching = {"iterations": 10000, "pre_iterations": 7, "steps": "matching"}
    look = "cifar100/resnet20-4-cifar100/agic-passes/none/agic-joint-matching/0"
    write(specs / f"attack/{look}.json", {"attack": {"parameters": matching}})
    write(specs / f"capture/{CELL}/0.json", {"federation": {"rounds": 2}})
    write(specs / "table/agic-figure-9.json", {"cells": [f"{CELL}/agic/0", f"{CELL}/agic-single/0"]})
    write(specs / "table/agic-table-5.json", {"cells": [look]})
    write(specs / "table/agic-table-1.json", {"cells": []})
    write(records / f"{STEPS}/invg/0.json", {"seconds": 20.0, "updates": 1})
    write(records / f"{STEPS}/agic/0.json", {"seconds": 0.1})
    weights = {
        "epoch-0/conv.weight": np.zeros((2, 3, 1, 1), np.float32),
        "epoch-0/bn.weight": np.zeros(2, np.float32),
    }
    write_tensors(tmp_path / "victims/cifar10/resnet20-4/0.safetensors", weights, {})
    return tmp_path


def test_facts_are_what_this_scale_ran(results: Path) -> None:
    facts = gather_agic(results, described(CONFIG))
    assert facts["agic_run"] == {"iterations": 80, "rounds": 2, "pre_iterations": 7}
    assert facts["iterations"] == {"agic-figure-9": 5, "agic-table-5": 7}
    # The attack without updates met an absent data set: its seconds say nothing.
    assert facts["agic_seconds"] == {"invg": {"8": 20.0}}
    assert facts["convolutions"] == 1
    assert facts["pooling"] == "2x2,2"
    assert facts["federations"]["agic-fedavg"] == {"lr": 0.0001, "rounds": 100}
    assert facts["images"]["mnist-32"] == 70000
    assert facts["settled"] == dict.fromkeys(
        ("lenet-dlg-converged", "lenet-grnn-converged", "resnet18-sigmoid-converged"), 0.0001
    )


def test_before_anything_ran_the_catalogue_alone_speaks(tmp_path: Path) -> None:
    facts = gather_agic(tmp_path, described(CONFIG))
    assert facts["agic_run"] == {"iterations": None, "rounds": None, "pre_iterations": None}
    assert facts["agic_seconds"] == {}
    assert "convolutions" not in facts
    found = findings({}, facts)
    # The catalogue's attacks are the paper's.
    assert [found[f"agic.text-V-A.{row}"].measured for row in range(1, 8)] == [
        "50.0", "2.0", "0.0001", "0.01", "0.001", "0.1", "0.1",
    ]  # fmt: skip
    assert [found[f"agic.table-7.{row}"].measured for row in (1, 9, 17, 65)] == [
        "L2",
        "L2",
        "Cosine",
        "Cosine",
    ]
    assert found["agic.text-V-A.8"].absent == "no results of experiment agic-table-4"
