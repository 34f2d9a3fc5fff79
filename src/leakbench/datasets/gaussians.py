"""Points in the plane, drawn for several clients: each has a Gaussian of its own for every class."""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from leakbench.base.errors import UserError
from leakbench.datasets.canonical import Found


def gaussians(
    folder: Path,
    *,
    means: Annotated[list[list[list[float]]], Field(min_length=1)],
    deviations: list[list[list[float]]],
    samples: Annotated[int, Field(ge=1)],
    test: Annotated[float, Field(ge=0, le=1)] = 0.1,
    seed: Annotated[int, Field(ge=0)] = 0,
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

    Raises UserError unless means and deviations have as many numbers for every client and class.
    """
    sizes = [[[len(pair) for pair in client] for client in each] for each in (means, deviations)]
    if sizes[0] != sizes[1] or any(not client or {*client} != {2} for client in sizes[0]):
        raise UserError("gaussians: parameters: means and deviations are not two numbers for each class")
    if np.min(np.concatenate(deviations)) < 0:
        raise UserError("gaussians: parameters: a deviation is below 0")
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
