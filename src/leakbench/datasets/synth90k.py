"""Synth90K, or MJSynth: rendered words of a lexicon of 90,000 (Jaderberg et al. 2014), the thesis' first
training set, of ten gigabytes.

The official layout has annotation_{train,test}.txt in mnt/ramdisk/max/90kDICT32px. These lists have a line
`./<folder>/<folder>/<number>_<word>_<number>.jpg <number>` for each picture, so the name of the picture's
file holds the word. The sample has pictures of the validation part, which become `train`, and of the test
part; all of them are read.
"""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.words import LIST, Word, listed, read_words, spread


def synth90k(
    folder: Path,
    *,
    train: Annotated[int, Field(gt=0)] | None = 25_000,
    test: Annotated[int, Field(gt=0)] | None = 10_000,
) -> Found:
    """Read words, evenly spaced over the lists, into the tensors that `words.arrays` describes.

    train: the most pictures of the split `train`; None means all.
    test: the most pictures of the split `test`; None means all.

    The official set has some pictures that cannot be read. They are left out and counted in the note.
    """
    if (folder / LIST).is_file():
        splits = {
            split: listed(folder, lambda row, part=part: row.get("source_shard") == part)  # type: ignore[misc]
            for split, part in {"train": "val", "test": "test"}.items()
        }
        return read_words(folder, splits, "sample, its validation part as train")
    notes, splits = [], {}
    for split, most in {"train": train, "test": test}.items():
        file = folder / f"annotation_{split}.txt"
        lines = file.read_text("utf-8").splitlines()
        splits[split] = [_named(file, line) for line in spread(lines, most)]
        notes.append(f"{split}: {len(splits[split])} of {len(lines)} in the list, evenly spaced")
    return read_words(folder, splits, "; ".join(notes), skip_damaged=True)


def _named(file: Path, line: str) -> Word:
    name = line.partition(" ")[0]
    parts = Path(name).stem.split("_")
    if len(parts) != 3:
        raise Damaged(file, f"the line '{line}', whose file is not called <number>_<word>_<number>")
    return Word(file.parent / name, parts[1])
