"""Findings for FedBoosting (thesis, chapter 4): Tables 4.1 and 4.3, Figures 4.2 to 4.6, doubts 20 and 21.

Facts: `boundaries` (training → seed → `length` of the boundary, and `apart`, the share of the plane classified otherwise than by
centralised training), `examples` (of a data set, training and test set the `words` and what was `read`) and those of
`fedboosting_settings`.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import pandas as pd

from leakbench.scorecard.evidence import Absent, Evidence, collect
from leakbench.scorecard.fedboosting_evidence import (
    PLANE,
    PUBLISHED,
    STAND_IN,
    TESTS,
    TOLERANCE,
    accuracy,
    condition,
    curve,
    learnt,
    length,
    of_either,
    of_seeds,
    overall,
    printed,
    readers,
    tests,
    training,
)
from leakbench.scorecard.fedboosting_leakage import CLAIMS as LEAKAGE
from leakbench.scorecard.fedboosting_settings import SETTINGS
from leakbench.scorecard.look import Build, not_measured
from leakbench.scorecard.measure import Measured, NotMeasured, difference, exactly, greatest, share
from leakbench.scorecard.verdict import Finding

SETTING = tuple(product((256, 512, 800), (1, 3)))
# Rows of Table 4.1 in its order, without the quoted one: method, data set whose study it is, batch size, local epochs.
ROWS = (
    *(("CRNN", dataset, batch, "-") for dataset in ("synthtext", PUBLISHED) for batch in (512, 800)),
    *(("CRNN, both", PUBLISHED, batch, "-") for batch in (512, 800)),
    *((method, PUBLISHED, *setting) for method in ("FedAvg", "FedBoosting") for setting in SETTING),
)
# The row that each row of Table 4.1 is printed against: both data sets against one, FedBoosting against FedAvg.
AGAINST = {0: 4, 1: 5, 2: 4, 3: 5, 4: 2, 5: 3} | {place: place + 6 for place in range(6, 12)}
AGAINST |= {place + 6: place for place in range(6, 12)}
# Rows of Table 4.3, and those that they are printed against: encrypted against plain, fused models against their own.
SECURE = tuple(
    f"text-{name}"
    for name in ("fedavg-1e800b", "fedavg-1e800b-he", "fedboosting-1e800b", "fedboosting-1e800b-he", "fedboosting-1e800b-he-fused")
)  # fmt: skip
SECURED = {0: 2, 1: 0, 2: 0, 3: 2, 4: 3}
QUOTED = "quoted by the thesis from other papers, and not run"
# In points, fixed before measuring: a fifth of what the thesis lets encryption and fused models cost.
NEARLY_LOSSLESS = 0.1
# Trainings in the plane that differ in nothing but encryption, and those beside `gaussians-code` that add it or fused models.
ENCRYPTED = (("code-paillier", "code"), ("code-paillier-fused", "code-fused"), ("code-ckks", "code-fused"))
SHIELDED = ("code-fused", "code-paillier", "code-paillier-fused", "code-ckks")


def _holds(
    evidence: Evidence, table: str, places: tuple[int, int], ours: Measured, other: Measured
) -> bool | None:
    """Whether two cells are ordered as printed; None where the print has no order."""
    own, beside = (float(evidence.fact("printed", f"thesis.{table}.{place}")) for place in places)
    if math.isnan(own - beside) or own == beside:
        return None
    return (ours.value - other.value) * (own - beside) > 0


def _reads(row: int, column: int) -> Build:
    """A number of Table 4.1, or whether a training diverged."""
    method, dataset, batch, epochs = ROWS[row]
    tested = list(TESTS.values())[column]
    own, experiment = training(method, batch, epochs), "thesis-table-4-1"

    def finding(evidence: Evidence) -> Finding:
        found = accuracy(evidence, experiment, dataset, own, tested, "published")
        if method == "FedAvg" and batch == 256:
            # At a batch size that is printed to learn, it must: else nothing that does not has diverged.
            learnt(evidence, experiment, dataset, training("FedAvg", 800, 1))
            # Fixed before measuring: in the last round it reads less than half of what it once read.
            whole = curve(evidence, experiment, dataset, own)
            last = float(whole.iloc[-1])
            text = "diverged" if math.isnan(last) or last < whole.max() / 2 else f"{found.value:.2f}"
            return Finding(text, note=length(evidence, experiment, dataset, own))
        learnt(evidence, experiment, dataset, own)
        method_b, dataset_b, batch_b, epochs_b = ROWS[AGAINST[row]]
        try:
            other = accuracy(
                evidence, experiment, dataset_b, training(method_b, batch_b, epochs_b), tested, "published"
            )
            places = (4 * row + 5 + column, 4 * AGAINST[row] + 5 + column)
            holds = _holds(evidence, "table-4-1", places, found, other)
        except NotMeasured:
            holds = None
        note = length(evidence, experiment, dataset, own)
        return Finding(found, tolerance=TOLERANCE, direction_holds=holds, convention="published", note=note)

    return finding


def _secure(row: int, column: int) -> Build:
    """A number of Table 4.3."""
    tested = TESTS[("IIIT5K", "SVT", "IC15")[column]]
    experiment = "thesis-table-4-3"

    def finding(evidence: Evidence) -> Finding:
        found = accuracy(evidence, experiment, PUBLISHED, SECURE[row], tested, "published")
        learnt(evidence, experiment, PUBLISHED, SECURE[row])
        try:
            other = accuracy(evidence, experiment, PUBLISHED, SECURE[SECURED[row]], tested, "published")
            places = (3 * row + 1 + column, 3 * SECURED[row] + 1 + column)
            holds = _holds(evidence, "table-4-3", places, found, other)
        except NotMeasured:
            holds = None
        note = length(evidence, experiment, PUBLISHED, SECURE[row])
        return Finding(found, tolerance=TOLERANCE, direction_holds=holds, convention="published", note=note)

    return finding


def _numbers() -> dict[str, Build]:
    rows = {f"thesis.table-4-1.{place}": not_measured(QUOTED) for place in range(1, 5)}
    for row, column in product(range(len(ROWS)), range(4)):
        rows[f"thesis.table-4-1.{4 * row + 5 + column}"] = _reads(row, column)
    for row, column in product(range(len(SECURE)), range(3)):
        rows[f"thesis.table-4-3.{3 * row + 1 + column}"] = _secure(row, column)
    return rows


def _drawn(key: str) -> Build:
    """A claim about boundaries: FedAvg's number minus FedBoosting's by the released code, which holds out a tenth for it alone."""

    def finding(evidence: Evidence) -> Finding:
        # For its reason, where there is none.
        evidence.table("thesis-figure-4-2")
        seeds = sorted(evidence.fact("boundaries", "gaussians-fedavg"))

        def against(name: str) -> list[float]:
            plain, other = (
                [float(evidence.fact("boundaries", each, seed, key)) for seed in seeds]
                for each in ("gaussians-fedavg", name)
            )
            return [a - b for a, b in zip(plain, other, strict=True)]

        measured = of_seeds(against("gaussians-code"))
        one = "one seed, so no interval; " if measured.n == 1 else f"the range of {measured.n} seeds; "
        printed_rule, unit = (
            of_seeds(against("gaussians-equations")).value,
            "units" if key == "length" else "of the plane",
        )
        note = f"{one}FedBoosting by the released code; by the printed equations {printed_rule:.3g} {unit}; the thesis gives no means or deviations of its points"
        return Finding(measured, 0, ">", note=note)

    return finding


def _two_sets(evidence: Evidence) -> Finding:
    """Of the images that the two clients train on, by the study's own linear classifier."""

    def apart(dataset: str, told: str) -> Finding:
        where = condition(dataset, training("FedAvg", 800, 1))
        return Finding(evidence.pick("thesis-figure-4-4", metric="told_apart", **where), 0.8, ">", note=told)

    return of_either(apart)


