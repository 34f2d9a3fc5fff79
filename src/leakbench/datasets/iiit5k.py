"""IIIT 5K-Word: words cut out of pictures from the web (Mishra et al. 2012), 2,000 for training and 3,000 for
tests.

The set is never downloaded. The reader takes the official layout, version 3.0: traindata.mat and testdata.mat
beside the folders train and test. Each of the two files holds a struct array with ImgName (such as
test/1002_1.png) and GroundTruth.
"""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Found, parsing
from leakbench.datasets.words import Word, listed, read_words


def iiit5k(folder: Path) -> Found:
    """Read the words into the tensors that `words.arrays` describes.

    The sample is a part of the split `test`.
    """
    if (folder / "labels.tsv").is_file():
        return read_words(folder, {"test": listed(folder)}, "sample")
    splits = {}
    for split in ("train", "test"):
        if (folder / f"{split}data.mat").is_file():
            splits[split] = _described(folder / f"{split}data.mat", f"{split}data")
    return read_words(folder, splits)


def _described(file: Path, name: str) -> list[Word]:
    from scipy.io import loadmat

    with parsing(file, f"a struct array '{name}' of ImgName and GroundTruth"):
        entries = np.ravel(loadmat(file, variable_names=[name])[name])
        return [
            Word(file.parent / str(np.ravel(each["ImgName"])[0]), str(np.ravel(each["GroundTruth"])[0]))
            for each in entries
        ]
