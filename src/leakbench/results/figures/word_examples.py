"""Words of each test set, and what each network reads in their place.

Each word has a line, and each training has a column.
"""

import textwrap
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import SubFigure

from leakbench.results.figures import words
from leakbench.results.figures.result import Result
from leakbench.results.figures.rows import word
from leakbench.results.figures.sheet import WIDTH, Body

# In inches: the line of a word, the heading of a column, and a letter of that heading. SHARES: the widths of
# the pictures with their words and of all columns together, relative to each other.
LINE, HEAD, LETTER, SHARES = 0.3, 0.75, 0.066, (1.2, 6)
RIGHT, WRONG = "#dbe9f7", "#f7d9d2"


def word_examples(result: Result) -> Body | None:
    """Draw each word's picture, the word, and what each network read in its place.

    What was read stands on blue if it is the word, and on red if it is not. A dash means that nothing was
    read.
    """
    examples = result.facts.get("examples", [])
    if not examples:
        return None
    tests = list(dict.fromkeys(each["tested"] for each in examples))
    heights = [HEAD + LINE * len(result.tensors[f"words/{tested}"]) for tested in tests]

    def paint(body: SubFigure) -> None:
        grid: Any = body.subplots(
            len(tests), 2, squeeze=False, gridspec_kw={"width_ratios": SHARES, "height_ratios": heights}
        )
        for (left, right), tested in zip(grid, tests, strict=True):
            own = [each for each in examples if each["tested"] == tested]
            printed = own[0]["words"]
            left.imshow(
                np.concatenate(result.tensors[f"words/{tested}"]),
                vmin=0,
                vmax=255,
                aspect="auto",
                extent=(0, 1, len(printed), 0),
            )
            left.set_yticks(np.arange(len(printed)) + 0.5, printed)
            left.set_xticks([])
            left.set_title(textwrap.fill(f"of {word(result, 'dataset', tested)}", 20), fontsize=7)
            read: dict[str, list[str]] = {}
            for each in own:
                name = ", ".join(word(result, column, each[column]) for column in ("dataset", "training"))
                read.setdefault(name, each["read"])
            texts = pd.DataFrame(read)
            letters = int(0.8 * WIDTH / len(read) / LETTER)
            sns.heatmap(
                texts.ne(pd.Series(printed), axis=0),
                ax=right,
                vmin=0,
                vmax=1,
                cmap=[RIGHT, WRONG],
                cbar=False,
                linewidths=1,
                annot=texts.replace("", "–"),
                fmt="",
                annot_kws={"color": "black", "fontsize": 7},
                yticklabels=False,
                xticklabels=[textwrap.fill(name, letters) for name in read],
            )
            right.tick_params(
                axis="x", top=False, labeltop=True, bottom=False, labelbottom=False, rotation=0, labelsize=6
            )
            for axes in (left, right):
                axes.tick_params(length=0)
                axes.grid(visible=False)

    rounds = words.listed(sorted({each["round"] for each in examples}))
    note = f"n = 1 run each, the model of the last round ({rounds}); "
    note += "the first words of each test set that the published rule counts"
    return Body(sum(heights) + 0.1, note, paint)
