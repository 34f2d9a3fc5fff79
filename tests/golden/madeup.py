"""Made-up data sets of golden cells: blobs at a place for each class, records, points or sentences."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[2]
Spec = dict[str, Any]


def write_data(path: Path, name: str, form: Spec) -> None:
    """Write a made-up data set: blurred blobs at a place for each class, records, points, or sentences."""
    from leakbench.base.artefacts import write_tensors

    rng = np.random.default_rng(zlib.crc32(name.encode()))
    if "weights" in form:
        drawn = {key: rng.standard_normal(shape, np.float32) * 0.05 for key, shape in form["weights"].items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_tensors(path, drawn, {})
    rows, columns, channels = form["shape"]
    facts: Spec = {"dataset": name}
    tensors: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        count = form[split]
        labels = rng.permutation(np.arange(count) % form["classes"])
        if name == "gaussians":
            images = rng.normal(labels[:, None], 1.0, (count, columns)).reshape(count, 1, columns, 1)
            images = images.astype(np.float32)
            tensors[f"{split}/clients"] = rng.integers(0, 2, count)
        elif rows == 1:
            entry = yaml.safe_load((ROOT / f"config/datasets/{name}.yaml").read_text())
            if entry.get("labels") == "tokens":
                # Few tokens are frequent, as in a language.
                tokens = (form["classes"] * rng.random((count, columns)) ** 3).astype(np.int64)
                images = (tokens / form["classes"]).astype(np.float32)[:, None, :, None]
                labels = tokens[:, 1:]
            else:
                facts |= {"columns": entry["parameters"]["columns"]}
                images = _records(rng, facts["columns"], count)
        else:
            images = _pictures(rng, labels, rows, columns, channels)
        tensors |= {f"{split}/images": images, f"{split}/labels": labels.astype(np.int64)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, facts)


def _pictures(rng: np.random.Generator, labels: np.ndarray, rows: int, columns: int, channels: int) -> Any:
    """Return smooth pictures uint8 [n, rows, columns, channels], bright at a place that the class chooses."""
    n = len(labels)
    coarse = rng.random((n, rows // 4 + 1, columns // 4 + 1, channels))
    smooth = coarse.repeat(4, 1).repeat(4, 2)[:, :rows, :columns]
    angle = 2.399963 * labels[:, None, None]
    y, x = np.mgrid[:rows, :columns]
    away = (y - rows * (0.5 + 0.3 * np.sin(angle))) ** 2 + (x - columns * (0.5 + 0.3 * np.cos(angle))) ** 2
    blob = np.exp(-away / (rows * columns / 30.0))[..., None]
    fine = rng.random((n, rows, columns, channels))
    dark = 0.35 + 0.3 * rng.random((n, 1, 1, 1))
    return np.round(255 * np.clip(dark * smooth + 0.5 * blob + 0.1 * fine - 0.1, 0, 1)).astype(np.uint8)


def _records(rng: np.random.Generator, columns: Sequence[Spec], count: int) -> np.ndarray:
    """Return records float32 [n, 1, width, 1]: numbers in [0, 1] on their steps, and one category each."""
    parts = []
    for each in columns:
        (said,) = each.values()
        if isinstance(said[0], str):
            parts.append(np.eye(len(said), dtype=np.float32)[rng.integers(0, len(said), count)])
        else:
            low, high, step = map(float, said)
            steps = max(round((high - low) / step), 1)
            parts.append((rng.integers(0, steps + 1, count) / steps).astype(np.float32)[:, None])
    whole: np.ndarray = np.concatenate(parts, 1)[:, None, :, None]
    return whole
