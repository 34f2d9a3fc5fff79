"""The effect of raised seeds: statements judged on the experiments' own seeds and on others."""

from collections.abc import Mapping, Sequence

import pandas as pd

from leakbench.papers.scorecard.evidence import Evidence
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work

COLUMNS = [
    "id", "class", "scale", "raised", "seeds", "verdict", "measured", "ci_low", "ci_high", "n", "headline",
]  # fmt: skip


def by_seed(works: Sequence[Work], own: Evidence, others: Mapping[int, Evidence]) -> pd.DataFrame:
    """Return the verdicts of each seed on every statement that own and raised seeds measure.

    There is one row for each statement and seed, those of the own seeds first, with columns COLUMNS: `raised`
    is what was added (0 for the own seeds), and `seeds` are the seeds with which a row was measured.
    """
    cards = [
        Card(works, [each], each).frame().assign(raised=raised)
        for raised, each in ((0, own), *sorted(others.items()))
    ]
    # A text, such as a setting, does not depend on a seed.
    cards = [card[(card["verdict"] != "not-run") & (card["seeds"].fillna("") != "")] for card in cards]
    both = set(cards[0]["id"]) & {key for card in cards[1:] for key in card["id"]}
    return pd.concat([card[card["id"].isin(both)] for card in cards], ignore_index=True)[COLUMNS]
