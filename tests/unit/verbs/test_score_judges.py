"""Scores of judges: who is on the reconstructions, on the private images, on the null baselines."""

from pathlib import Path

import numpy as np
import pytest
import torch
from cell import Cell, tabled

from leakbench.base.artefacts import read_tensors, write_tensors
from leakbench.base.errors import UserError
from leakbench.networks.victims.file import load_victim

JUDGES = ("densenet121-faces", "resnet18-faces")
METRICS = ("top1_resnet18", "top3_resnet18", "top1_densenet121")


@pytest.fixture
def judges(cell: Cell) -> list[Path]:
    """The cell's own untrained network, in the place of either judge, and one whose weights are turned
    round."""
    tensors, facts = read_tensors(cell.results / "victims/made/victim/0.safetensors")
    paths = [cell.results / f"victims/made/{name}/0.safetensors" for name in JUDGES]
    write_tensors(paths[0], {name: -value for name, value in tensors.items()}, facts)
    write_tensors(paths[1], tensors, facts)
    return paths


def told(path: Path, images: np.ndarray, labels: np.ndarray, count: int) -> list[float]:
    """Return whether each label is among the highest answers, by torch's own order."""
    model, _ = load_victim(path)
    with torch.no_grad():
        first = model(torch.from_numpy(images)).topk(count).indices.numpy()
    return [float(label in row) for label, row in zip(labels, first, strict=True)]


def test_a_judge_is_asked_about_each_matched_reconstruction(cell: Cell, judges: list[Path]) -> None:
    rows, facts = cell.score(*METRICS, "mse", judges=JUDGES, files=judges)
    assert (facts["left_out"], facts["classes"]) == ("", 10)
    own = rows[(rows["baseline"] == "") & (rows["client"] == 0)].set_index(["round", "sample"])
    guess, label = cell.truth(0)[0], cell.index[0][0] % 10
    for path, judge in zip(judges, ("densenet121", "resnet18"), strict=True):
        assert own.loc[0, f"top1_{judge}"].tolist() == told(path, guess, label, 1)
    assert own.loc[0, "top3_resnet18"].tolist() == told(judges[1], guess, label, 3)
    # A failed reconstruction counts, as the grey image that stands for it.
    grey = np.full((2, 1, 8, 8), 0.5, np.float32)
    assert own.loc[2, "status"].tolist() == ["nothing"] * 2
    assert own.loc[2, "top3_resnet18"].tolist() == told(judges[1], grey, cell.index[0][2] % 10, 3)


@pytest.mark.parametrize("matching", ["best", "hungarian"])
def test_the_private_images_themselves_are_a_baseline(cell: Cell, judges: list[Path], matching: str) -> None:
    rows, _ = cell.score(*METRICS, "mse", matching=matching, judges=JUDGES, files=judges)
    for client in (0, 1):
        given = rows[(rows["baseline"] == "original") & (rows["client"] == client)]
        images, labels = cell.pixels[cell.index[client].ravel()], cell.index[client].ravel() % 10
        assert given["image"].tolist() == cell.index[client].ravel().tolist()
        assert (given["pearson"] > 0.999).all()
        assert given["top3_resnet18"].tolist() == told(judges[1], images, labels, 3)
        # What compares images with themselves says nothing.
        assert given["mse"].isna().all()
    table = tabled(rows, [*METRICS, "mse"])
    assert set(table.loc[table["baseline"] == "original", "metric"]) == set(METRICS)
    assert {"random-gradient", "random-noise", "dataset-mean"} < set(table["baseline"])


def test_without_judges_there_is_no_such_baseline(cell: Cell) -> None:
    rows, facts = cell.score("mse")
    assert "original" not in set(rows["baseline"])
    assert facts["classes"] == 0


def test_an_absent_judge_leaves_out_only_what_asks_it(cell: Cell, judges: list[Path]) -> None:
    write_tensors(judges[0], {}, {"absent": "no such data"})
    rows, facts = cell.score(*METRICS, "mse", judges=JUDGES, files=judges)
    assert facts["left_out"] == "no such data"
    assert "top1_densenet121" not in rows
    assert rows.loc[rows["baseline"] == "original", "top1_resnet18"].notna().all()
    assert rows.loc[rows["baseline"] == "", "mse"].notna().all()


def test_a_missing_judge_is_named(cell: Cell, judges: list[Path]) -> None:
    with pytest.raises(UserError, match="--judges: no file of densenet121-faces"):
        cell.score(*METRICS, judges=JUDGES[::-1], files=judges[1:])
