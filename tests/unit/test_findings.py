"""Pages of measurements, and texts that explain differences: every value with an interval is recorded, or the
text says that it is not."""

import itertools
import re
from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from project import ROOT

from leakbench.metrics.interval import paired
from leakbench.papers.work import read_papers

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


class Interval(NamedTuple):
    """An interval of the page: experiments named in its section, numbers before it, its bounds, and whether
    it may be of a moment before the end."""

    experiments: frozenset[str]
    before: tuple[str, ...]
    low: str
    high: str
    moment: bool
    words: str


def recorded() -> pd.DataFrame:
    """Return experiment, mean, ci_low, ci_high and whether it is of a moment before the end, of all recorded
    rows of every scale whose numbers are finite."""
    tables = [pd.read_csv(path).assign(experiment=path.stem) for path in (ROOT / "reference").glob("*/*.csv")]
    tables += [pd.read_csv(path) for path in (ROOT / "reference").glob("*.csv")]
    rows = pd.concat(tables)
    rows = rows.assign(moment=rows["baseline"] == "snapshot")
    rows = rows[["experiment", "mean", "ci_low", "ci_high", "moment"]]
    return rows.replace([np.inf, -np.inf], np.nan).dropna()


@cache
def known() -> pd.DataFrame:
    return recorded()


@cache
def differences(experiment: str) -> pd.DataFrame:
    """Return the same columns for the paired differences in PSNR of every two attacks on the same updates."""
    path = ROOT / "reference" / "standard" / f"{experiment}.parquet"
    found = []
    trials = pd.read_parquet(path) if path.exists() else pd.DataFrame(columns=["metric", "baseline"])
    trials = trials[(trials["baseline"] == "") & (trials["metric"] == "psnr")]
    for _, same in trials.groupby([name for name in UPDATE if name in trials]):
        attacks = [own.set_index("trial") for _, own in same.groupby("attack")]
        for a, b in itertools.permutations(attacks, 2):
            mean, low, high, _ = paired(a["value"].to_dict(), b["value"].to_dict(), a["cluster"].to_dict())
            found.append((experiment, mean, low, high, False))
    return pd.DataFrame(found, columns=["experiment", "mean", "ci_low", "ci_high", "moment"]).dropna()


def intervals(text: str) -> list[Interval]:
    """Return every interval of a page but those of unrecorded paragraphs.

    A table belongs to the paragraph above it.
    """
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        experiments = frozenset(re.findall(r"`([a-z0-9-]+)`", section))
        unrecorded = moment = False
        for paragraph in section.split("\n\n"):
            words = " ".join(paragraph.split())
            if not words.startswith("|"):
                unrecorded = any(mark in words for mark in UNRECORDED)
                moment = any(mark in words for mark in MOMENTS)
            if unrecorded:
                continue
            found += within(words, experiments, moment or any(mark in words for mark in MOMENTS))
    return found


def within(words: str, experiments: frozenset[str], moment: bool) -> list[Interval]:
    """Return every interval of a text about these experiments.

    moment: whether the text may mean a moment before the end.
    """
    found = []
    for match in INTERVAL.finditer(words):
        near = words[max(0, match.start() - BEFORE) : match.start()]
        found.append(
            Interval(
                experiments, tuple(re.findall(NUMBER, near)), *match.groups(), moment, near + match.group()
            )
        )
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


def holds(asked: Interval, table: pd.DataFrame) -> bool:
    """Return whether one recorded row has these bounds and a value that stands before them."""
    rows = table[table["experiment"].isin(asked.experiments) & (asked.moment | ~table["moment"])]
    for unit in (1, 100):
        mean, low, high = (rows[name] * unit for name in ("mean", "ci_low", "ci_high"))
        # The bounds of a share may be cut to what a share can be.
        bounded = (fits(asked.low, low) | fits(asked.low, low.clip(0))) & (
            fits(asked.high, high) | fits(asked.high, high.clip(None, unit))
        )
        if any((bounded & fits(value, mean)).any() for value in asked.before):
            return True
    return False


PAGE, *OTHERS = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("findings", "exact-attacks", "malicious-servers", "fedavg")
)
# The README brackets its intervals. Those of its headlines are held to the scorecard by another test.
README = re.sub(
    rf"(?<!interval )\[({NUMBER}),\s+({NUMBER})\]",
    r"(\1 to \2)",
    (ROOT / "README.md").read_text(encoding="utf-8"),
)
EVERY = [*(each for page in (PAGE, *OTHERS, README) for each in intervals(page)), *explained()]


def test_page_and_explanations_have_intervals() -> None:
    assert len(intervals(PAGE)) > 80
    assert len(intervals(README)) > 5
    assert len(explained()) > 15


@pytest.mark.parametrize("asked", EVERY, ids=lambda asked: asked.words)
def test_every_interval_is_recorded(asked: Interval) -> None:
    found = holds(asked, known()) or any(holds(asked, differences(name)) for name in asked.experiments)
    assert found, f"no recorded row of {sorted(asked.experiments)} says '{asked.words})'"


@pytest.mark.parametrize(
    ("sentence", "true"),
    [
        ("It is 0.50 (0.40 to 0.60) in `one`.", True),
        ("It is 50 % (40 to 60) in `one`.", True),
        ("It is 0.50 of 24 (0.40 to 0.60) in `one`.", True),
        ("It is 0.70 (0.40 to 0.60) in `one`.", False),
        ("It is 0.50 (0.20 to 0.60) in `one`.", False),
        ("It is 0.50 (0.40 to 0.60) in `two`.", False),
        ("It is 0.50 (0.40 to 0.60).", False),
    ],
)
def test_a_sentence_is_held_to_the_table_of_an_experiment_that_its_section_names(
    sentence: str, true: bool
) -> None:
    table = pd.DataFrame(
        {"experiment": ["one"], "mean": [0.5], "ci_low": [0.4], "ci_high": [0.6], "moment": [False]}
    )
    (asked,) = intervals(f"## A section\n\n{sentence}\n")
    assert holds(asked, table) == true


def test_a_moment_on_the_way_is_no_end() -> None:
    table = pd.DataFrame(
        {"experiment": ["one"], "mean": [0.5], "ci_low": [0.4], "ci_high": [0.6], "moment": [True]}
    )
    for sentence, true in (
        ("It is 0.50 (0.40 to 0.60) in `one`.", False),
        ("After 80 iterations it is 0.50 (0.40 to 0.60) in `one`.", True),
    ):
        (asked,) = intervals(f"## A section\n\n{sentence}\n")
        assert holds(asked, table) == true


@pytest.mark.parametrize("section", PAGE.split("\n## ")[1:], ids=lambda section: section.split("\n")[0])
def test_every_section_names_a_recorded_experiment_or_says_that_it_is_not_recorded(section: str) -> None:
    named = set(re.findall(r"`([a-z0-9-]+)`", section)) & set(known()["experiment"])
    assert named or any(mark in section for mark in UNRECORDED)


def test_an_unrecorded_paragraph_and_its_table_are_left_out() -> None:
    page = "## A\n\nSee *(not recorded)*:\n\n| a |\n| 1 (0 to 2) |\n\nAnd 3 (2 to 4).\n"
    assert [each.low for each in intervals(page)] == ["2"]
