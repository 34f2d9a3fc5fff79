"""Words of each test set, and what each network reads in their place: a line for each word, a column for each training."""

from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.reading import PREFIX
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, MUTED, WIDTH, nothing, sheet

LINE, PICTURE, WORD, HEAD = 0.32, 0.9, 1.3, 0.4
RIGHT, WRONG = COLOURS[2], COLOURS[3]


def words_read(result: Result) -> Figure:
    """The picture of each word, the word, and what was read in its place: green if it is the word, nothing read as a dash."""
    told = result.facts.get("examples", [])
    if not told:
        return nothing(result)
    tests = list(dict.fromkeys(each["tested"] for each in told))
    ways = list(dict.fromkeys((each["dataset"], each["training"]) for each in told))
    heights = [HEAD + LINE * len(result.tensors[f"words/{tested}"]) for tested in tests]
    height = sum(heights) + 0.1
    room = (WIDTH - PICTURE - WORD - 0.5) / len(ways)

    def write(body: SubFigure, x: float, y: float, text: str, colour: str = INK, size: float = 8) -> None:
        body.text(x / WIDTH, y / height, text, color=colour, fontsize=size, va="center")

    def paint(body: SubFigure) -> None:
        top = height
        for tested, own in zip(tests, heights, strict=True):
            write(body, 0.3, top - HEAD / 2, f"of {words.dataset(tested)}", MUTED, 7.5)
            pictures = result.tensors[f"words/{tested}"]
            for column, (dataset, training) in enumerate(ways):
                left = 0.4 + PICTURE + WORD + column * room
                write(
                    body,
                    left,
                    top - HEAD / 2,
                    f"{words.dataset(dataset)},\n{training.removeprefix(PREFIX)}",
                    MUTED,
                    6.5,
                )
                found = [
                    each for each in told
                    if (each["tested"], each["dataset"], each["training"]) == (tested, dataset, training)
                ]  # fmt: skip
                for each in found[:1]:
                    for row, (word, read) in enumerate(zip(each["words"], each["read"], strict=True)):
                        write(
                            body,
                            left,
                            top - HEAD - LINE * (row + 0.5),
                            read or "–",
                            RIGHT if read == word else WRONG,
                        )
            names = next(each["words"] for each in told if each["tested"] == tested)
            for row, (picture, word) in enumerate(zip(pictures, names, strict=True)):
                bottom = top - HEAD - LINE * (row + 1) + 0.03
                write(body, 0.4 + PICTURE, bottom + LINE / 2 - 0.03, word)
                axes = body.add_axes(
                    (0.3 / WIDTH, bottom / height, PICTURE * 0.9 / WIDTH, (LINE - 0.06) / height)
                )
                axes.imshow(picture, vmin=0, vmax=255, aspect="auto")
                axes.set_axis_off()
            top -= own

    rounds = words.listed(sorted({each["round"] for each in told}))
    n = f"n = 1 run each, the model of the last round ({rounds}); the first words of each test set that the published rule counts"
    return sheet(result, height, n, paint)
