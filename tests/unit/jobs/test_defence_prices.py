"""What a defence costs: from a federation that was played to its rows and lines."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from cell import ORIGIN, Cell, tabled
from played import ROUNDS, SHAPE, captured

from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.metrics.interval import summary
from leakbench.networks import victims


def test_the_truth_tells_accuracy_and_bytes_and_nothing_else_does(tmp_path: Path) -> None:
    files = captured(tmp_path)
    seen, truth, data = files["capture"], files["truth"], files["data"]
    assert not [name for name in (*seen, *files["oracle"]) if name.startswith(("accuracy", "bytes"))]
    model = victims.build("fcnn", SHAPE, 5, {"width": 7})
    names = [name for name, _ in model.named_parameters()]
    x = torch.from_numpy(data["test/images"][:25].transpose(0, 3, 1, 2).astype(np.float32) / 255)
    for turn in range(ROUNDS):
        # The server's step written out: two and six samples, a quarter and three quarters.
        mean = {n: seen[f"updates/{n}"][turn].T @ [0.25, 0.75] for n in names}
        state = {n: seen[f"global/{n}"][turn] - 3 * mean[n].T for n in names}
        model.load_state_dict({n: torch.from_numpy(v.astype(np.float32)) for n, v in state.items()})
        right = (model(x).argmax(1).numpy() == data["test/labels"][:25]).mean()
        assert truth["accuracy"][turn] == pytest.approx(right)
        for client in (0, 1):
            bits = 0
            for n in names:
                sent = seen[f"updates/{n}"][turn, client]
                kept = np.count_nonzero(sent)
                bits += 32 * kept + (min(sent.size, 32 * kept) if kept < sent.size else 0)
            assert truth[f"bytes/{client}"][turn] == -(-bits // 8)
    assert len(set(truth["accuracy"])) > 1


def test_accuracy_is_measured_where_it_is_asked_for(tmp_path: Path) -> None:
    truth = captured(tmp_path, evaluate=None)["truth"]
    assert "accuracy" not in truth
    assert "bytes/1" in truth


@pytest.mark.parametrize(("there", "lacks"), [("train", "test"), ("test", "train")])
def test_a_copy_without_a_needed_split_makes_it_absent(there: str, lacks: str, tmp_path: Path) -> None:
    assert captured(tmp_path, splits=(there,))["capture"] == {}
    for name in ("capture", "oracle", "truth"):
        reason = read_facts(tmp_path / f"{name}.safetensors")["absent"]
        assert (
            f"the copy of data that is here has no images of the split {lacks} (its splits: {there};"
            in reason
        )


def test_a_copy_with_too_few_private_images_makes_the_capture_absent(tmp_path: Path) -> None:
    captured(tmp_path, clients=(61,))
    reason = read_facts(tmp_path / "truth.safetensors")["absent"]
    assert "has 60 private images of the split train, the federation needs 61" in reason


def test_rows_of_the_attack_bear_their_rounds_prices(cell: Cell) -> None:
    path = cell.results / f"truth/{ORIGIN}.safetensors"
    tensors, facts = read_tensors(path)
    prices = {"accuracy": np.array([0.1, 0.5, 0.4])}
    prices |= {"bytes/0": np.array([7, 8, 9]), "bytes/1": np.array([1, 2, 3])}
    write_tensors(path, tensors | prices, facts)
    rows, _ = cell.score("pearson", "accuracy", "update_bytes")
    own = rows[rows["baseline"] == ""]
    assert own["accuracy"].tolist() == prices["accuracy"][own["round"]].tolist()
    for client in (0, 1):
        mine = own[own["client"] == client]
        assert mine["update_bytes"].tolist() == prices[f"bytes/{client}"][mine["round"]].tolist()
    assert rows.loc[rows["baseline"] != "", ["accuracy", "update_bytes"]].isna().all().all()
    lines = tabled(rows, ["accuracy", "update_bytes", "pearson"])
    sizes = lines[lines["metric"] == "update_bytes"].set_index("client")["mean"]
    assert sizes.to_dict() == {0: 8.0, 1: 2.0}


def scored(seed: int, accuracies: list[float]) -> pd.DataFrame:
    """Return rows of two clients, of 1 and 2 images, over the rounds."""
    same = {
        "dataset": "d", "victim": "v", "federation": "f", "defence": "n", "attack": "a", "seed": seed,
        "checkpoint": 0, "pass": 0, "iterations": 1, "image": 0, "status": "ok", "mse": 0.5,
    }  # fmt: skip
    return pd.DataFrame([
        same | {"client": client, "local_samples": k, "round": turn, "sample": sample, "baseline": baseline,
                "accuracy": np.nan if baseline else value}
        for turn, value in enumerate(accuracies) for client, k in ((0, 1), (1, 2)) for sample in range(k)
        for baseline in ("", "random-gradient")
    ])  # fmt: skip


def test_a_table_has_a_line_of_the_model_for_each_round() -> None:
    runs = {0: [0.1, 0.3, 0.8], 1: [0.2, 0.5, 0.6], 2: [0.15, 0.4, 0.7]}
    rows = pd.concat([scored(seed, values) for seed, values in runs.items()], ignore_index=True)
    lines = tabled(rows, ["mse", "accuracy"])
    found = lines[lines["metric"] == "accuracy"]
    assert found["round"].tolist() == [1, 2, 3]
    assert found["baseline"].tolist() == ["snapshot", "snapshot", ""]
    assert found["mean"].tolist() == pytest.approx([0.15, 0.4, 0.7])
    assert found[["client", "local_samples"]].isna().all().all()
    # Three images of a round are one model: n counts seeds.
    assert found["n"].tolist() == [3, 3, 3]
    expected = summary(np.array([0.8, 0.6, 0.7]), np.zeros(3, bool))
    assert (found["ci_low"].iloc[-1], found["ci_high"].iloc[-1]) == (expected["ci_low"], expected["ci_high"])
    assert found[["unit", "seeds"]].drop_duplicates().values.tolist() == [["model", "0 1 2"]]
    assert len(lines) == 3 + 4
