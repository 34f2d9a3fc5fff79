"""Points in the plane of several clients, each with a Gaussian of its own for every class; drawn, not
fetched."""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Found


def gaussians(
    folder: Path,
    *,
    means: list[list[list[float]]],
    deviations: list[list[list[float]]],
    samples: int,
    test: float = 0.1,
    seed: int = 0,
) -> Found:
    """Draw `samples` points for each client, of each class equally many, a share `test` of them for the test
    split.

    `means`, `deviations`: client → class → (x, y); the axes are independent. train/images, test/images are
    float32 [N, 1, 2, 1], coordinates as they are; beside the labels there is train/clients, test/clients
    int64 [N], whose each point is. Clients and classes are mixed, so that the first points of a split are of
    all of them.
    """
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[np.ndarray]] = {"images": [], "labels": [], "clients": []}
    for client, (centres, spreads) in enumerate(zip(means, deviations, strict=True)):
        labels = np.arange(samples) % len(centres)
        points = rng.normal(np.array(centres)[labels], np.array(spreads)[labels])
        drawn["images"].append(points.astype(np.float32))
        drawn["labels"].append(labels)
        drawn["clients"].append(np.full(samples, client))
    held = round(samples * test)
    tensors: dict[str, np.ndarray] = {}
    for split, part in (("test", slice(None, held)), ("train", slice(held, None))):
        chosen = {name: np.concatenate([each[part] for each in parts]) for name, parts in drawn.items()}
        order = rng.permutation(len(chosen["labels"]))
        tensors |= {f"{split}/{name}": values[order] for name, values in chosen.items()}
        tensors[f"{split}/images"] = tensors[f"{split}/images"].reshape(-1, 1, 2, 1)
    classes = [f"class {number}" for number in range(len(means[0]))]
    return Found(tensors, dict.fromkeys(tensors, folder), classes)
