"""Pages of measurements, and texts that explain differences: every value with an interval is recorded, or the
text says that it is not.

tests/unit/findings.csv says of which recorded row each interval is. Once a text is edited,
`python tests/unit/test_findings.py` writes this file anew and prints every choice that it made.
"""

import csv
import itertools
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from leakbench.metrics.interval import paired
from leakbench.papers.work import read_papers

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = Path(__file__).with_name("findings.csv")
NUMBER = r"[-−]?\d*\.?\d+"
# "0.94 (0.92 to 0.96": the value stands before the bracket, at most this number of characters.
INTERVAL = re.compile(rf"\(({NUMBER}) to ({NUMBER})")
BEFORE = 56
# A paragraph with one of these has numbers of which no table is kept.
UNRECORDED = ("not recorded", "outside the pipeline")
# What two attacks share that are compared on the same updates.
UPDATE = ("dataset", "victim", "federation", "defence", "checkpoint", "client", "convention")
# Only a paragraph with one of these may mean a moment on the way of a search or a training.
MOMENTS = ("iteration", "round", "step")
# What tells no row from another.
STATISTICS = {"mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate", "unit"}
TOLD = ["experiment", "scale", "row", "mean", "ci_low", "ci_high", "moment"]
# Attack, as the texts call it → how the names of its variants begin. The longest name counts.
ATTACKS = {
    "AGIC": ("agic", "sme-brief-layer-weights"), "InvG": ("invg",), "GRNN": ("grnn",), "GGL": ("ggl",),
    "iDLG": ("idlg", "labels-idlg"), "DLG": ("dlg",), "DLG-Adam": ("dlg-adam",), "Fidel": ("fidel", "prop"),
    "SPEAR": ("spear",), "class mean": ("class-mean",), "RLU": ("labels-rlu",), "iLRG": ("labels-ilrg",),
    "LLG": ("labels-llg",), "ZLG": ("labels-zlg",), "SME": ("sme",), "DLF": ("dlf",),
}  # fmt: skip
NAMES = re.compile(rf"\b({'|'.join(sorted(ATTACKS, key=len, reverse=True))})\b")


class Interval(NamedTuple):
    """An interval of a page.

    experiments: those that its section names.
    before: the numbers before it, the nearest last.
    low, high: its bounds.
    moment: whether it may be of a moment before the end.
    words: what stands before it, and itself.
    place: its sentence, or its table's head and line, without any interval; and its turn in it.
    cell: what names its attack in a table: its own cell, and the head of its column.
    around: the paragraph.
    """

    experiments: frozenset[str]
    before: tuple[str, ...]
    low: str
    high: str
    moment: bool
    words: str
    place: tuple[str, int] = ("", 0)
    cell: str = ""
    around: str = ""

    @property
    def key(self) -> str:
        """The place, and no value: whoever exchanges two names has another place."""
        return f"{sha256(self.place[0].encode()).hexdigest()[:12]}-{self.place[1]}"


def labelled(rows: pd.DataFrame) -> list[str]:
    """Return what tells each row from the others of its table."""
    names = [
        name for name in rows if name not in STATISTICS | {"experiment", "scale", "file", "row", "moment"}
    ]
    text = rows[names].astype(str).where(rows[names].notna(), "")
    return [
        "; ".join(f"{name}={v.removesuffix('.0')}" for name, v in zip(names, values, strict=True) if v)
        for values in text.itertuples(index=False)
    ]


def recorded() -> pd.DataFrame:
    found = []
    for path in sorted((ROOT / "reference").glob("*/*.csv")):
        rows = pd.read_csv(path, low_memory=False)
        told = {"experiment": path.stem, "scale": path.parent.name, "row": labelled(rows)}
        found.append(rows.assign(**told, moment=rows["baseline"] == "snapshot")[TOLD])
    for path in sorted((ROOT / "reference").glob("*.csv")):
        rows = pd.read_csv(path)
        row = rows["line"] + "; metric=" + rows["metric"] + "; convention=" + rows["convention"]
        found.append(rows.assign(scale=path.stem, row=row, moment=False)[TOLD])
    return pd.concat(found, ignore_index=True).replace([np.inf, -np.inf], np.nan).dropna()


