"""Training studies in the catalogue: their specs, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.resolve import plan
from leakbench.catalogue.workflow import Workflow

TRAINING = {
    "summary": "x", "optimiser": "sgd", "lr": 0.1, "batch_size": 10, "rounds": 200, "clients": 3,
    "options": {"momentum": 0.9, "nesterov": True}, "augmentation": {"d": "flip-crop"},
}  # fmt: skip
BOOSTED: dict[str, Any] = {"aggregation": {"module": "fedboosting-code"}, "hold_out": 0.1}
STUDIES = {"dataset": ["d"], "victim": ["v", "v-tanh"], "training": ["t"], "defence": ["none"]}
CHANGES: dict[str, dict[str, Any]] = {
    "trainings/t": TRAINING,
    "experiments/s": {
        "item": "i", "title": "t", "shows": "s",
        "figure": {"drawing": "dots", "metrics": ["mse"]},
        "trainings": [STUDIES], "seeds": [0, 1],
    },
}  # fmt: skip


def test_a_scale_caps_and_leaves_out_studies(root: Callable[..., Path]) -> None:
    scale = {
        "caps": {"trainings": {"d/t": {"rounds": 2, "images": 40}}}, "left_out": {"s/*/v-tanh/*": "too long"},
    }  # fmt: skip
    out = plan(root(CHANGES | {"scales/quick": scale}), "quick", {"mse": ()})
    assert {study.victim for study in out.studies["s"]} == {"v"}
    training = out.spec("study/d/v/t/none/0")["training"]
    assert (training["rounds"], training["images"]) == (2, 40)
    assert out.spec("table/s")["shares"] == {
        f"d/v/t/none/{seed}": {"rounds": 0.01, "images": 0.666667} for seed in (0, 1)
    }
    assert set(out.spec("table/s")["cells_left_out"].values()) == {"too long"}


WORDS = {
    "summary": "x", "module": "orl", "shape": [32, 100, 3], "classes": 36, "labels": "words",
    "counts": {"train": 60, "test": 40},
}  # fmt: skip
READING = {
    "summary": "x", "task": "recognition", "optimiser": "adadelta", "lr": 1.0, "batch_size": 8, "rounds": 2,
    "clients": 2, "split": "by-client", "beside": {"w": ["w2"]}, "tested_on": ["w3"],
}  # fmt: skip
READ = {
    "datasets/w": WORDS, "datasets/w2": WORDS, "datasets/w3": WORDS | {"counts": {"test": 10}},
    "trainings/r": READING,
    "experiments/s": CHANGES["experiments/s"] | {"trainings": [STUDIES | {"dataset": ["w"],
    "training": ["r"]}]},
}  # fmt: skip


def test_a_study_of_several_data_sets_takes_them_all_in(root: Callable[..., Path]) -> None:
    flow = Workflow(root(READ), "quick")
    training = flow.plan.spec("study/w/v/r/none/0")["training"]
    assert (training["beside"], training["tested_on"]) == (["w2"], ["w3"])
    assert flow.further("w/v/r/none/0") == ["data/w2.safetensors", "data/w3.safetensors"]
    assert {"w", "w2", "w3"} <= set(flow.plan.datasets)
    # What an image is of changes no byte of a data set.
    assert "labels" not in flow.plan.spec("fetch/w")
    code = {Path(name).name for name in flow.train_code("study/w/v/r/none/0")}
    assert {"recognition.py", "classification.py", "sets.py"} <= code


@pytest.mark.parametrize(("images", "enough"), [(10, True), (5, False)])
def test_images_of_several_data_sets_count_together(
    root: Callable[..., Path], images: int, enough: bool
) -> None:
    changes = READ | {"trainings/r": READING | {"images": images, "validation": 0.8}}
    if enough:
        spec = plan(root(changes), "quick", {"mse": ()}).spec("study/w/v/r/none/0")
        assert spec["training"]["images"] == images
        return
    with pytest.raises(UserError, match="10 images give 8 for validation and 2 to 2 clients"):
        plan(root(changes), "quick", {"mse": ()})


def test_a_study_depends_on_its_network_its_defence_and_how_it_trains(root: Callable[..., Path]) -> None:
    flow = Workflow(root(CHANGES), "quick")
    code = {Path(name).name for name in flow.train_code("study/d/v/t/none/0")}
    assert {"fcnn.py", "none.py", "study.py", "federated.py"} <= code
    assert not {"federated.py", "study.py"} & {Path(n).name for n in flow.train_code("train/d/v/0")}
    assert flow.scores("s")[0] == "results/quick/studies/d/v/t/none/0.parquet"
    assert flow.costs("s")[0] == "results/quick/records/study/d/v/t/none/0.json"


def test_rules_have_their_parameters_filled_and_their_files_are_inputs(root: Callable[..., Path]) -> None:
    more = BOOSTED | {"encryption": {"module": "paillier", "parameters": {"bits": 3072}}, "fusion": 0.9}
    flow = Workflow(root(CHANGES | {"trainings/t": TRAINING | more}), "quick")
    spec = flow.plan.spec("study/d/v/t/none/0")
    assert spec["aggregation"]["parameters"] == {"mode": "loss", "training_term": True}
    assert (spec["encryption"]["parameters"]["bits"], spec["encryption"]["parameters"]["packed"]) == (
        3072,
        True,
    )
    assert (spec["training"]["hold_out"], spec["training"]["fusion"]) == (0.1, 0.9)
    code = {Path(name).name for name in flow.train_code("study/d/v/t/none/0")}
    assert {"fedboosting_code.py", "paillier.py", "quantise.py", "server.py"} <= code
    assert not {"ckks.py", "fedboosting_equations.py"} & code
