"""Words of each test set, and what each network reads in their place.

Each word has a line, and each training has a column.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from leakbench.results.figures import words
from leakbench.results.figures.facet import bare, faceted
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import word
from leakbench.results.figures.sheet import WIDTH, Body

# In inches: the line of a word, the heading of a column, and a letter of that heading. SHARES: the widths of
# the pictures with their words and of all columns together, relative to each other.
LINE, HEAD, LETTER, SHARES = 0.3, 0.75, 0.066, (1.2, 6)
RIGHT, WRONG = "#dbe9f7", "#f7d9d2"


def word_examples(result: Result) -> Body | None:
    """Draw each word's picture, the word, and what each network read in its place.

    What was read stands on blue if it is the word, and on red if it is not; a dash means nothing.
    """
    examples = result.facts.get("examples", [])
    if not examples:
        return None
    tests = list(dict.fromkeys(each["tested"] for each in examples))
    heights = [HEAD + LINE * len(result.tensors[f"words/{tested}"]) for tested in tests]

    def mark(axes: Axes, tested: str, paint: Callable[..., None]) -> None:
        paint(axes, result, tested, [each for each in examples if each["tested"] == tested])
        bare(axes)

    parts = [(tested, paint) for tested in tests for paint in (_pictures, _readings)]
    rounds = words.listed(sorted({each["round"] for each in examples}))
    note = f"n = 1 run each, the model of the last round ({rounds}); "
    note += "the first words of each test set that the published rule counts"
    return faceted(mark, parts, note, heights=heights, across=2, widths=SHARES, below=0.1)


def _pictures(axes: Axes, result: Result, tested: str, examples: Sequence[Mapping[str, Any]]) -> None:
    printed = examples[0]["words"]
    pictures, extent = np.concatenate(result.tensors[f"words/{tested}"]), (0, 1, len(printed), 0)
    axes.imshow(pictures, vmin=0, vmax=255, aspect="auto", extent=extent)
    axes.set_yticks(np.arange(len(printed)) + 0.5, printed)
    axes.set_xticks([])
    axes.set_title(textwrap.fill(f"of {word(result, 'dataset', tested)}", 20), fontsize=7)


def _readings(axes: Axes, result: Result, tested: str, examples: Sequence[Mapping[str, Any]]) -> None:
    read: dict[str, list[str]] = {}
    for each in examples:
        name = ", ".join(word(result, column, each[column]) for column in ("dataset", "training"))
        read.setdefault(name, each["read"])
    texts, letters = pd.DataFrame(read), int(0.8 * WIDTH / len(read) / LETTER)
    wrong = texts.ne(pd.Series(examples[0]["words"]), axis=0)
    look: Any = {"vmin": 0, "vmax": 1, "cmap": [RIGHT, WRONG], "cbar": False, "linewidths": 1}
    look |= {"annot_kws": {"color": "black", "fontsize": 7}, "fmt": "", "yticklabels": False}
    names = [textwrap.fill(name, letters) for name in read]
    sns.heatmap(wrong, ax=axes, annot=texts.replace("", "–"), xticklabels=names, **look)
    above: Any = {"top": False, "labeltop": True, "bottom": False, "labelbottom": False}
    axes.tick_params(axis="x", rotation=0, labelsize=6, **above)
