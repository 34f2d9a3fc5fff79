"""What raised seeds change: statements judged on tables of the experiments' own seeds and of others."""

from collections.abc import Mapping, Sequence

import pandas as pd

from leakbench.papers.work import Work
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.scorecard import Card

COLUMNS = [
    "id", "class", "scale", "raised", "seeds", "verdict", "measured", "ci_low", "ci_high", "n", "headline",
]  # fmt: skip


def by_seed(works: Sequence[Work], own: Evidence, others: Mapping[int, Evidence]) -> pd.DataFrame:
    """Return what each seed says of every statement that is measured with the own and with raised seeds.

    own: the evidence of one scale with the experiments' own seeds. others: what was added to every seed ->
    the evidence of that scale. One row for each statement and seed, those of the own seeds first, with
    columns COLUMNS: `raised` is what was added (0 for the own seeds), `seeds` what a row was measured with.
    """
    cards = [
        Card(works, [each], each).frame().assign(raised=raised)
        for raised, each in ((0, own), *sorted(others.items()))
    ]
    # A text, such as a setting, follows from no seed.
    cards = [card[(card["verdict"] != "not-run") & (card["seeds"].fillna("") != "")] for card in cards]
    both = set(cards[0]["id"]) & {key for card in cards[1:] for key in card["id"]}
    return pd.concat([card[card["id"].isin(both)] for card in cards], ignore_index=True)[COLUMNS]
