"""The evidence that the recorded runs of one scale give, and what raised seeds change of its verdicts."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from leakbench.base.artefacts import open_tensors
from leakbench.papers.reference import EXHIBIT, Kept, run_of
from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work

# In place of a cell's stem, where no cell of an experiment counts.
EVERY = "every cell"
COLUMNS = [
    "id", "class", "scale", "raised", "seeds", "verdict", "measured", "ci_low", "ci_high", "n", "headline",
]  # fmt: skip


def of_records(
    found: Sequence[Kept],
    ages: Mapping[str, str] | None = None,
    known: frozenset[str] | None = None,
    attacks: Mapping[str, Mapping[str, Any]] | None = None,
) -> ScaleEvidence:
    old = {name: age for name, age in (ages or {}).items() if age}
    kept = {each.name: each for each in found if each.name not in old}
    scale, (plain, _) = found[0].scale, run_of(found[0].scale)
    reasons = {name: {EVERY: f"its record at scale {scale} was {age}"} for name, age in old.items()}

    def exhibit(name: str) -> Any:
        path = kept[name].beside(EXHIBIT) if name in kept else None
        if not path:
            raise NotMeasured(f"the record of {name} at scale {scale} has no exhibit")
        return open_tensors(path)

    return ScaleEvidence(
        scale=scale, lines={name: Table(name, each.rows, each.trials()) for name, each in kept.items()},
        absent=reasons | {name: each.record["absent"] for name, each in kept.items()},
        shares={name: each.record.get("shares", {}) for name, each in kept.items()},
        falls={name: each.record.get("falls", {}) for name, each in kept.items()}, attacks=attacks or {},
        exhibit=exhibit, known=known,
        origins={name: (plain, each.record["device"], each.record["commit"]) for name, each in kept.items()},
    )  # fmt: skip


def joined(scales: Sequence[ScaleEvidence]) -> ScaleEvidence:
    """Return the evidence that several recorded scales give together: of each experiment its first record."""

    def exhibit(name: str) -> Any:
        return next((each for each in scales if name in each.lines), scales[-1]).exhibit(name)

    parts: Any = {
        part: ChainMap(*(dict(getattr(each, part)) for each in scales))
        for part in ("lines", "absent", "shares", "falls", "origins")
    }
    return replace(scales[-1], **parts, exhibit=exhibit, blocks=[b for each in scales for b in each.blocks])


def by_seed(works: Sequence[Work], own: ScaleEvidence) -> pd.DataFrame:
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
