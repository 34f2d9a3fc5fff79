"""ICDAR 2003, robust word recognition (Lucas et al. 2003): words cut out of photographs of scenes.

The official archives of training and test words are unpacked to icdar2003/train and icdar2003/test. The list
word.xml of each holds an `image` with a `file` and a `tag` for each word. The sample of 860 words has only
letters and digits, and no words of fewer than three characters.
"""

from pathlib import Path
from xml.etree import ElementTree

from leakbench.datasets.canonical import Found, parsing
from leakbench.datasets.words import LIST, Word, listed, plain, read_words


def icdar2003(folder: Path, *, plain_words: bool = True) -> Found:
    """Read the words into the tensors that `words.arrays` describes.

    plain_words: whether words with other characters than letters and digits are left out, as is usual.
    """
    if (folder / LIST).is_file():
        splits, note = {"test": listed(folder)}, "sample"
    else:
        files = {split: folder / split / "word.xml" for split in ("train", "test")}
        splits, note = {split: _listed(file) for split, file in files.items() if file.is_file()}, ""
    if plain_words:
        splits = {split: plain(words) for split, words in splits.items()}
    return read_words(folder, splits, note)


def _listed(file: Path) -> list[Word]:
    with parsing(file, "a list"):
        images = ElementTree.parse(file).getroot().iter("image")
        return [Word(file.parent / image.attrib["file"], image.attrib["tag"]) for image in images]
