"""Running text as sentences of equally many tokens, cut by a tokenizer that is made of the text itself."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from leakbench.datasets.canonical import Damaged, Found, parsing, present

# A word is a run of letters or digits. Every other sign that is no space is a token of its own.
WORDS = re.compile(r"[^\W_]+|[^\w\s]|_")
# The most bytes of a file.
MOST = 1 << 26


def text(
    folder: Path,
    *,
    files: Annotated[tuple[str, ...], Field(min_length=1)],
    separator: Annotated[str, Field(min_length=1)],
    length: Annotated[int, Field(ge=3)] = 16,
    vocabulary: Annotated[int, Field(ge=2)] = 2048,
    held_out: Annotated[int, Field(ge=2)] = 5,
) -> Found:
    """Read text: <split>/images float32 [N, 1, length, 1] of tokens, <split>/labels int64 [N, length - 1].

    Each text is cut into sentences of `length` tokens, and what is left over is dropped. A token is stored as
    its number divided by the size of the vocabulary (`networks.layers.tokens` reads it back). A label is the
    token that follows. The vocabulary has the signs and the most frequent words of public text, `train`.

    files: names of files in the folder, each a text in UTF-8.
    separator: the line between two texts of a file.
    length: the number of tokens of a sentence.
    vocabulary: the number of different tokens.
    held_out: every text whose position is a multiple of this number goes to the split `test`, beginning with
    the first.

    Raises Damaged for a file that is no text, and for text that is too short for a sentence or has more
    signs than the vocabulary.
    """
    texts = [words(each) for name in files for each in _texts(present(folder / name), separator)]
    return cut(folder, texts, length, vocabulary, held_out)


def cut(folder: Path, texts: Sequence[Sequence[str]], length: int, vocabulary: int, held_out: int) -> Found:
    """Return words and signs of texts as sentences of tokens; the other arguments are those of `text`."""
    splits = {"train": [each for n, each in enumerate(texts) if n % held_out], "test": texts[::held_out]}
    known = tokenizer(splits["train"], {sign for each in texts for word in each for sign in word}, vocabulary)
    if len(known) > vocabulary:
        raise Damaged(folder, f"text of {len(known)} signs", expected=f"at most {vocabulary}")
    numbers = {token: number for number, token in enumerate(known)}
    tensors: dict[str, np.ndarray] = {}
    for split, own in splits.items():
        coded = [encoded(each, numbers) for each in own]
        rows = [each[i : i + length] for each in coded for i in range(0, len(each) - length + 1, length)]
        if not rows:
            raise Damaged(folder, f"no text of {length} tokens for the split {split}")
        tokens = np.array(rows, np.int64)
        tensors[f"{split}/images"] = (tokens / vocabulary).astype(np.float32)[:, None, :, None]
        tensors[f"{split}/labels"] = tokens[:, 1:].copy()
    return Found(tensors, dict.fromkeys(tensors, folder), known)


def words(line: str) -> list[str]:
    """Return the words and signs of a text, in small letters."""
    return WORDS.findall(line.lower())


def tokenizer(texts: Iterable[Sequence[str]], signs: Iterable[str], most: int) -> list[str]:
    """Return all signs and the most frequent words, of equals the first by name, `most` tokens in all."""
    single = sorted(signs)
    counts = Counter(word for each in texts for word in each if len(word) > 1)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))
    return [*single, *frequent[: max(0, most - len(single))]]


def encoded(text: Iterable[str], numbers: Mapping[str, int]) -> list[int]:
    """Return the numbers of a text's tokens; an unknown word falls into the longest pieces that are known."""
    out = []
    for word in text:
        while word:
            end = next(end for end in range(len(word), 0, -1) if word[:end] in numbers)
            out.append(numbers[word[:end]])
            word = word[end:]
    return out


def _texts(file: Path, separator: str) -> list[str]:
    if file.stat().st_size > MOST:
        raise Damaged(file, f"a text of more than {MOST} bytes")
    with parsing(file, "a text"):
        return file.read_text(encoding="utf-8").split(f"\n{separator}\n")
