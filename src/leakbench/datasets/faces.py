"""Sets of faces that lie in one folder per person, and have no split of their own."""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.pictures import pictures_in, read_list, read_pictures


def people_in(folder: Path) -> dict[str, list[Path]]:
    """Return person → pictures, sorted: from `labels.tsv` (columns file, identity) if there is one, else by
    folder."""
    pictures: dict[str, list[Path]] = {}
    if (folder / "labels.tsv").is_file():
        for row in read_list(folder / "labels.tsv", {"file", "identity"}):
            pictures.setdefault(row["identity"], []).append(folder / row["file"])
    else:
        pictures = {p.name: pictures_in(p) for p in folder.iterdir() if p.is_dir()}
    return {name: sorted(files) for name, files in pictures.items()}


def read_people(
    folder: Path, chosen: dict[str, list[Path]], size: int, per_person: int, test: int, note: str
) -> Found:
    """Read the first `per_person` pictures of each person, the last `test` of which are the split `test`.

    Images are scaled whole to uint8 [N, size, size, 3]; labels int64 [N] are in order of the names. Raises
    Damaged if there is no person, or no picture for either split.
    """
    if not chosen or not 0 < test < per_person:
        raise Damaged(
            folder, f"no person with {per_person} pictures, {test} of {per_person} for the test split"
        )
    names = sorted(chosen)
    tensors: dict[str, np.ndarray] = {}
    for split, part in {
        "train": slice(None, per_person - test),
        "test": slice(per_person - test, per_person),
    }.items():
        files = [file for name in names for file in chosen[name][part]]
        tensors[f"{split}/images"] = read_pictures(files, size)
        tensors[f"{split}/labels"] = np.array(
            [label for label, name in enumerate(names) for _ in chosen[name][part]], np.int64
        )
    return Found(tensors, dict.fromkeys(tensors, folder), names, note)
