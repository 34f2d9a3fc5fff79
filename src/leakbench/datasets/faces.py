"""Sets of faces that lie in one folder per person, and have no split of their own.

torchvision no longer downloads Labeled Faces in the Wild (Huang et al. 2007, deep-funneled). VGG-Face (Parkhi
et al. 2015) is a list of addresses, many of them dead. VGGFace2 (Cao et al. 2018) is no longer offered.
"""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found, within
from leakbench.datasets.pictures import pictures_in, read_list, read_pictures


def people_in(folder: Path) -> dict[str, list[Path]]:
    """Return person → pictures, sorted: from `labels.tsv` (columns file, identity) if there is one, else by
    folder."""
    pictures: dict[str, list[Path]] = {}
    if (folder / "labels.tsv").is_file():
        for row in read_list(folder / "labels.tsv", {"file", "identity"}):
            pictures.setdefault(row["identity"], []).append(within(folder, folder / row["file"]))
    else:
        pictures = {p.name: pictures_in(p) for p in folder.iterdir() if p.is_dir()}
    return {name: sorted(files) for name, files in pictures.items()}


def faces(
    folder: Path,
    *,
    size: int = 64,
    minimum: int = 20,
    people: int | None = None,
    per_person: int = 20,
    test: int = 4,
) -> Found:
    """Read faces scaled whole: images uint8 [N, size, size, 3], labels int64 [N] in order of the names.

    Kept are the people with at least `minimum` pictures; with `people`, that number of them, who have most
    (of people with as many the first by name; section 3.3.4 of Ren's thesis). Kept of each are the first
    `per_person` pictures by name, of which the last `test` are the split `test`, the others `train`. Raises
    Damaged if there are fewer people, or no picture for either split.
    """
    found = people_in(folder)
    most = sorted(found, key=lambda name: (-len(found[name]), name))[:people]
    names = sorted(name for name in most if len(found[name]) >= minimum)
    if len(names) < (people or 1):
        raise Damaged(folder, f"{len(names)} people with at least {minimum} pictures, not {people or 'one'}")
    if not 0 < test < per_person:
        raise Damaged(folder, f"{test} of {per_person} pictures for the test split")
    tensors: dict[str, np.ndarray] = {}
    held = per_person - test
    for split, kept in {"train": slice(None, held), "test": slice(held, per_person)}.items():
        chosen = [(file, label) for label, name in enumerate(names) for file in found[name][kept]]
        tensors[f"{split}/images"] = read_pictures([file for file, _ in chosen], size)
        tensors[f"{split}/labels"] = np.array([label for _, label in chosen], np.int64)
    note = f"{len(names)} people with at least {minimum} pictures"
    if people:
        note = f"the {people} people with most pictures of {len(found)}"
    return Found(tensors, dict.fromkeys(tensors, folder), names, f"{note}, the first {per_person} of each")