def _mostly_right(evidence: Evidence) -> Finding:
    """Of the first words of each test set, for no data set says which the thesis shows."""
    experiment, settings = "thesis-table-4-2", {PUBLISHED: (512, 3), STAND_IN: (800, 1)}

    def right_words(dataset: str, told: str) -> Finding:
        name = training("FedBoosting", *settings[dataset])
        learnt(evidence, experiment, dataset, name)
        shown = [
            each
            for each in evidence.fact("examples")
            if (each["dataset"], each["training"]) == (dataset, name)
        ]
        right = [
            word == read for each in shown for word, read in zip(each["words"], each["read"], strict=True)
        ]
        found, long = share(sum(right), len(right)), length(evidence, experiment, dataset, name)
        if long and found.value <= 0.5:
            so_far = f"{long} {name} reads {found.value:.0%} of {found.n} example words"
            raise NotMeasured(f"needs paper scale: {so_far}")
        note = f"of the first words of {len(shown)} test sets, for the thesis does not say which it shows"
        return Finding(found, 0.5, ">", note="; ".join(filter(None, [note, told, long])))

    return of_either(right_words)


def _suffers(method: str) -> Build:
    def finding(evidence: Evidence) -> Finding:
        experiment, large, small = "thesis-figure-4-4", training(method, 800, 1), training(method, 256, 3)
        # Small batches may read nothing: that is the claim.
        dataset, told = readers(evidence, experiment, [large])
        best, worst = (overall(evidence, experiment, dataset, name) for name in (large, small))
        if method == "FedAvg":
            return Finding(difference(best, worst), 0, ">", note=told)
        return Finding(difference(best, worst), 1, "<", note=told)

    return finding


