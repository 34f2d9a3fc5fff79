"""The README's findings are what the recorded tables say."""

from project import ROOT
from recorded_world import recorded

from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.scorecard.seeds import by_seed
from leakbench.papers.work import read_papers
from leakbench.results.report.card import lines
from leakbench.results.report.seeds import held, seeds


def test_every_headline_of_the_readme_is_recorded() -> None:
    found = (ROOT / "README.md").read_text().split("## What it found")[1].split("\n## ")[0]
    found = " ".join(found.replace("**", "").split())
    own = [work for work in read_papers(ROOT / "papers") if work.name == "leakbench"]
    scales = recorded()
    shown = [line for line in lines(Card(own, scales, scales[-1]).frame()) if line["headline"]]
    assert len(shown) >= 5
    for line in shown:
        words = (
            f"{line['headline']} (95 % interval {line['headline_interval']}, n = {line['n']}, "
            f"seed{'s' * (' ' in line['seeds'])} {line['seeds']}, {line['scale']} scale"
        )
        assert words in found, line["id"]
    assert found.count("95 % interval [") == len(shown)


def test_every_headline_holds_with_each_seed_of_everything_but_one() -> None:
    own = [work for work in read_papers(ROOT / "papers") if work.name == "leakbench"]
    standard = next(each for each in recorded() if each.scale == "standard")
    rows = by_seed(own, standard)
    found = held(seeds(rows))
    headlines = set(rows.loc[rows["headline"] != "", "id"])
    assert len(headlines) >= 8
    less = {key: found[key] for key in headlines if found[key][11] != found[key][16]}
    assert less == {"leakbench.expectation.spear-128": "holds with 4 of 5 seeds"}
