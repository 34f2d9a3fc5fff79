"""IIIT 5K-Word: words cut out of pictures from the web (Mishra et al. 2012), 2,000 for training and 3,000 for
tests.

The official layout, version 3.0, has traindata.mat and testdata.mat beside the folders train and test. Each
of the two files holds a struct array with ImgName (such as test/1002_1.png) and GroundTruth. The sample is a
part of the split `test`.
"""

from pathlib import Path

import numpy as np

from leakbench.datasets.canonical import Found, parsing
from leakbench.datasets.words import LIST, Word, listed, read_words


def iiit5k(folder: Path) -> Found:
    """Read the words into the tensors that `words.arrays` describes."""
    if (folder / LIST).is_file():
        return read_words(folder, {"test": listed(folder)}, "sample")
    files = {split: folder / f"{split}data.mat" for split in ("train", "test")}
    return read_words(folder, {split: _described(file) for split, file in files.items() if file.is_file()})


def _described(file: Path) -> list[Word]:
    from scipy.io import loadmat

    name = file.stem
    with parsing(file, f"a struct array '{name}' of ImgName and GroundTruth"):
        entries = np.ravel(loadmat(file, variable_names=[name])[name])
        pairs = ([str(np.ravel(each[key])[0]) for key in ("ImgName", "GroundTruth")] for each in entries)
        return [Word(file.parent / picture, text) for picture, text in pairs]
