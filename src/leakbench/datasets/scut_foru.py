"""SCUT-FORU, English2k: words on pictures from Flickr (Zhang et al. 2016), cut out by their boxes.

The official layout has word_img/<name>.jpg and word_annotation/<name>.txt, with a line
`x, y, width, height, "word"` for each word. The lists name no split. As in code of the thesis' authors, the
first 1,000 pictures by name are `train` and the others `test`; the set's own description has 1,200 and 515
instead.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.words import Word, boxed, read_words, written


def scut_foru(folder: Path, *, train: Annotated[int, Field(gt=0)] = 1000) -> Found:
    """Read the words into the tensors that `words.arrays` describes.

    train: the number of pictures, the first by name, whose words are the split `train`; the words of the
    others are `test`.

    Raises Damaged if there are no more pictures than these, or if a line is malformed.
    """
    files = sorted((folder / "word_annotation").glob("*.txt"))
    if len(files) <= train:
        raise Damaged(folder, f"{len(files)} annotated pictures, of which {train} are for training")
    parts = {"train": files[:train], "test": files[train:]}
    splits = {split: [word for file in part for word in _annotated(file)] for split, part in parts.items()}
    return read_words(folder, splits)


def _annotated(file: Path) -> list[Word]:
    names = [file.parents[1] / "word_img" / f"{file.stem}{suffix}" for suffix in (".jpg", ".JPG")]
    picture, words = next(filter(Path.is_file, names), names[0]), []
    for line in written(file, errors="replace"):
        *numbers, text = line.split(",", 4)
        try:
            left, top, wide, high = map(float, numbers)
        except ValueError as problem:
            raise Damaged(file, f"the line '{line}', which is not x, y, width, height, word") from problem
        words.append(boxed(picture, text.strip().strip('"'), left, top, wide, high))
    return words