@cache
def known() -> dict[str, pd.DataFrame]:
    return {str(name): rows for name, rows in recorded().groupby("experiment")}


@cache
def of(experiments: frozenset[str]) -> pd.DataFrame:
    return pd.concat(
        [pd.DataFrame(columns=TOLD), *(known()[name] for name in experiments if name in known())]
    )


@cache
def differences(experiment: str) -> pd.DataFrame:
    """Return the same columns for the paired differences in PSNR of every two attacks on the same updates."""
    path = ROOT / "reference" / "standard" / f"{experiment}.parquet"
    found = []
    asked = [("baseline", "==", ""), ("metric", "==", "psnr")]
    trials = pd.read_parquet(path, filters=asked) if path.exists() else pd.DataFrame(columns=[*UPDATE])
    names = [name for name in UPDATE if name in trials]
    for values, same in trials.groupby(names):
        attacks = [own.set_index("trial") for _, own in same.groupby("attack")]
        for a, b in itertools.permutations(attacks, 2):
            mean, low, high, _ = paired(a["value"].to_dict(), b["value"].to_dict(), a["cluster"].to_dict())
            row = "; ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
            row += f"; attack={a['attack'].iloc[0]}; less={b['attack'].iloc[0]}; metric=psnr"
            found.append((experiment, "standard", row, mean, low, high, False))
    return pd.DataFrame(found, columns=TOLD).dropna()


def intervals(text: str) -> list[Interval]:
    """Return every interval of a page but those of unrecorded paragraphs.

    A table belongs to the paragraph above it.
    """
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        experiments = frozenset(re.findall(r"`([a-z0-9-]+)`", section))
        unrecorded = moment = False
        above, title = "", ""
        for paragraph in section.split("\n\n"):
            words = " ".join(paragraph.split())
            table = words.startswith("|")
            if words.startswith("#"):
                title = words
            if not table:
                unrecorded = any(mark in words for mark in UNRECORDED)
                moment = any(mark in words for mark in MOMENTS)
                above = f"{above} {words}" if words.startswith("- ") else words
            if unrecorded:
                continue
            may = moment or any(mark in words for mark in MOMENTS)
            own = in_table(paragraph, experiments, may, above) if table else within(words, experiments, may)
            found += [
                each._replace(place=(title + each.place[0], each.place[1]), around=f"{above} {each.around}")
                for each in own
            ]
    return found


