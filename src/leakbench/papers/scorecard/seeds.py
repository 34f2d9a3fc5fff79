"""The effect of raised seeds: statements judged on the experiments' own seeds and on others."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from leakbench.papers.reference import run_of
from leakbench.papers.scorecard.evidence import Evidence
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work

COLUMNS = [
    "id", "class", "scale", "raised", "seeds", "verdict", "measured", "ci_low", "ci_high", "n", "headline",
]  # fmt: skip


def by_seed(works: Sequence[Work], own: Evidence) -> pd.DataFrame:
    """Return the verdicts of each seed on every statement that own and raised seeds (its blocks) measure."""
    # There is one row for each statement and seed, those of the own seeds first, with columns COLUMNS:
    # `raised` is what was added (0 for the own seeds), and `seeds` are the seeds with which a row was
    # measured.
    alone = [replace(own, blocks=()), *sorted(own.blocks, key=lambda each: run_of(each.scale)[1] or 0)]
    cards = [Card(works, [each], each).frame().assign(raised=run_of(each.scale)[1] or 0) for each in alone]
    # A text, such as a setting, does not depend on a seed.
    cards = [card[(card["verdict"] != "not-run") & (card["seeds"].fillna("") != "")] for card in cards]
    both = set(cards[0]["id"]) & {key for card in cards[1:] for key in card["id"]}
    return pd.concat([card[card["id"].isin(both)] for card in cards], ignore_index=True)[COLUMNS]
