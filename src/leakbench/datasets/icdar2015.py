"""ICDAR 2015, incidental scene text, task 3 (Karatzas et al. 2015): 4,468 words for training and 2,077 for
tests.

The official layout has ch4_training_word_images_gt with its gt.txt, and ch4_test_word_images_gt with
Challenge4_Test_Task3_GT.txt in it or beside it, or with its own gt.txt. The lines of these lists are
`word_1.png, "word"`.
"""

import re
from pathlib import Path

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.words import Word, plain, read_words, written

_TEST = "ch4_test_word_images_gt"
_TRAIN = "ch4_training_word_images_gt"
_LISTS = {
    "train": (_TRAIN, f"{_TRAIN}/gt.txt"),
    "test": (_TEST, f"{_TEST}/Challenge4_Test_Task3_GT.txt", "Challenge4_Test_Task3_GT.txt",
    f"{_TEST}/gt.txt"),
}  # fmt: skip
_LINE = re.compile(r'\s*(?P<file>[^,]+?)\s*,\s*"(?P<word>.*)"\s*')


def icdar2015(folder: Path, *, plain_words: bool = True) -> Found:
    """Read the words into the tensors that `words.arrays` describes.

    plain_words: whether words with other characters than letters and digits are left out, so that 1,811 words
    remain for tests, as in the thesis.

    Raises Damaged if the list of the test words is missing or a line of a list is malformed.
    """
    splits = {}
    for split, (pictures, *lists) in _LISTS.items():
        file = next((folder / name for name in lists if (folder / name).is_file()), None)
        if file:
            words = [_word(folder / pictures, file, line) for line in written(file)]
            splits[split] = plain(words) if plain_words else words
        elif split == "test":
            raise Damaged(folder / lists[0], "no list of the words")
    return read_words(folder, splits)


def _word(pictures: Path, file: Path, line: str) -> Word:
    match = _LINE.fullmatch(line)
    if match is None:
        raise Damaged(file, f"the line '{line}', which is not <file>, \"<word>\"")
    return Word(pictures / match["file"], match["word"].replace('\\"', '"').replace("\\\\", "\\"))