def in_table(table: str, experiments: frozenset[str], moment: bool, above: str) -> list[Interval]:
    """Return every interval of a table below the paragraph `above`."""
    head, _, *lines = (
        [cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.strip().splitlines()
    )
    found = []
    for cells in lines:
        for column, (title, cell) in enumerate(zip(head, cells, strict=False)):
            rest = " | ".join((above, *head, *cells))
            for each in within(cell, experiments, moment):
                # Where the bound of a line is all that differs, its first cell tells the lines apart.
                place = bare(" | ".join((*head, *cells))), 100 * column + each.place[1]
                found.append(each._replace(place=place, cell=f"{title} {cells[0]} {cell}", around=rest))
    return found


def bare(words: str) -> str:
    """Return a text without its values with intervals."""
    return re.sub(rf"{NUMBER}( of (?:the )?\w+)? {INTERVAL.pattern}\)?", "#", words)


def within(words: str, experiments: frozenset[str], moment: bool) -> list[Interval]:
    """Return every interval of a text about these experiments.

    moment: whether the text may mean a moment before the end.
    """
    found = []
    for sentence in re.split(r"(?<=[^.]\.) (?=[A-Z])", words):
        for turn, match in enumerate(INTERVAL.finditer(sentence)):
            near = sentence[max(0, match.start() - BEFORE) : match.start()]
            found.append(
                Interval(
                    experiments, tuple(re.findall(NUMBER, near)), *match.groups(), moment,
                    near + match.group(), (bare(sentence), turn), "", words,
                )
            )  # fmt: skip
    return found


def explained() -> list[Interval]:
    """Return every interval of the texts that explain why a statement differs, without unrecorded runs."""
    found: dict[Interval, None] = {}
    for work in read_papers(ROOT / "papers"):
        for why in work.differs.values():
            text = " ".join((why.hypothesis, why.variant, why.outcome))
            if not any(mark in text for mark in UNRECORDED):
                moment = any(mark in text for mark in MOMENTS)
                names = frozenset(re.findall(r"[a-z0-9-]+", text))
                found |= dict.fromkeys(within(why.outcome, names, moment))
    return [*found]


def fits(printed: str, values: pd.Series) -> pd.Series:
    """Return which values are as printed, within its rounding."""
    text = printed.replace("−", "-")
    return (values - float(text)).abs() <= 0.501 * 10.0 ** -len(text.partition(".")[2])


def fitting(asked: Interval, table: pd.DataFrame, back: int = 0) -> pd.DataFrame:
    """Return the recorded rows with these bounds and a value that stands before them, and `back`: which one.

    back: the only number before the bracket that may be the value, 1 for the nearest; 0 for any.
    """
    rows = table[table["experiment"].isin(asked.experiments) & (asked.moment | ~table["moment"])]
    found = []
    for unit in (1, 100):
        mean, low, high = (rows[name] * unit for name in ("mean", "ci_low", "ci_high"))
        # The bounds of a share may be cut to what a share can be.
        bounded = (fits(asked.low, low) | fits(asked.low, low.clip(0))) & (
            fits(asked.high, high) | fits(asked.high, high.clip(None, unit))
        )
        for place, value in enumerate(reversed(asked.before), 1):
            if back in (0, place):
                found.append(rows[bounded & fits(value, mean)].assign(back=place))
    return pd.concat(found) if found else rows[:0].assign(back=0)


def named(text: str) -> set[str]:
    return set(NAMES.findall(text))


def contradicts(asked: Interval, row: str) -> bool:
    """Return whether the words beside a value name one attack, and the row is of another."""
    told = re.search(r"(?:^|; )attack=([\w-]+)", row)
    names = named(asked.cell or asked.words)
    if told is None or len(names) != 1 or "less=" in row:
        return False
    return not any(told[1].startswith(begin) for begin in ATTACKS[next(iter(names))])


@cache
def choices() -> dict[str, dict[str, str]]:
    """Return the rows of findings.csv, by the place of the interval."""
    with CHOSEN.open(encoding="utf-8", newline="") as file:
        return {line["key"]: line for line in csv.DictReader(file)}


@cache
def told(experiment: str, scale: str, row: str) -> pd.DataFrame:
    table = differences(experiment) if "less=" in row else of(frozenset([experiment]))
    return table[(table["row"] == row) & (table["scale"] == scale)]


def hold(asked: Interval, chosen: dict[str, dict[str, str]]) -> None:
    """Assert that the row of which an interval is has these numbers, and is of the attack that is named."""
    write = f"(once it is right, run python {Path(__file__).relative_to(ROOT)})"
    line = chosen.get(asked.key)
    assert line is not None, f"'{asked.words})' stands for no recorded row {write}"
    rows = told(line["experiment"], line["scale"], line["row"])
    assert len(rows) == 1, f"{len(rows)} recorded rows are {line}"
    assert len(fitting(asked, rows, int(line["back"]))) >= 1, (
        f"'{asked.words})' is not {rows.to_dict('records')}"
    )
    assert not contradicts(asked, line["row"]), f"'{asked.words})' is of another attack than {line['row']}"


# What each experiment showed, as a section that names it.
FOUND = {path.stem: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("papers/*/found/*.md"))}
PAGE = "\n".join(f"## `{name}`\n\n{text}" for name, text in FOUND.items())
OTHERS = [
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("exact-attacks", "malicious-servers", "fedavg")
]
# The page brackets its intervals. Those of its headlines are held to the scorecard by another test.
HEADLINES = re.sub(
    rf"(?<!interval )\[({NUMBER}),\s+({NUMBER})\]",
    r"(\1 to \2)",
    (ROOT / "docs/headlines.md").read_text(encoding="utf-8").partition("\n")[2],
)
EVERY = [*(each for page in (PAGE, *OTHERS, HEADLINES) for each in intervals(page)), *explained()]


def test_page_and_explanations_have_intervals() -> None:
    assert len(intervals(PAGE)) > 80
    assert len(intervals(HEADLINES)) >= 5
    assert len(explained()) > 15


