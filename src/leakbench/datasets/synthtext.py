"""SynthText in the wild: words drawn into photographs (Gupta et al. 2016), the thesis' second training set,
of 41 gigabytes.

The official layout has gt.mat beside the folders of pictures. It holds the names `imnames` of the pictures,
the corners `wordBB` [2, 4, words] of each picture's words, and the texts `txt` of the words, several to a
string. A word is cut out by the upright box around its corners, as in the thesis.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from leakbench.datasets.canonical import Damaged, Found, parsing
from leakbench.datasets.words import LIST, Word, listed, read_words, spread


def synthtext(
    folder: Path,
    *,
    train: Annotated[int, Field(gt=0)] | None = 25_000,
    test: Annotated[float, Field(gt=0, lt=1)] = 0.02,
) -> Found:
    """Read words that are evenly spaced over the set into the tensors that `words.arrays` describes.

    train: the most words of the split `train`; None means all.
    test: the share of the words read that is the split `test`, the last of them. The set itself has no split.

    Words that cannot be cut out are left out and counted in the note.
    """
    most = train if train is None else round(train / (1 - test))
    if (folder / LIST).is_file():
        every = listed(folder)
        chosen, count = spread(every, most), len(every)
    else:
        chosen, count = _described(folder / "gt.mat", most)
    held = max(1, round(len(chosen) * test))
    splits = {"train": chosen[:-held], "test": chosen[-held:]}
    note = f"{len(chosen)} of {count} words, evenly spaced"
    return read_words(folder, splits, note, skip_damaged=True)


def _described(file: Path, most: int | None) -> tuple[list[Word], int]:
    """Return at most `most` words, evenly spaced, and how many words there are in all."""
    from scipy.io import loadmat

    names = ("imnames", "wordBB", "txt")
    with parsing(file, f"a table of {', '.join(names)}"):
        found = loadmat(file, variable_names=list(names))
        columns = [np.ravel(found[name]) for name in names]
        pictures = list(zip(*columns, strict=True))
    count = sum(corners.size // 8 for _, corners, _ in pictures)
    # Objects for all words would fill the memory.
    wanted = set(spread(range(count), most))
    chosen, number = [], 0
    for name, corners, texts in pictures:
        words = [word for text in np.ravel(texts) for word in str(text).split()]
        boxes = corners.reshape(2, 4, -1)
        if len(words) != boxes.shape[2]:
            raise Damaged(file, f"{len(words)} words in {boxes.shape[2]} boxes for {np.ravel(name)[0]}")
        for word, (x, y) in zip(words, boxes.transpose(2, 0, 1), strict=True):
            if number in wanted:
                box = (float(x.min()), float(y.min()), float(x.max()), float(y.max()))
                chosen.append(Word(file.parent / str(np.ravel(name)[0]), word, box))
            number += 1
    return chosen, count
