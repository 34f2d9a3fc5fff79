"""Pictures of single words and their texts: what the sets for text recognition have in common.

Of each picture its pixels at 32×100 are kept, and two facts by which the thesis chooses test words: the
picture's width at a height of 32, and the length of its word before signs are taken out.
"""

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from PIL import Image

from leakbench.datasets.canonical import Damaged, Found, within
from leakbench.datasets.pictures import opened, read_list

ROWS, COLUMNS = 32, 100
LONGEST = 25
CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Fills the places of a label behind its last character.
NONE = -1
# The list of a sample, tab-separated, with a header row.
LIST = "labels.tsv"
_CODES = {character: code for code, character in enumerate(CHARACTERS)}
T = TypeVar("T")


class Word(NamedTuple):
    """A word on a picture, in the box (left, top, right, bottom in pixels), or on the whole picture."""

    file: Path
    text: str
    box: tuple[float, float, float, float] | None = None


def boxed(file: Path, text: str, left: float, top: float, wide: float, high: float) -> Word:
    return Word(file, text, (left, top, left + wide, top + high))


def written(file: Path, errors: str = "strict") -> list[str]:
    """Return the lines of a list that are not empty."""
    return [line for line in file.read_text("utf-8-sig", errors).splitlines() if line.strip()]


def codes(text: str) -> list[int]:
    """Return the places in CHARACTERS of a word's letters and digits, in either case, without other signs."""
    return [_CODES[character] for character in text.upper() if character in _CODES]


def spelt(label: Iterable[int]) -> str:
    """Return the word of a label, which holds codes padded with NONE."""
    return "".join(CHARACTERS[code] for code in label if code != NONE)


def spread(items: Sequence[T], most: int | None) -> Sequence[T]:
    """Return at most `most` of `items`, evenly spaced and in their order; None means all."""
    if most is None or len(items) <= most:
        return items
    return [items[number * len(items) // most] for number in range(most)]


def arrays(images: np.ndarray, widths: Sequence[float], texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Return the canonical arrays of pictures of words, by kind: `images`, `labels`, `widths`, `lengths`.

    Labels int64 [N, 25] are the codes of the first 25 characters, padded with NONE; lengths count signs too.
    """
    labels = np.full((len(texts), LONGEST), NONE, np.int64)
    for row, text in zip(labels, texts, strict=True):
        found = codes(text)[:LONGEST]
        row[: len(found)] = found
    return {
        "images": images,
        "labels": labels,
        "widths": np.array(widths, np.float32),
        "lengths": np.array([len(text) for text in texts], np.int64),
    }


def read_words(
    folder: Path, splits: Mapping[str, Sequence[Word]], note: str = "", *, skip_damaged: bool = False
) -> Found:
    """Read the words of each split as `arrays` describes them, under <split>/<kind>."""
    tensors: dict[str, np.ndarray] = {}
    notes = [note] if note else []
    # A picture with many words is opened once.
    whole = lru_cache(maxsize=1)(lambda file: opened(file).convert("RGB"))
    for split, words in splits.items():
        legible = [word for word in words if codes(word.text) and within(folder, word.file)]
        # The array is made in one piece from the start, because a large set fits into memory only once.
        images = np.empty((len(legible), ROWS, COLUMNS, 3), np.uint8)
        widths: list[float] = []
        texts: list[str] = []
        for word in legible:
            try:
                images[len(texts)], width = cut(word, whole(word.file))
            except Damaged:
                if not skip_damaged:
                    raise
                continue
            widths.append(width)
            texts.append(word.text)
        if not texts:
            raise Damaged(folder, f"no word with letters or digits for the split {split}")
        damaged = len(legible) - len(texts)
        left = [(len(words) - len(legible), "without letters or digits"), (damaged, "that cannot be read")]
        without = " and ".join(f"{number} {what}" for number, what in left if number)
        notes.append(f"{split}: {len(texts)} words" + (f", without {without}" if without else ""))
        tensors |= {
            f"{split}/{kind}": array for kind, array in arrays(images[: len(texts)], widths, texts).items()
        }
    return Found(tensors, dict.fromkeys(tensors, folder), list(CHARACTERS), "; ".join(notes))


def cut(word: Word, picture: Image.Image) -> tuple[np.ndarray, float]:
    """Return the word's pixels uint8 [32, 100, 3], cut out of its RGB picture, and its width at height 32."""
    columns, rows = picture.size
    left, top, right, bottom = word.box or (0, 0, columns, rows)
    if not all(map(math.isfinite, (left, top, right, bottom))):
        raise Damaged(word.file, f"a box without numbers for the word '{word.text}'")
    left, top = max(0, round(left)), max(0, round(top))
    right, bottom = min(columns, round(right)), min(rows, round(bottom))
    wide, high = right - left, bottom - top
    if wide < 1 or high < 1:
        raise Damaged(word.file, f"a box of {wide}×{high} pixels for the word '{word.text}'")
    # The picture is cropped first, because the argument `box` of resize reads pixels beside the box.
    small = picture.crop((left, top, right, bottom)).resize((COLUMNS, ROWS), Image.Resampling.BILINEAR)
    return np.asarray(small), wide * ROWS / high


def listed(folder: Path, chosen: Callable[[dict[str, str]], bool] = lambda row: True) -> list[Word]:
    """Return the words of the `chosen` rows of the LIST (columns file, word) in `folder`."""
    # A word may be a quotation mark, so quotation marks have no meaning in the list.
    rows = read_list(folder / LIST, {"file", "word"}, csv.QUOTE_NONE)
    return [Word(folder / row["file"], row["word"]) for row in rows if chosen(row)]


def plain(words: Iterable[Word]) -> list[Word]:
    """Return the words that consist of letters and digits only."""
    return [word for word in words if len(codes(word.text)) == len(word.text)]
