"""What the recorded tables say: the scorecard, headlines of the README, and the pages made of them."""

import fnmatch
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml
from project import ROOT
from worlds import works

from leakbench.base.errors import UserError
from leakbench.jobs.manual import Records, of_records
from leakbench.papers.entries import entries
from leakbench.papers.findings import findings
from leakbench.papers.scorecard.evidence import ScaleEvidence
from leakbench.papers.scorecard.kinds import CORE, KINDS, OTHERS, kinds
from leakbench.papers.scorecard.recorded import by_seed
from leakbench.papers.scorecard.scorecard import RECOGNISABLE
from leakbench.papers.work import Work
from leakbench.results.report.card import lines
from leakbench.results.report.seeds import held, seeds

README = (ROOT / "README.md").read_text(encoding="utf-8")
# What a reason says of a run that is too short.
TOO_SHORT = "of the published length, of which|the step size falls again"


@cache
def records() -> Records:
    return Records(ROOT)


@pytest.fixture
def card() -> pd.DataFrame:
    """Return the scorecard of the generated pages, where all scales together stand for a run."""
    return records().card


def own_work() -> list[Work]:
    return [works()["leakbench"]]


def standard() -> ScaleEvidence:
    return next(each for each in records().scales if each.scale == "standard")


def test_every_recorded_statement_that_differs_is_explained(card: pd.DataFrame) -> None:
    # A run of one's own alone decides about a setting.
    rows = card[(card["verdict"] == "differs") & (card["class"] != "setting")]
    assert len(rows) >= 4
    assert rows.loc[rows["examined"] == "Not examined yet.", "id"].tolist() == []


def test_no_printed_failure_beside_a_recorded_success_is_left_open_for_its_length(card: pd.DataFrame) -> None:
    every = {entry.id: entry for work in works().values() for entry in entries(work)}
    hidden = [key for key, it in every.items() if it.reading.hidden or it.words["published"] == "failure"]
    rows = card[card["id"].isin(hidden)].set_index("id")
    open_ = rows[rows["reason"].str.contains(TOO_SHORT) & (rows["verdict"] == "inconclusive")]

    # What a row of images measures, whatever its metric, is a success where their SSIM is one.
    def condition(key: str) -> tuple[str, ...]:
        row = every[key].row
        return tuple(word for name, word in row.words.items() if name != "metric") if row else (key,)

    read = rows[(rows["metric"] == "ssim") & (pd.to_numeric(rows["ci_low"]) >= RECOGNISABLE)].index
    successes = {condition(key) for key in read}
    assert len(successes) >= 3
    for key, row in open_.iterrows():
        assert condition(str(key)) not in successes or "may stop early" in row["reason"], key
        # A claim that an attack fails is missed where its whole interval is.
        assert row["metric"] != "claim" or not row["ci_low"] > every[str(key)].against.value, key


def test_the_headlines_page_has_the_counts_of_results(card: pd.DataFrame) -> None:
    core = [work.name for work in works().values() if work.paper.core]
    found = kinds(card, core)
    page = (ROOT / "docs/headlines.md").read_text(encoding="utf-8")
    for kind, meaning in KINDS.items():
        assert f"| {kind} | {meaning} | {found[CORE][kind]} | {found[OTHERS][kind]} |" in page
    rows = card[card["class"] == "result"]
    own = rows["work"].isin(core)
    for word in ("reproduced", "direction", "differs", "inconclusive", "not-run"):
        of = rows["verdict"] == word
        assert f"| {word} | {sum(of & own)} | {sum(of & ~own)} |" in page
        assert re.search(rf"\b{sum(of & own)}\b", README), word


def test_every_headline_is_recorded_and_its_number_stands_in_the_readme(card: pd.DataFrame) -> None:
    found = (ROOT / "docs/headlines.md").read_text()
    found = " ".join(found.replace("**", "").split())
    shown = [line for line in lines(card[card["work"] == "leakbench"]) if line["headline"]]
    assert len(shown) >= 5
    readme = (ROOT / "README.md").read_text().split("## What it found")[1].split("\n## ")[0]
    values = dict(re.findall(r"^\| .* \| (.+) (\[[^a-z]+\]) \|$", readme, re.MULTILINE))
    of_interval = {interval: value for value, interval in values.items()}
    assert len(values) == len(of_interval) == len(shown)
    for line in shown:
        # The README says the number as the sentence does, such as "19.1 of 30".
        value = of_interval[line["headline_interval"]].removesuffix(" of them")
        assert re.search(rf"(?<![\d.]){re.escape(value)}(?![\d.]*\d)", line["headline"]), line["id"]
        words = (
            f"{line['headline']} (95 % interval {line['headline_interval']}, n = {line['n']}, "
            f"seed{'s' * (' ' in line['seeds'])} {line['seeds']}, {line['scale']} scale"
        )
        assert words in found, line["id"]
    assert found.count("95 % interval [") == len(shown)