@pytest.mark.parametrize("asked", EVERY, ids=lambda asked: asked.words)
def test_every_interval_is_of_one_recorded_row(asked: Interval) -> None:
    hold(asked, choices())


def test_no_choice_is_left_over() -> None:
    assert [each.key for each in EVERY] == [*choices()]


def wrong(asked: Interval) -> bool:
    try:
        hold(asked, choices())
    except AssertionError:
        return True
    return False


def test_numbers_of_another_place_in_the_same_table_or_sentence_are_found() -> None:
    """Guards the tests above, as the three below do."""
    pages = intervals(PAGE)
    pairs = [
        (a, b)
        for a, b in itertools.pairwise(pages)
        if (a.place[0] == b.place[0] or (a.cell and b.cell)) and a.before and b.before
        if [*map(float, (a.before[-1], a.low, a.high))] != [*map(float, (b.before[-1], b.low, b.high))]
    ]
    assert len(pairs) > 200
    for a, b in pairs:
        assert wrong(a._replace(before=b.before, low=b.low, high=b.high)), a.words


@pytest.mark.parametrize("field", ["before", "low", "high"])
def test_another_last_digit_is_found(field: str) -> None:
    for asked in intervals(PAGE)[::5]:
        texts = asked.before if field == "before" else (getattr(asked, field),)
        other = tuple(text[:-1] + str((int(text[-1]) + 3) % 10) for text in texts)
        value = other if field == "before" else other[0]
        # A bound of a share may be cut, so that no other bound beyond it is told apart.
        if value not in ("0", "1"):
            assert wrong(asked._replace(**{field: value})), asked.words


@pytest.mark.parametrize(("one", "other"), [("InvG", "GRNN"), ("GGL", "Fidel"), ("clipped", "pruned")])
def test_names_that_are_exchanged_are_found(one: str, other: str) -> None:
    turned = {one: other, other: one}
    page = re.sub(rf"{one}|{other}", lambda match: turned[match.group()], PAGE)
    for before, after in zip(intervals(PAGE), intervals(page), strict=True):
        if before.place != after.place:
            assert wrong(after), after.words


def test_a_row_of_another_attack_is_never_chosen() -> None:
    (asked,) = intervals("## A\n\nGRNN has 0.50 (0.40 to 0.60) in `one`.\n")
    assert contradicts(asked, "dataset=mnist; attack=invg; metric=ssim")
    assert not contradicts(asked, "dataset=mnist; attack=grnn-adapted; metric=ssim")


@pytest.mark.parametrize(
    ("sentence", "true"),
    [("It is 0.50 (0.40 to 0.60) in `one`.", True), ("It is 50 % (40 to 60) in `one`.", True),
     ("It is 0.50 of 24 (0.40 to 0.60) in `one`.", True), ("It is 0.70 (0.40 to 0.60) in `one`.", False),
     ("It is 0.50 (0.20 to 0.60) in `one`.", False), ("It is 0.50 (0.40 to 0.60) in `two`.", False),
     ("It is 0.50 (0.40 to 0.60).", False)],
)  # fmt: skip
def test_a_sentence_is_held_to_the_table_that_its_section_names(sentence: str, true: bool) -> None:
    (asked,) = intervals(f"## A section\n\n{sentence}\n")
    assert bool(len(fitting(asked, TABLE))) == true


TABLE = pd.DataFrame(
    {"experiment": ["one"], "mean": [0.5], "ci_low": [0.4], "ci_high": [0.6], "moment": [False]}
)


def test_a_moment_on_the_way_is_no_end() -> None:
    for sentence, true in (
        ("It is 0.50 (0.40 to 0.60) in `one`.", False),
        ("After 80 iterations it is 0.50 (0.40 to 0.60) in `one`.", True),
    ):
        (asked,) = intervals(f"## A section\n\n{sentence}\n")
        assert bool(len(fitting(asked, TABLE.assign(moment=True)))) == true


@pytest.mark.parametrize("section", PAGE.split("\n## "), ids=lambda section: section.split("\n")[0])
def test_every_section_names_a_recorded_experiment_or_says_that_it_is_not_recorded(section: str) -> None:
    tables = {path.stem for path in (ROOT / "reference").glob("*/*.csv")}
    named = set(re.findall(r"`([a-z0-9-]+)`", section)) & tables
    assert named or any(mark in section for mark in UNRECORDED)


