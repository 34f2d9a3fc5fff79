"""What the rules ask of training studies."""

from collections.abc import Callable
from pathlib import Path

from planning import BASES

from leakbench.catalogue.workflow import Workflow

BOOSTED = {
    "summary": "x", "optimiser": "sgd", "lr": 0.1, "batch_size": 10, "rounds": 200, "clients": 3,
    "aggregation": {"module": "fedboosting-code"}, "hold_out": 0.1,
    "encryption": {"module": "paillier", "parameters": {"bits": 3072}}, "fusion": 0.9,
}  # fmt: skip


def code(flow: Workflow, spec: str) -> set[str]:
    """Return the names of the source files that a training depends on."""
    return {Path(name).name for name in flow.train_code(spec)}


def test_a_study_of_several_data_sets_takes_them_all_in(root: Callable[..., Path]) -> None:
    flow = Workflow(root(BASES["words"]), "quick")
    assert flow.further("w/v/r/none/0") == ["data/w2.safetensors", "data/w3.safetensors"]
    assert {"w", "w2", "w3"} <= set(flow.plan.datasets)
    # What an image is of changes no byte of a data set.
    assert "labels" not in flow.plan.specs["fetch/w"]
    assert {"recognition.py", "classification.py", "sets.py"} <= code(flow, "study/w/v/r/none/0")


def test_a_study_depends_on_its_network_its_defence_its_rules_and_how_it_trains(
    root: Callable[..., Path],
) -> None:
    flow = Workflow(root(BASES["studies"]), "quick")
    assert {"fcnn.py", "none.py", "study.py", "federated.py"} <= code(flow, "study/d/v/t/none/0")
    assert not {"federated.py", "study.py"} & code(flow, "train/d/v/0")
    assert flow.scores("s")[0] == "results/quick/studies/d/v/t/none/0.parquet"
    assert flow.costs("s")[0] == "results/quick/records/study/d/v/t/none/0.json"
    flow = Workflow(root(BASES["studies"] | {"trainings/t": BOOSTED}), "quick", home=flow.root / "other")
    found = code(flow, "study/d/v/t/none/0")
    assert {"fedboosting_code.py", "paillier.py", "quantise.py", "server.py"} <= found
    assert not {"ckks.py", "fedboosting_equations.py"} & found
