"""Labeled Faces in the Wild (Huang et al. 2007), deep-funneled, from a folder of one folder per person.

Not downloadable any more through torchvision. Kept are the people with at least `minimum` pictures (62 with
the usual 20), the first `per_person` of each; of these the last `test` are the split `test`, the others
`train`.
"""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.pictures import pictures_in, read_list, read_pictures

WHERE = "<person>/*.jpg in lfw-deepfunneled or lfw-py/lfw-deepfunneled"
_LAYOUTS = ("lfw", "lfw-deepfunneled", "lfw-py/lfw-deepfunneled", "lfw_62x20")


def place(folder: Path) -> Path | None:
    """Return where in `folder` the data set lies, if it does."""
    return next((folder / name for name in _LAYOUTS if (folder / name).is_dir()), None)


def lfw(folder: Path, *, size: int = 64, minimum: int = 20, per_person: int = 20, test: int = 4) -> Found:
    """Read faces scaled whole: images uint8 [N, size, size, 3], labels int64 [N] in order of the names."""
    if (folder / "labels.tsv").is_file():
        rows = read_list(folder / "labels.tsv", {"file", "identity"})
        pictures: dict[str, list[Path]] = {}
        for row in rows:
            pictures.setdefault(row["identity"], []).append(folder / row["file"])
    else:
        pictures = {p.name: pictures_in(p) for p in folder.iterdir() if p.is_dir()}
    people = sorted(name for name, files in pictures.items() if len(files) >= minimum)
    if not people or not 0 < test < per_person:
        raise Damaged(folder, f"no person with {minimum} pictures, {test} of {per_person} for the test split")
    chosen = {name: sorted(pictures[name])[:per_person] for name in people}
    tensors: dict[str, np.ndarray] = {}
    for split, part in {
        "train": slice(None, per_person - test),
        "test": slice(per_person - test, None),
    }.items():
        files = [file for name in people for file in chosen[name][part]]
        tensors[f"{split}/images"] = read_pictures(files, size)
        tensors[f"{split}/labels"] = np.array(
            [label for label, name in enumerate(people) for _ in chosen[name][part]], np.int64
        )
    note = f"{len(people)} people with at least {minimum} pictures, the first {per_person} of each"
    return Found(tensors, dict.fromkeys(tensors, folder), people, note)
