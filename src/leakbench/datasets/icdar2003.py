"""ICDAR 2003, robust word recognition (Lucas et al. 2003): words cut out of photographs of scenes.

Never downloaded. Read is the official list word.xml, of `image`s with a `file` and a `tag`, from the archive
of the training words unpacked to icdar2003/train and that of the test words unpacked to icdar2003/test. Words
with other signs than letters and digits are left out, as is usual; the sample of 860 is without them, and
without words of fewer than three characters, already.
"""

from pathlib import Path
from xml.etree import ElementTree

from leakbench.datasets.canonical import Found, parsing
from leakbench.datasets.words import Word, listed, plain, read_words


def icdar2003(folder: Path, *, plain_words: bool = True) -> Found:
    """Read the words, only those of letters and digits if `plain_words`: tensors as `words.arrays` has
    them."""
    if (folder / "labels.tsv").is_file():
        splits, note = {"test": listed(folder)}, "sample"
    else:
        files = {split: folder / split / "word.xml" for split in ("train", "test")}
        splits, note = {split: _listed(file) for split, file in files.items() if file.is_file()}, ""
    if plain_words:
        splits = {split: plain(words) for split, words in splits.items()}
    return read_words(folder, splits, note)


def _listed(file: Path) -> list[Word]:
    with parsing(file, "a list"):
        images = list(ElementTree.parse(file).getroot().iter("image"))
        return [Word(file.parent / image.attrib["file"], image.attrib["tag"]) for image in images]
