"""Words of each test set, and what each network reads in their place: a line for each word, a column for each
training."""

import textwrap

from matplotlib.figure import SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import INK, MUTED, WIDTH, Body

# Inches; LETTER: a letter of a heading.
LINE, PICTURE, WORD, HEAD, LETTER = 0.32, 0.9, 1.3, 0.62, 0.062
RIGHT, WRONG = INK, "#a40e26"


def word_examples(result: Result) -> Body | None:
    """Draw each word's picture, the word, and what was read in its place: black if it is the word, red if
    not, a dash for nothing."""
    told = result.facts.get("examples", [])
    if not told:
        return None
    tests = list(dict.fromkeys(each["tested"] for each in told))
    ways = list(dict.fromkeys((each["dataset"], each["training"]) for each in told))
    heights = [HEAD + LINE * len(result.tensors[f"words/{tested}"]) for tested in tests]
    height = sum(heights) + 0.1
    room = (WIDTH - PICTURE - WORD - 0.5) / len(ways)

    def paint(body: SubFigure) -> None:
        def write(x: float, y: float, text: str, colour: str = INK, size: float = 8) -> None:
            body.text(x / WIDTH, y / height, text, color=colour, fontsize=size, va="center")

        top = height
        for tested, own in zip(tests, heights, strict=True):
            pictures = result.tensors[f"words/{tested}"]
            lines = [top - HEAD - LINE * (row + 0.5) for row in range(len(pictures))]
            names = next(each["words"] for each in told if each["tested"] == tested)
            write(0.3, top - HEAD / 2, f"of {words.dataset(tested)}", MUTED, 7.5)
            for y, picture, word in zip(lines, pictures, names, strict=True):
                place = (0.3 / WIDTH, (y - 0.13) / height, 0.9 * PICTURE / WIDTH, 0.26 / height)
                axes = body.add_axes(place)
                axes.imshow(picture, vmin=0, vmax=255, aspect="auto")
                axes.set_axis_off()
                write(0.4 + PICTURE, y, word)
            for column, (dataset, training) in enumerate(ways):
                left = 0.4 + PICTURE + WORD + column * room
                name = textwrap.fill(
                    f"{words.dataset(dataset)}, {words.training(training)}", int(room / LETTER)
                )
                write(left, top - HEAD / 2, name, MUTED, 6.5)
                where = (tested, dataset, training)
                found = [
                    each for each in told if (each["tested"], each["dataset"], each["training"]) == where
                ]
                for each in found[:1]:
                    for y, word, read in zip(lines, each["words"], each["read"], strict=True):
                        write(left, y, read or "–", RIGHT if read == word else WRONG)
            top -= own

    rounds = words.listed(sorted({each["round"] for each in told}))
    n = f"n = 1 run each, the model of the last round ({rounds}); "
    n += "the first words of each test set that the published rule counts"
    return Body(height, n, paint)
