"""Tables of records in text files with commas: each line has numbers and categories and, last, a class."""

import csv
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from leakbench.datasets.canonical import Damaged, Found, parsing, present, reading
from leakbench.datasets.columns import Column, columns_of, encode

# The most bytes of a file, and the most letters of a value that a message quotes.
MOST, QUOTED = 1 << 26, 40


def records(
    folder: Path,
    *,
    columns: list[dict[str, list[float | str]]],
    classes: list[list[str]],
    files: dict[str, str],
    header: Annotated[int, Field(ge=0)] = 0,
    held_out: Annotated[int, Field(ge=2)] | None = None,
) -> Found:
    """Read tables: <split>/images float32 [N, 1, width, 1] in [0, 1], <split>/labels int64 [N].

    columns: the columns of a line except the last, each a name with low, high and step of its numbers, or
    with its categories.
    classes: for each class its name and the other words for it in the last column.
    files: split → file.
    header: how many lines precede the first record.
    held_out: every record of the split `train` whose position is a multiple of this number goes to the split
    `test`, beginning with the first record. Without a number none goes there.

    Empty lines and lines that begin with `|` are no records. Raises Damaged, with the number of the line, for
    a record that does not fit.
    """
    known = columns_of(columns)
    words = {word: label for label, each in enumerate(classes) for word in each}
    tensors: dict[str, np.ndarray] = {}
    for split, name in files.items():
        with reading(f"{split}/images"):
            images, labels = _read(present(folder / name), known, words, header)
        kept = {split: slice(None)}
        if held_out:
            test = np.arange(len(labels)) % held_out == 0
            kept = {"train": ~test, "test": test}
        for part, rows in kept.items():
            tensors |= {f"{part}/images": images[rows], f"{part}/labels": labels[rows]}
    where = {name: folder / files.get(name.partition("/")[0], files["train"]) for name in tensors}
    return Found(tensors, where, [each[0] for each in classes], columns=columns)


def _read(
    file: Path, columns: list[Column], words: dict[str, int], header: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a file's records as images and labels."""
    if file.stat().st_size > MOST:
        raise Damaged(file, f"a table of more than {MOST} bytes")
    names = [*(column.name for column in columns), ""]
    with parsing(file, "a table"), file.open(newline="", encoding="utf-8") as stream:
        lines = csv.reader(stream, skipinitialspace=True, quoting=csv.QUOTE_NONE)
        found = {n: line for n, line in enumerate(lines, 1) if n > header and line and line[0][:1] != "|"}
    if not found:
        raise Damaged(file, "a table without records")
    for number, line in found.items():
        if len(line) != len(names):
            raise Damaged(file, f"line {number}: {len(line)} values, not {len(names)}")
    table = pd.DataFrame.from_dict(found, orient="index", columns=names)
    vectors, labels = encode(table, columns), table[""].map(words)
    for column in columns:
        wrong = np.isnan(vectors[:, column.place]).any(1)
        if wrong.any():
            fit = f"one of {len(column.values)} categories"
            if not column.values:
                fit = f"a number from {column.low:g} to {column.high:g}"
            raise _misfit(file, table[column.name][wrong], f"{column.name} is not {fit}")
    if labels.isna().any():
        raise _misfit(file, table[""][labels.isna()], "the class is not known")
    return vectors[:, None, :, None], labels.to_numpy(np.int64)


def _misfit(file: Path, values: "pd.Series[str]", what: str) -> Damaged:
    return Damaged(file, f"line {values.index[0]}: {what}: {values.iloc[0][:QUOTED]!r}")
