"""Findings about the quality of images: means out of tables, with how far the attacks behind them got.

An attack that ran for fewer than ENOUGH steps decides no ordering and no claim.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from leakbench.scorecard import measure
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.measure import DEFAULTS, Measured, NotMeasured, difference, greatest, least
from leakbench.scorecard.verdict import Finding, Relation

# After fewer steps an image is mostly the noise that it started from, and an ordering of two attacks is chance.
ENOUGH = 50
# In the published unit, fixed before measuring: 0.5 dB is less than what separates any two methods of one table by eye.
TOLERANCE = {
    "psnr": 0.5,
    "psnr_uint8_wrap": 0.5,
    "ssim": 0.02,
    "lpips_alex": 0.01,
    "matching_success": 0.02,
    "mse": 50.0,
    # As the thesis prints them: roots of squared 8-bit levels, half a decibel of those, LPIPS of raw levels.
    "rmse_255": 5.0,
    "psnr_of_rmse": 0.5,
    "lpips_vgg_raw255_bgr": 0.05,
    "lpips_alex_raw255_bgr": 0.05,
}
HIGHER = {"psnr", "psnr_of_rmse", "psnr_uint8_wrap", "ssim", "matching_success", "label_accuracy"}
Build = Callable[[Evidence], Finding]


@dataclass
class Look:
    """Reads means out of tables, refuses those of attacks that ran for fewer than `enough` steps, and remembers the
    fewest steps that it saw, and of how many.

    stand_ins: data set → one that anybody can fetch, which is read where the first is absent; it remembers that too.
    """

    evidence: Evidence
    enough: int = 0
    fewest: float = math.inf
    published: int = 0
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    swapped: set[str] = field(default_factory=set)

    def where(self, experiment: str, metric: str, **where: object) -> dict[str, object]:
        """The condition to read: with a stand-in for its data set, if the table has that and not the set itself."""
        other = self.stand_ins.get(str(where.get("dataset")))
        if other is None or experiment not in self.evidence.tables:
            return where
        kept = {key: where[key] for key in DEFAULTS if key in where}
        there = self.evidence.values(experiment, "dataset", metric=metric, **kept)
        if where["dataset"] in there or other not in there:
            return where
        self.swapped.add(f"{other} stands in for {where['dataset']}")
        return where | {"dataset": other}

    def mean(self, experiment: str, metric: str, published: int, **where: object) -> Measured:
        """The mean of a metric in the one condition that `where` names; the paper gave it `published` steps."""
        where = self.where(experiment, metric, **where)
        found = self.evidence.pick(experiment, metric=metric, **where)
        steps = _iterations(self.evidence, experiment, {"metric": metric, **where})
        if steps < self.enough:
            raise NotMeasured(
                f"needs paper scale: after {steps:g} of {published:,} iterations images are mostly noise"
            )
        if steps < self.fewest:
            self.fewest, self.published = steps, published
        return found

    @property
    def note(self) -> str:
        """What stood in for what, and how far the attacks got, if not as far as the paper's."""
        words = sorted(self.swapped)
        if self.fewest < self.published:
            words.append(f"after {self.fewest:g} of {self.published:,} iterations")
        return "; ".join(words)


Quantity = Callable[[Look], Measured]


def _iterations(evidence: Evidence, experiment: str, where: Mapping[str, object]) -> float:
    """The fewest steps behind the selected rows: a table whose attacks all ran as long has no column for it, and the
    facts tell. Infinite where neither does.
    """
    table = evidence.table(experiment)
    if "iterations" not in table.columns:
        return float(evidence.facts.get("iterations", {}).get(experiment, math.inf))
    rows = measure.select(table, "table", **where)
    return min((float(steps) for steps in rows["iterations"].dropna()), default=math.inf)


def at(experiment: str, metric: str, published: int, **where: object) -> Quantity:
    """The mean of a metric in one condition, which the paper gave `published` steps."""
    return lambda look: look.mean(experiment, metric, published, **where)


def minus(a: Quantity, b: Quantity) -> Quantity:
    """The difference of two quantities."""
    return lambda look: difference(a(look), b(look))


def best(*parts: Quantity) -> Quantity:
    """The largest of several quantities."""
    return lambda look: greatest([part(look) for part in parts])


def smallest(*parts: Quantity) -> Quantity:
    """The least of several quantities: all of them must exceed what it exceeds."""
    return lambda look: least([part(look) for part in parts])


def number(
    quantity: Quantity,
    metric: str,
    other: Quantity | None = None,
    better: bool | None = True,
    note: str = "",
    told: Callable[[Evidence], str] | None = None,
    convention: Literal["standard", "published"] = "standard",
) -> Build:
    """A cell of a table. The ordering it belongs to: it is `better` (or worse) than `other`, as published.

    told: what else the reason says, as of recorded runs.
    """

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        measured = quantity(look)
        own = look.note
        holds = None if other is None or better is None else _ordered(look, measured, other, metric, better)
        words = "; ".join(filter(None, [note, own, told(evidence) if told else ""]))
        return Finding(
            measured, tolerance=TOLERANCE[metric], direction_holds=holds, convention=convention, note=words
        )

    return finding


def _ordered(look: Look, measured: Measured, other: Quantity, metric: str, better: bool) -> bool | None:
    """Whether the published ordering holds; None where it cannot be told."""
    try:
        reference = other(look)
    except NotMeasured:
        return None
    if look.fewest < ENOUGH:
        return None
    ahead = measured.value - reference.value if metric in HIGHER else reference.value - measured.value
    return ahead > 0 if better else ahead < 0


def not_measured(reason: str) -> Build:
    """A row that cannot be measured."""
    return lambda evidence: Finding(None, absent=reason)


def claim(
    quantity: Quantity,
    relation: Relation,
    against: float,
    tolerance: float = 0.0,
    note: str = "",
    stand_ins: Mapping[str, str] | None = None,
    told: Callable[[Evidence], str] | None = None,
) -> Build:
    """A claim about the quality of images: this quantity stands in this relation to this threshold.

    told: what else the reason says.
    """

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence, ENOUGH, stand_ins=stand_ins or {})
        measured = quantity(look)
        words = "; ".join(filter(None, [note, look.note, told(evidence) if told else ""]))
        return Finding(measured, against, relation, tolerance, note=words)

    return finding
