"""Labeled Faces in the Wild (Huang et al. 2007), deep-funneled, from a folder of one folder per person.

Not downloadable any more through torchvision. Kept are the people with at least `minimum` pictures (62 with
the usual 20), the first `per_person` of each; of these the last `test` are the split `test`, the others
`train`.
"""

from pathlib import Path

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.faces import people_in, read_people

WHERE = "<person>/*.jpg in lfw-deepfunneled or lfw-py/lfw-deepfunneled"
_LAYOUTS = ("lfw", "lfw-deepfunneled", "lfw-py/lfw-deepfunneled", "lfw_62x20")


def place(folder: Path) -> Path | None:
    """Return where in `folder` the data set lies, if it does."""
    return next((folder / name for name in _LAYOUTS if (folder / name).is_dir()), None)


def lfw(folder: Path, *, size: int = 64, minimum: int = 20, per_person: int = 20, test: int = 4) -> Found:
    """Read faces scaled whole: images uint8 [N, size, size, 3], labels int64 [N] in order of the names."""
    chosen = {name: files for name, files in people_in(folder).items() if len(files) >= minimum}
    if not chosen:
        raise Damaged(folder, f"no person with {minimum} pictures, {test} of {per_person} for the test split")
    note = f"{len(chosen)} people with at least {minimum} pictures, the first {per_person} of each"
    return read_people(folder, chosen, size, per_person, test, note)