def _in_plane(evidence: Evidence, name: str, beside: str) -> Measured:
    """Points of accuracy by which two trainings in the plane differ, of the same seed."""
    experiment = "thesis-figure-4-2"
    own, other = (accuracy(evidence, experiment, PLANE, f"{PLANE}-{each}", PLANE) for each in (name, beside))
    return difference(own, other)


def _pairs(evidence: Evidence, pairs: Iterable[tuple[str, str]]) -> list[tuple[str, Measured]]:
    """The pairs of trainings in the plane that this scale has, with the points by which they differ; at least one."""
    found, reason = [], ""
    for own, beside in pairs:
        try:
            found.append((own, _in_plane(evidence, own, beside)))
        except NotMeasured as missing:
            reason = str(missing)
    if not found:
        raise NotMeasured(reason)
    return found


def _size(part: Measured) -> Measured:
    """The absolute value of a difference with its interval."""
    ends = sorted((abs(part.low), abs(part.high)))
    return Measured(abs(part.value), 0.0 if part.low <= 0 <= part.high else ends[0], ends[1], part.n)


def _read(evidence: Evidence, dataset: str) -> Measured:
    """The largest difference in points that encryption and fused models make to the words read, over the test sets."""
    parts = []
    for place, plain in ((1, 0), (3, 2), (4, 2)):
        for tested in tests(evidence, "thesis-table-4-3", dataset, SECURE[place]):
            own, beside = (
                accuracy(evidence, "thesis-table-4-3", dataset, SECURE[row], tested) for row in (place, plain)
            )
            parts.append(_size(difference(own, beside)))
    return greatest(parts)


def _close(evidence: Evidence) -> Finding:
    """Of words read, or where no network reads, of points in the plane."""
    try:
        dataset, told = readers(evidence, "thesis-table-4-3", SECURE)
    except NotMeasured as missing:
        found = _pairs(evidence, ((name, "code") for name in SHIELDED))
        names = ", ".join(name for name, _ in found)
        told = f"of points in the plane, n = {found[0][1].n}, {names} against code; of words: {missing}"
        return Finding(greatest([_size(part) for _, part in found]), 0.5, "<", note=told)
    return Finding(_read(evidence, dataset), 0.5, "<", note=told)


def _printed_bound(evidence: Evidence) -> Finding:
    """The bound of the text, of the published data sets alone."""
    number = "thesis.table-4-3.{}".format
    rows = [*((row, row + 3) for row in (1, 2, 3, 7, 8, 9)), *((row, row + 6) for row in (7, 8, 9))]
    most = max(
        printed(evidence, number(plain)).value - printed(evidence, number(shielded)).value
        for plain, shielded in rows
    )
    note = f"Table 4.3 itself prints up to {most:.2f}"
    try:
        for name in SECURE:
            learnt(evidence, "thesis-table-4-3", PUBLISHED, name)
    except NotMeasured as missing:
        raise NotMeasured(f"{missing}; {note}") from None
    return Finding(_read(evidence, PUBLISHED), note=note)


