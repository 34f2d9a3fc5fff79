"""The evidence that the recorded runs of one scale give."""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from leakbench.base.artefacts import open_tensors
from leakbench.papers.reference import EXHIBIT, Kept, run_of
from leakbench.papers.scorecard.evidence import Evidence, Lines
from leakbench.papers.scorecard.quantity import NotMeasured

# In place of a cell's stem, where no cell of an experiment counts.
EVERY = "every cell"


def of_records(
    found: Sequence[Kept],
    ages: Mapping[str, str] | None = None,
    known: frozenset[str] | None = None,
    attacks: Mapping[str, Mapping[str, Any]] | None = None,
) -> Evidence:
    old = {name: age for name, age in (ages or {}).items() if age}
    kept = {each.name: each for each in found if each.name not in old}
    scale, (plain, _) = found[0].scale, run_of(found[0].scale)
    reasons = {name: {EVERY: f"its record at scale {scale} was {age}"} for name, age in old.items()}

    def exhibit(name: str) -> Any:
        path = kept[name].beside(EXHIBIT) if name in kept else None
        if not path:
            raise NotMeasured(f"the record of {name} at scale {scale} has no exhibit")
        return open_tensors(path)

    return Evidence(
        scale=scale, lines={name: Lines(name, each.rows, each.trials()) for name, each in kept.items()},
        absent=reasons | {name: each.record["absent"] for name, each in kept.items()},
        shares={name: each.record.get("shares", {}) for name, each in kept.items()},
        falls={name: each.record.get("falls", {}) for name, each in kept.items()}, attacks=attacks or {},
        exhibit=exhibit, known=known,
        origins={name: (plain, each.record["device"], each.record["commit"]) for name, each in kept.items()},
    )  # fmt: skip


def joined(scales: Sequence[Evidence]) -> Evidence:
    """Return the evidence that several recorded scales give together: of each experiment its first record."""

    def exhibit(name: str) -> Any:
        return next((each for each in scales if name in each.lines), scales[-1]).exhibit(name)

    parts: Any = {
        part: ChainMap(*(dict(getattr(each, part)) for each in scales))
        for part in ("lines", "absent", "shares", "falls", "origins")
    }
    return replace(scales[-1], **parts, exhibit=exhibit, blocks=[b for each in scales for b in each.blocks])
