"""Points in the plane, drawn for several clients: each has a Gaussian of its own for every class."""

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
    """Draw points for each client, equally many of each class.

    means: client → class → (x, y), the centre of the Gaussian.
    deviations: client → class → (x, y), its standard deviations; the axes are independent.
    samples: the number of points of each client.
    test: the share of each client's points that is the split `test`, from 0 to 1.
    seed: of the draw.

    Returns train/images, test/images float32 [N, 1, 2, 1], the coordinates unscaled. train/labels,
    test/labels int64 [N] are the classes, train/clients, test/clients int64 [N] the clients of the points.
    Clients and classes are mixed, so that the first points of a split come from all of them.
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