def test_an_unrecorded_paragraph_and_its_table_are_left_out() -> None:
    page = "## A\n\nSee *(not recorded)*:\n\n| a |\n| --- |\n| 1 (0 to 2) |\n\nAnd 3 (2 to 4).\n"
    assert [each.low for each in intervals(page)] == ["2"]


# Word of a row → how the texts may say it. Any other word is looked for as it stands.
SAID = {
    "cifar10": "cifar-10 photograph", "cifar100": "cifar-100", "mnist": "digit mnist", "lock": "lock",
    "fashion": "fashion-mnist", "none": "none without", "clip": "clip", "quantise": "bits", "mlp": "dense",
    "prune": "pruned pruning tenth hundredth", "withhold": "withheld half part", "sign": "signs",
    "adapted": "adapt", "fcnn": "connected", "peel": "peeling proves", "prop": "fidel", "oracle": "given",
    "fraction": "share", "revealed": "reveal", "exact": "exact every bit", "shuffled": "shuffle",
    "trained": "converged trained", "pearson": "pearson correlation", "batch4": "batch4 four 4",
    "batch8": "batch8 eight 8", "batch16": "batch16 sixteen 16",
}  # fmt: skip


def likeness(asked: Interval, row: str) -> float:
    """Return how well a row's labels are said near an interval."""
    tiers = ((asked.cell or asked.words, 8), (asked.place[0], 4), (asked.around, 2))
    found = 0.0
    for word in dict.fromkeys(re.findall(r"(?:=|-)([a-z][a-z0-9.]+)", row)):
        for said in SAID.get(word, word).split():
            weights = [weight for text, weight in tiers if re.search(rf"(?<![\w.]){said}", text.lower())]
            if weights:
                found += max(weights)
                break
        else:
            found -= 0.5
    # How many images and how much noise there are, as the place prints them.
    numbers = re.findall(r"local_samples=(\d+)", row)
    numbers += [f"{10.0 ** -int(power):.{power}f}" for power in re.findall(r"-1e-(\d)", row)]
    found += sum(4 if re.search(rf"(?<![\d.]){n}(?![\d.])", asked.place[0]) else -2 for n in numbers)
    # What the attack itself reached comes before null baselines and moments on the way.
    return found - 20 * ("baseline=" in row) - 50 * contradicts(asked, row) - 2 * ("_unrevealed" in row)


def write() -> None:
    """Choose a row for every interval that has none yet, print the choices, and write findings.csv.

    A choice is kept as long as the place is there and its numbers fit.
    """
    old, lines = choices() if CHOSEN.exists() else {}, []
    for asked in EVERY:
        line = old.get(asked.key)
        try:
            hold(asked, old)
        except AssertionError:
            names = sorted(asked.experiments & known().keys())
            rows = fitting(asked, of(frozenset(names)))
            rows = pd.concat([rows, *(fitting(asked, differences(name)) for name in names)])
            if not len(rows):
                print(f"no recorded row: {asked.words})")
                continue
            near = rows[rows["back"] == rows["back"].min()]
            scores = [
                likeness(asked, f"={row.experiment} {row.row}")
                + 3 * (row.scale == "standard")
                + 8 * (f"`{row.experiment}`" in asked.around)
                + 8 * (f"`{row.experiment}`" in asked.place[0])
                for row in near.itertuples()
            ]
            best = near.iloc[max(range(len(near)), key=lambda place: (scores[place], place))]
            line = {"key": asked.key, "words": asked.words[-40:] + ")"}
            line |= {name: str(best[name]) for name in ("back", "experiment", "scale", "row")}
            wrong = "WRONG ATTACK: " if contradicts(asked, line["row"]) else ""
            print(f"{wrong}{asked.words}) is one of {len(near)}: {best['experiment']} {best['row']}")
        assert line is not None
        lines.append(line)
    with CHOSEN.open("w", encoding="utf-8", newline="") as file:
        made = csv.DictWriter(
            file, ["key", "words", "back", "experiment", "scale", "row"], lineterminator="\n"
        )
        made.writeheader()
        made.writerows(lines)


if __name__ == "__main__":
    write()
