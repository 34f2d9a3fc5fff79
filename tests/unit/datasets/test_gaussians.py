"""Drawn points: what the parameters say, the same each time, and no source beside."""

from pathlib import Path

import numpy as np
from catalogued import available, spec
from torch import from_numpy

from leakbench.base.artefacts import open_tensors
from leakbench.datasets import fetch
from leakbench.federation.training.batches import to_size


def drawn(tmp_path: Path, name: str = "a", **parameters: object) -> dict[str, np.ndarray]:
    entry = spec("gaussians")
    entry["parameters"] |= parameters
    out = tmp_path / f"{name}.safetensors"
    fetch(entry, out, [tmp_path], tmp_path / "scratch")
    tensors, facts = open_tensors(out)
    assert facts["source"] == "drawn by leakbench"
    return tensors


def test_points_have_the_means_and_deviations_of_the_catalogue(tmp_path: Path) -> None:
    entry = spec("gaussians")
    tensors = drawn(tmp_path)
    for split, count in entry["counts"].items():
        points, labels, owners = (tensors[f"{split}/{name}"] for name in ("images", "labels", "clients"))
        assert (points.shape, points.dtype) == ((count, 1, 2, 1), np.float32)
        for client in (0, 1):
            for label in (0, 1):
                own = points[(owners == client) & (labels == label)].reshape(-1, 2)
                assert len(own) == count / 4
                wanted = (entry["parameters"][key][client][label] for key in ("means", "deviations"))
                mean, deviation = map(np.array, wanted)
                assert (np.abs(own.mean(0) - mean) < 5 * deviation / np.sqrt(len(own))).all()
                assert np.abs(own.std(0) / deviation - 1).max() < 0.08


def test_a_prefix_is_of_all_clients_and_classes(tmp_path: Path) -> None:
    tensors = drawn(tmp_path)
    for name in ("labels", "clients"):
        assert abs(tensors[f"train/{name}"][:1000].mean() - 0.5) < 0.1


def test_the_seed_decides(tmp_path: Path) -> None:
    first, again, other = (drawn(tmp_path, str(n), samples=50, seed=seed) for n, seed in enumerate((1, 1, 2)))
    assert np.array_equal(first["train/images"], again["train/images"])
    assert not np.array_equal(first["train/images"], other["train/images"])


def test_no_folder_of_the_users_offers_it(tmp_path: Path) -> None:
    (tmp_path / "gaussians").mkdir()
    assert not available("gaussians", [tmp_path, tmp_path / "gaussians"])


def test_coordinates_reach_the_network_as_they_are(tmp_path: Path) -> None:
    points = np.array(drawn(tmp_path, samples=50)["train/images"])
    assert to_size(from_numpy(points), None).flatten(1).tolist() == points.reshape(-1, 2).tolist()
