"""CIFAR-100 (Krizhevsky 2009): colour images of 32 x 32, a hundred fine classes.

The reader knows the official Python version (with the md5 that torchvision knows), the official binary
version, and the sample files `cifar100_aux10k.npz` and `cifar100_eval10k.npz`, which are not the official
splits.
"""

from pathlib import Path

import numpy as np

from leakbench.base.whole import file_digest
from leakbench.datasets.canonical import Damaged, Found, Splits, of_splits, parsing, present, reading
from leakbench.datasets.cifar10 import read_binary, read_python
from leakbench.datasets.unpickle import read_pickle

_MD5 = {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}
_SAMPLES = {"train": "cifar100_aux10k.npz", "test": "cifar100_eval10k.npz"}
_CLASSES = 100


def cifar100(folder: Path) -> Found:
    """Read the two splits of `folder`: images uint8 [N, 32, 32, 3], fine labels int64 [N] in 0..99."""
    if any(folder.glob("*.npz")):
        return _sample(folder)
    binary = any(folder.glob("*.bin"))
    found: Splits = {}
    for split, md5 in _MD5.items():
        with reading(f"{split}/images"):
            file = present(folder / (f"{split}.bin" if binary else split))
            if binary:
                images, labels = read_binary(file, label_bytes=2)
            elif (own := file_digest(file, "md5")) != md5:
                raise Damaged(file, f"md5 {own}", expected=f"md5 {md5}")
            else:
                images, labels = read_python(file, "fine_labels")
        found[split] = images, labels, file
    note = "official binary version" if binary else "official Python version"
    return of_splits(found, _names(folder, binary), note)


def _names(folder: Path, binary: bool) -> list[str]:
    file = folder / ("fine_label_names.txt" if binary else "meta")
    if not file.is_file():
        return [str(number) for number in range(_CLASSES)]
    names = file.read_text("utf-8").split() if binary else read_pickle(file)["fine_label_names"]
    if len(names) != _CLASSES:
        raise Damaged(file, f"{len(names)} class names of {_CLASSES}")
    return [str(name) for name in names]


def _sample(folder: Path) -> Found:
    found: Splits = {}
    notes, classes = [], []
    for split, name in _SAMPLES.items():
        file = folder / name
        if not file.is_file():
            continue
        with (
            reading(f"{split}/images"),
            parsing(file, "an npz"),
            np.load(file, allow_pickle=False) as arrays,
        ):
            images, labels = arrays["images"], arrays["fine_labels"].astype(np.int64)
            known = int((arrays["official_index"] >= 0).sum())
            classes = [str(name) for name in arrays["fine_label_names"]]
        found[split] = images, labels, file
        notes.append(f"{name}: {known} official {split} images, {len(images) - known} of unknown split")
    if not found:
        raise Damaged(folder / _SAMPLES["test"], "no such file", "test/images")
    return of_splits(found, classes, "; ".join(notes))
