"""How often classifiers still name the person on a reconstruction, beside the private images themselves and chance."""

import re

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from leakbench.drawing import words
from leakbench.drawing.result import Result
from leakbench.drawing.sheet import COLOURS, INK, MARGIN, WIDTH, nothing, sheet
from leakbench.drawing.tile import canvas, dead, show, write

JUDGES = {"resnet18": "ResNet-18", "densenet121": "DenseNet-121"}
COUNTS = (1, 3, 5)
ORIGINAL, HELD_OUT = "original", "-held-out"
GREY = "#8c959f"
# Inches: a condition's line, the room above and below the axes of a data set, the legend; the pictures' tiles and captions.
ROW, HEAD, AXIS, LEGEND, LEFT = 0.3, 0.3, 0.42, 0.5, 2.2
TILE, GAP, SIDE, COLUMNS = 0.72, 0.06, 0.9, 8


def rates(result: Result) -> Figure:
    """Table 3.15: a row of axes for each data set, an axes for each of top-1, 3 and 5, a line for each attack and batch.

    Points are reconstructions. Lines are the private images themselves, those that the classifiers were trained on and
    those held out, and chance; below, the faces of the first data set as the attacks reconstructed them.
    """
    metrics = [f"top{count}_{judge}" for count in COUNTS for judge in JUDGES]
    rows = result.rows[result.rows["metric"].isin(metrics)]
    own = rows[rows["baseline"] == ""]
    if own.empty:
        return nothing(result)
    own = own.assign(label=[_label(*names) for names in zip(own["attack"], own["federation"], strict=True)])
    sets = {name: list(dict.fromkeys(part["label"])) for name, part in own.groupby("dataset", sort=False)}
    tops, height = {}, 0.0
    for name, labels in sets.items():
        tops[name], height = height, height + HEAD + ROW * len(labels) + AXIS
    chart = height + LEGEND
    faces = _faces(result)
    total = chart + _depth(faces)

    def paint(body: SubFigure) -> None:
        paper = canvas(body)
        room = (WIDTH - LEFT - 0.2) / len(COUNTS)
        for name, labels in sets.items():
            write(
                paper, MARGIN, tops[name] + 0.06, words.dataset(str(name)), size=8.2, bold=True, align="left"
            )
            for column, count in enumerate(COUNTS):
                up = ROW * len(labels)
                low = 1 - (tops[name] + HEAD + up) / total
                axes = body.add_axes(((LEFT + column * room) / WIDTH, low, (room - 0.25) / WIDTH, up / total))
                of = rows["dataset"] == name
                _panel(
                    axes, own[own["dataset"] == name], rows[of], count, labels, _classes(result, str(name))
                )
                axes.set_yticks(range(len(labels)), labels if column == 0 else [""] * len(labels))
        known = {
            text: handle
            for axes in body.axes
            for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        body.legend(
            list(known.values()), list(known), loc="lower center", ncols=4, frameon=False,
            bbox_to_anchor=(0.5, 1 - chart / total),
        )  # fmt: skip
        _pictures(paper, faces, chart)

    counts = sorted(own["n"].unique())
    return sheet(
        result,
        total,
        f"n = {words.listed(counts)} reconstructions behind each point {words.steps(own)}, bars: 95 % interval; a failed "
        "reconstruction counts as the grey image that stands for it",
        paint,
    )


def _label(attack: str, federation: str) -> str:
    """Name a condition: GRNN, batch 4, held-out faces."""
    found = re.search(r"-batch(\d+)", federation)
    batch = f"{words.attack(attack)}, batch {found[1] if found else 1}"
    return f"{batch}, held-out faces" if HELD_OUT in federation else batch


def _classes(result: Result, dataset: str) -> int:
    """How many people the classifiers of a data set tell apart; 0 where the exhibit does not say."""
    return int(result.facts.get("classes", {}).get(dataset, 0))


def _panel(
    axes: Axes, own: pd.DataFrame, rows: pd.DataFrame, count: int, labels: list[str], classes: int
) -> None:
    """Draw one data set's top-`count`: `own` are the reconstructions, `rows` hold the private images too."""
    for number, (judge, name) in enumerate(JUDGES.items()):
        # The second judge's lines are thinner, so that both show where they agree.
        metric, colour, shift = f"top{count}_{judge}", COLOURS[number], (number - 0.5) * 0.36
        mine = own[own["metric"] == metric].drop_duplicates("label")
        at = mine["label"].map(labels.index) + shift
        axes.hlines(at, mine["ci_low"], mine["ci_high"], color=colour, linewidth=1.4)
        axes.plot(mine["mean"], at, "o", color=colour, markersize=4.5, label=name, clip_on=False, zorder=4)
        given = rows[(rows["metric"] == metric) & (rows["baseline"] == ORIGINAL)]
        held = given["federation"].str.contains(HELD_OUT)
        for part, style, kind in ((given[~held], "-", "trained on"), (given[held], "--", "held out")):
            if len(part):
                # Every federation draws its own images, so their means are weighted by how many they are.
                share = (part["mean"] * part["n"]).sum() / part["n"].sum()
                axes.axvline(
                    share,
                    color=colour,
                    linestyle=style,
                    linewidth=2.2 - number,
                    label=f"{name}, the images {kind}",
                )
    if classes:
        axes.axvline(count / classes, color=GREY, linestyle=":", linewidth=1.4, label="chance")
    axes.set_xlim(0, 1.03)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_xlabel(f"top-{count}: right person among {count}" if count > 1 else "top-1: right person named")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    for text in axes.get_yticklabels():
        text.set(color=INK)


def _faces(result: Result) -> list:
    """Return the panels of single images of the first data set that the classifiers were trained on."""
    single = [
        p for p in result.panels if p.about["local_samples"] == 1 and HELD_OUT not in p.about["federation"]
    ]
    return [p for p in single if p.about["dataset"] == single[0].about["dataset"]]


def _depth(faces: list) -> float:
    return HEAD + (len(faces) + 1) * (TILE + GAP) if faces else 0.0


def _pictures(paper: Axes, faces: list, top: float) -> None:
    """Draw the private faces and below them each attack's."""
    if not faces:
        return
    name = words.dataset(faces[0].about["dataset"])
    write(paper, MARGIN, top + 0.06, f"{name}, single images", size=8.2, bold=True, align="left")
    lines = [("private", faces[0].truth, [True] * len(faces[0].truth))]
    lines += [(words.attack(p.about["attack"]), p.guess, list(p.usable)) for p in faces]
    for row, (text, images, usable) in enumerate(lines):
        y = top + HEAD + row * (TILE + GAP)
        write(paper, MARGIN, y + TILE / 2 - 0.05, text, size=7, align="left")
        for column, image in enumerate(images[:COLUMNS]):
            x = MARGIN + SIDE + column * (TILE + GAP)
            if usable[column]:
                show(paper, image, x, y, TILE)
            else:
                dead(paper, x, y, TILE, "none")