def _lossless(evidence: Evidence) -> Finding:
    """Encrypted minus plain, of what differs in nothing else; the pair that differs most."""
    found = _pairs(evidence, ENCRYPTED)
    _, most = max(found, key=lambda pair: abs(pair[1].value))
    names = ", ".join(name for name, _ in found)
    note = f"of points in the plane, the largest of {len(found)} that differ from plain runs in encryption alone: {names}"
    if most.n == 1:
        note += f"; one seed, so no interval over seeds but a tolerance of {NEARLY_LOSSLESS} points"
    return Finding(most, 0, "=", tolerance=NEARLY_LOSSLESS, note=note)


def _term_helps(evidence: Evidence) -> Finding:
    experiment, names = "thesis-figure-4-6", ("text-fedboosting-1e800b", "text-fedboosting-1e800b-validation")
    dataset, told = readers(evidence, experiment, names)
    with_term, without = (overall(evidence, experiment, dataset, name) for name in names)
    return Finding(difference(with_term, without), 0, ">", note=told)


def _converged(evidence: Evidence, dataset: str, name: str) -> Measured:
    """The first round within one point of the final accuracy."""
    found = curve(evidence, "thesis-figure-4-6", dataset, name)
    return exactly(float(found.index[(found - found.iloc[-1]).abs() <= 1][0]))


WITH, WITHOUT = "text-fedboosting-1e256b", "text-fedboosting-1e256b-validation"


def _late(evidence: Evidence) -> Finding:
    dataset, told = readers(evidence, "thesis-figure-4-6", (WITH, WITHOUT))
    late, early = (_converged(evidence, dataset, name) for name in (WITHOUT, WITH))
    return Finding(difference(late, early), 0, ">", note=told)


def _late_round(evidence: Evidence) -> Finding:
    learnt(evidence, "thesis-figure-4-6", PUBLISHED, WITHOUT)
    note = length(evidence, "thesis-figure-4-6", PUBLISHED, WITHOUT)
    return Finding(_converged(evidence, PUBLISHED, WITHOUT), tolerance=2, note=note)


def _everywhere(evidence: Evidence) -> Finding:
    """Test sets on which Table 4.1 prints more for FedAvg than for FedBoosting at 800/1, beyond rounding."""
    gaps = [
        difference(
            printed(evidence, f"thesis.table-4-1.{row}"), printed(evidence, f"thesis.table-4-1.{row + 24}")
        )
        for row in range(45, 49)
    ]
    beaten = [name for name, gap in zip(TESTS, gaps, strict=True) if gap.low > 0]
    note = f"arithmetic on printed numbers, with their rounding: {', '.join(beaten) or 'none'} of {len(TESTS)} test sets"
    return Finding(exactly(len(beaten), len(TESTS)), 1, ">=", note=note)


CLAIMS: dict[str, Build] = {
    "thesis.fig-4-2.smoother": _drawn("length"),
    "thesis.fig-4-2.closer": _drawn("apart"),
    "thesis.fig-4-3.non-iid": _two_sets,
    "thesis.table-4-2.mostly-right": _mostly_right,
    "thesis.fig-4-4.fedavg-suffers": _suffers("FedAvg"),
    "thesis.fig-4-4.fedboosting-does-not": _suffers("FedBoosting"),
    "thesis.fig-4-5.close": _close,
    "thesis.fig-4-6.training-term-helps": _term_helps,
    "thesis.fig-4-6.late-without": _late,
    "thesis.doubt-20.he-loss": _lossless,
    "thesis.doubt-21.fedboosting-everywhere": _everywhere,
    **LEAKAGE,
}
NUMBERS: dict[str, Build] = {
    **_numbers(),
    **SETTINGS,
    "thesis.fig-4-6.1": _late_round,
    "thesis.text-4-2-3.1": _printed_bound,
}


def findings(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], absent: Absent | None = None
) -> dict[str, Finding]:
    """A finding for every id of chapter 4; the arguments are those of `agic.findings`."""
    return collect(NUMBERS | CLAIMS, Evidence(tables, facts, absent or {}))
