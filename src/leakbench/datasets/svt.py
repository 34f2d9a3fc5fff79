"""Street View Text: signs in Google Street View (Wang et al. 2011), 257 words for training and 647 for tests.

The official layout has train.xml and test.xml beside the folder img. They list the words of each picture as
`taggedRectangle`s, which the reader cuts out. The sample is the whole split `test`.
"""

from pathlib import Path
from xml.etree import ElementTree

from leakbench.datasets.canonical import Found, parsing
from leakbench.datasets.words import LIST, Word, boxed, listed, read_words


def svt(folder: Path) -> Found:
    """Read the words into the tensors that `words.arrays` describes."""
    if (folder / LIST).is_file():
        return read_words(folder, {"test": listed(folder)}, "sample")
    files = {split: folder / f"{split}.xml" for split in ("train", "test")}
    return read_words(folder, {split: _tagged(file) for split, file in files.items() if file.is_file()})


def _tagged(file: Path) -> list[Word]:
    words = []
    with parsing(file, "a list"):
        for image in ElementTree.parse(file).getroot().iter("image"):
            picture = file.parent / image.findtext("imageName", "").strip()
            for each in image.iter("taggedRectangle"):
                sides = (float(each.attrib[key]) for key in ("x", "y", "width", "height"))
                words.append(boxed(picture, each.findtext("tag", "").strip(), *sides))
    return words