def test_every_headline_holds_with_each_seed_of_everything_but_one() -> None:
    rows = by_seed(own_work(), standard())
    found = held(seeds(rows))
    headlines = set(rows.loc[rows["headline"] != "", "id"])
    # How often locks close is a share over seeds, and the wrapped PSNR is measured with one seed.
    assert len(headlines) >= 6
    less = {key: found[key] for key in headlines if found[key][11] != found[key][16]}
    assert less == {"leakbench.expectation.spear-128": "holds with 4 of 5 seeds"}


# One finding of a small recorded table.
OPENED = {
    "title": "The lock is opened",
    "claim": "leakbench.expectation.lock-opened",
    "says": "It reads {claim:.2f}, and {guessed:.1%} else.",
    "numbers": {"guessed": {"read": {
        "experiment": "leakbench-single-images", "metric": "ssim", "dataset": "cifar10",
        "victim": "lenet-dlg-batch-norm", "defence": "key-lock", "attack": "grnn",
    }}},
}  # fmt: skip


def page(folder: Path, **changed: object) -> str:
    path = folder / "findings.yaml"
    path.write_text(yaml.safe_dump({"introduction": "All.", "findings": [OPENED | changed]}))
    return findings(path, own_work(), [standard()])


def test_the_pages_of_recorded_numbers_are_current() -> None:
    stale = [name for name, text in of_records(records()).items() if (ROOT / name).read_text() != text]
    assert not stale, "run python -m leakbench manual"


def test_a_finding_has_the_recorded_numbers_and_its_claims_verdict(tmp_path: Path) -> None:
    made = page(tmp_path, because="A lock has few numbers.", guess=True)
    assert "It reads 0.79 (0.50 to 1.00), and 7.7 % (4.7 % to 10.6 %) else." in made
    assert "*Why (a guess):* A lock has few numbers." in made
    assert (
        "`leakbench.expectation.lock-opened`: reproduced. Scale standard, 3 networks, seeds 0 1 2, n = 30."
        in made
    )


UNKNOWN = {"guessed": {"read": {"experiment": "leakbench-single-images", "metric": "mse"}}}


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"claim": "leakbench.lock-open"}, "claim: the scorecard has no row leakbench.lock-open"),
     ({"because": "Magic.", "tested": "leakbench.x"}, "tested: the scorecard has no row leakbench.x"),
     ({"because": "Magic."}, "a cause has either `tested`"), ({"guess": True}, "a cause has either `tested`"),
     ({"says": "It reads {gessed:.2f}."}, "says: no number is called gessed"),
     ({"numbers": UNKNOWN}, "guessed: no recorded table has this number")],
)  # fmt: skip
def test_what_has_no_claim_is_refused(changed: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        page(tmp_path, **changed)


PARTS = ("cifar100", "lfw-32")


def measured(work: Work) -> list[str]:
    """Return the parts of sets on which a work is measured."""
    files = [*(work.folder / "experiments").glob("*.yaml"), *work.folder.glob("[mc]*.yaml")]
    return [name for name in PARTS if any(name in file.read_text() for file in files)]


def said(work: Work) -> bool:
    """Return whether a work names every part on which it is measured."""
    return all(
        any(fnmatch.fnmatchcase(name, pattern) for pattern in work.paper.partial) for name in measured(work)
    )


ON_A_PART = sorted(name for name, work in works().items() if name != "leakbench" and measured(work))


@pytest.mark.parametrize("name", ON_A_PART)
def test_a_work_that_is_measured_on_a_part_says_so(name: str) -> None:
    work = works()[name]
    assert said(work)
    # Guards the line above.
    assert not said(replace(work, paper=work.paper.model_copy(update={"partial": {}})))


def test_some_works_are_measured_on_a_part() -> None:
    assert ON_A_PART == ["agic", "fedkl", "grnn", "ilrg", "peeling"]
