"""ImageNet, ILSVRC 2012 (Russakovsky et al. 2015), from folders named by synset or from a sample with a list.

A whole split at this size would not fit in memory, so only the first pictures of each class are kept.
"""

import re
from pathlib import Path

from leakbench.datasets.canonical import Damaged, Found, Splits, of_splits, within
from leakbench.datasets.pictures import pictures_in, read_list, read_pictures

_SYNSET = re.compile(r"n\d{8}")
_ALL = 1000


def imagenet(folder: Path, *, resize: int = 256, size: int = 224, per_class: int = 1) -> Found:
    """Read the first pictures of each class: images uint8 [N, size, size, 3], labels int64 [N].

    resize: the length in pixels to which the short side is scaled.
    size: rows and columns of the centre that is kept of the scaled picture.
    per_class: how many pictures of each class are kept, the first by name; of a sample with a list all are
    kept.

    Pictures of `val`, of a folder without splits or of a list are the split `test`; those of `train` are
    `train`. Labels are the official class indices (synsets in order) if all 1,000 synsets are there or a list
    gives the indices. Otherwise they count the synsets that are there.
    """
    if (folder / "labels.tsv").is_file():
        return _listed(folder, resize, size)
    found: Splits = {}
    notes, classes = [], []
    splits = {"train": "train", "test": "val"} if not _synsets(folder) else {"test": ""}
    for split, name in splits.items():
        synsets = _synsets(folder / name)
        if not synsets:
            continue
        chosen = [(file, label) for label, s in enumerate(synsets) for file in pictures_in(s)[:per_class]]
        found[split] = *read_pictures(chosen, resize, size), folder / name
        classes = _official_names() if len(synsets) == _ALL else [s.name for s in synsets]
        notes.append(f"{split}: the first {per_class} by name of each of {len(synsets)} classes")
    return of_splits(found, classes, "; ".join(notes))


def _listed(folder: Path, resize: int, size: int) -> Found:
    rows = read_list(folder / "labels.tsv", {"file", "class_index", "class_name"})
    names, chosen = [""] * _ALL, []
    for row in rows:
        if not row["class_index"].isdigit() or int(row["class_index"]) >= _ALL:
            raise Damaged(folder / "labels.tsv", f"class_index '{row['class_index']}'", "test/labels")
        names[int(row["class_index"])] = row["class_name"]
        chosen.append((within(folder, folder / row["file"]), int(row["class_index"])))
    note = f"sample of {len(rows)} pictures of {sum(map(bool, names))} classes, official split unknown"
    return of_splits({"test": (*read_pictures(chosen, resize, size), folder)}, names, note)


def _synsets(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if _SYNSET.fullmatch(p.name) and p.is_dir())


def _official_names() -> list[str]:
    from torchvision.models import AlexNet_Weights

    return list(AlexNet_Weights.IMAGENET1K_V1.meta["categories"])
