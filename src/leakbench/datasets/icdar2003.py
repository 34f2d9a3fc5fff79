"""ICDAR 2003, robust word recognition (Lucas et al. 2003): words cut out of photographs of scenes.

The set is never downloaded. The reader takes the official list word.xml, which holds an `image` with a `file`
and a `tag` for each word. The archive of the training words is unpacked to icdar2003/train, that of the test
words to icdar2003/test. Words with other characters than letters and digits are left out, as is usual. The
sample of 860 words already lacks them, and it lacks words of fewer than three characters.
"""

from pathlib import Path
from xml.etree import ElementTree

from leakbench.datasets.canonical import Found, parsing
from leakbench.datasets.words import Word, listed, plain, read_words


def icdar2003(folder: Path, *, plain_words: bool = True) -> Found:
    """Read the words into the tensors that `words.arrays` describes.

    plain_words: whether words with other characters than letters and digits are left out.
    """
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
