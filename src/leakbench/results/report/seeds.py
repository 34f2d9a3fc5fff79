"""The verdicts with other seeds: the headline findings by seed, and how many verdicts change."""

from dataclasses import dataclass

import pandas as pd

from leakbench.results.report.numbers import count, interval, number

HOLDS = "reproduced"
DECIDED = (HOLDS, "direction", "differs")


# The result of a statement with one seed: word, measured, its 95 % interval, n and seeds, as texts.
SeedCell = dict[str, str]


@dataclass(frozen=True)
class Seeded:
    """A headline, or a row whose verdict changes."""

    id: str  # the row of the scorecard
    text: str  # the headline, or the id if there is none
    changes: bool  # whether the verdict is not the same with all seeds
    cells: dict[int, SeedCell]  # number that was added to every seed -> the result with these seeds


@dataclass(frozen=True)
class Seeds:
    """The statements of one scale that were measured with several seeds."""

    scale: str
    raised: list[int]  # the numbers that were added to every seed, 0 first
    statements: list[Seeded]  # headlines, then other rows whose verdict changes
    decided: int  # the number of rows that have a decided verdict with every seed
    turned: int  # the number of these rows that have more than one verdict


def seeds(rows: pd.DataFrame) -> list[Seeds]:
    return [_of_scale(str(scale), part) for scale, part in rows.groupby("scale", sort=False)]


def held(found: list[Seeds]) -> dict[str, str]:
    """Return the id of each statement -> in words, with how many of its seeds its claim holds."""
    lines = [line for each in found for line in each.statements]
    holds = {line.id: [cell["word"] == HOLDS for cell in line.cells.values()] for line in lines}
    return {key: f"holds with {sum(each)} of {len(each)} seeds" for key, each in holds.items()}


def _of_scale(scale: str, rows: pd.DataFrame) -> Seeds:
    raised = sorted({int(value) for value in rows["raised"]})
    found: dict[str, dict[int, SeedCell]] = {}
    for row in rows.to_dict("records"):
        found.setdefault(str(row["id"]), {})[int(row["raised"])] = {
            "word": str(row["verdict"]), "measured": number(row["measured"]), "n": count(row["n"]),
            "interval": interval(row["ci_low"], row["ci_high"]), "seeds": str(row["seeds"]),
        }  # fmt: skip
    # The words of a run with its own seeds come before those of others.
    last = rows.assign(own=rows["raised"].astype(int) == 0).sort_values("own", kind="stable")
    texts = dict(zip(last["id"], last["headline"].fillna(""), strict=True))
    changed = {key: len({cell["word"] for cell in cells.values()}) > 1 for key, cells in found.items()}
    decided = [
        key
        for key, cells in found.items()
        if len(cells) == len(raised) and all(cell["word"] in DECIDED for cell in cells.values())
    ]
    order = sorted((key for key in found if texts[key] or changed[key]), key=lambda key: not texts[key])
    lines = [Seeded(key, texts[key] or key, changed[key], found[key]) for key in order]
    return Seeds(scale, raised, lines, len(decided), sum(changed[key] for key in decided))
