"""Sets of faces that have one folder per person and no split of their own.

Such are Labeled Faces in the Wild (Huang et al. 2007, deep-funneled), VGG-Face (Parkhi et al. 2015) and
VGGFace2 (Cao et al. 2018).
"""

from pathlib import Path

from leakbench.datasets.canonical import Damaged, Found, Splits, of_splits, within
from leakbench.datasets.pictures import pictures_in, read_list, read_pictures


def people_in(folder: Path) -> dict[str, list[Path]]:
    """Return person → pictures, sorted by name."""
    if not (folder / "labels.tsv").is_file():
        return {p.name: pictures_in(p) for p in folder.iterdir() if p.is_dir()}
    pictures: dict[str, list[Path]] = {}
    for row in read_list(folder / "labels.tsv", {"file", "identity"}):
        pictures.setdefault(row["identity"], []).append(within(folder, folder / row["file"]))
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
    """Read faces, each picture scaled whole.

    size: rows and columns of an image.
    minimum: the fewest pictures of a person who is kept.
    people: how many people are kept, those with most pictures (of people with equally many the first by name;
    section 3.3.4 of Ren's thesis). Without a number all are kept.
    per_person: how many pictures of each person are kept, the first by name.
    test: how many of these pictures are the split `test`, the last by name; the others are `train`.

    Returns images uint8 [N, size, size, 3] and labels int64 [N] in the order of the people's names. Raises
    Damaged if there are fewer people with enough pictures, or if a split would have no picture.
    """
    found = people_in(folder)
    most = sorted(found, key=lambda name: (-len(found[name]), name))[:people]
    names = sorted(name for name in most if len(found[name]) >= minimum)
    if len(names) < (people or 1):
        raise Damaged(folder, f"{len(names)} people with at least {minimum} pictures, not {people or 'one'}")
    if not 0 < test < per_person:
        raise Damaged(folder, f"{test} of {per_person} pictures for the test split")
    splits: Splits = {}
    held = per_person - test
    for split, kept in {"train": slice(None, held), "test": slice(held, per_person)}.items():
        chosen = [(file, label) for label, name in enumerate(names) for file in found[name][kept]]
        splits[split] = *read_pictures(chosen, size), folder
    note = f"{len(names)} people with at least {minimum} pictures"
    if people:
        note = f"the {people} people with most pictures of {len(found)}"
    return of_splits(splits, names, f"{note}, the first {per_person} of each")
