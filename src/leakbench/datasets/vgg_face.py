"""VGG-Face (Parkhi et al. 2015) or VGGFace2 (Cao et al. 2018), from a folder of one folder per person.

Never downloaded: VGG-Face is a list of addresses, many of them dead, and VGGFace2 is not offered any more.
Kept are the people with most pictures, as in section 3.3.4 of Ren's thesis, the first `per_person` by name of
each; of these the last `test` are the split `test`, the others `train`.
"""

from pathlib import Path

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.faces import people_in, read_people

WHERE = "<person>/*.jpg in vgg_face_dataset, vgg-face or VGGFace2/train"
_LAYOUTS = ("vgg-face", "vgg_face_dataset", "VGGFace2/train")


def place(folder: Path) -> Path | None:
    """Return where in `folder` the data set lies, if it does: the official lists alone hold no picture."""
    here = (folder / name for name in _LAYOUTS)
    return next((path for path in here if next(path.glob("*/*.jpg"), None)), None)


def vgg_face(
    folder: Path, *, size: int = 64, people: int = 100, per_person: int = 100, test: int = 10
) -> Found:
    """Read faces scaled whole: images uint8 [N, size, size, 3], labels int64 [N] in order of the names.

    Of people with as many pictures the first by name is kept. Raises Damaged if there are fewer than `people`
    with `per_person` pictures.
    """
    found = people_in(folder)
    most = sorted(found, key=lambda name: (-len(found[name]), name))[:people]
    chosen = {name: found[name] for name in most if len(found[name]) >= per_person}
    if len(chosen) < people:
        raise Damaged(folder, f"{len(chosen)} people with at least {per_person} pictures, not {people}")
    note = f"the {people} people with most pictures of {len(found)}, the first {per_person} of each"
    return read_people(folder, chosen, size, per_person, test, note)
