"""Findings for the accuracy half of FedKL (thesis, chapter 5): Tables 5.1 to 5.3, section 5.3.2, doubts 22, 23 and 27.

Facts: `defences` and `studies` (experiment → models of matched pairs) of the catalogue, `lock_shares` (model → the lock's
share of all tensors with a head of 100 classes) and `printed` (id → published number).
"""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import pandas as pd

from leakbench.drawing.printed_trainings import LARGE, NETWORKS
from leakbench.scorecard.evidence import Absent, Evidence, collect
from leakbench.scorecard.fedkl_evidence import COLUMNS, TOLERANCE, accuracy, condition, learnt, length
from leakbench.scorecard.look import Build, not_measured
from leakbench.scorecard.measure import (
    Measured,
    NotMeasured,
    average,
    deviation,
    difference,
    exactly,
    greatest,
    least,
    ratio,
    scaled,
    select,
)
from leakbench.scorecard.verdict import Finding, Relation

Cell = tuple[str, str]
# Rows of Table 5.1 in its order: training, and whether there is a lock.
ROWS = (("centralised", False), ("centralised", True), ("federated", False), ("federated", True))
KINDS = ("centralised", "federated")
# Half a unit in the last place of a printed percentage.
ROUNDING = 0.005


def _note(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def baseline(evidence: Evidence, model: str, dataset: str, kind: str) -> tuple[Measured, str]:
    """Accuracy without a lock as the released code trains, and of the twin in words; of the twin where the other is absent."""
    try:
        twin = accuracy(evidence, model, dataset, kind, False)
        told = f"the locked network's twin has {twin.value:.2f}"
    except NotMeasured:
        twin, told = None, ""
    try:
        return accuracy(evidence, model, dataset, kind, False, released=True), told
    except NotMeasured:
        if twin is None:
            raise
        return twin, "of the locked network's twin, as the network of the released code is left out"


def has_learnt(evidence: Evidence, model: str, dataset: str, kind: str) -> bool:
    """Whether the pair of twins is there and has learnt enough for an ordering to mean something."""
    try:
        learnt(evidence, model, dataset, kind)
        accuracy(evidence, model, dataset, kind, True)
    except NotMeasured:
        return False
    return True


def _cell(place: int) -> Build:
    """A number of Table 5.1. The ordering that it belongs to is that of the pair with and without a lock."""
    (kind, locked), (model, dataset) = list(product(ROWS, COLUMNS))[place - 1]

    def finding(evidence: Evidence) -> Finding:
        told = ""
        if locked:
            measured = accuracy(evidence, model, dataset, kind, True)
        else:
            measured, told = baseline(evidence, model, dataset, kind)
        long = length(evidence, "thesis-table-5-1", condition(model, dataset, kind, True))
        holds = None
        if has_learnt(evidence, model, dataset, kind):
            other = (
                baseline(evidence, model, dataset, kind)[0]
                if locked
                else accuracy(evidence, model, dataset, kind, True)
            )
            own, beside = (
                float(evidence.fact("printed", f"thesis.table-5-1.{row}"))
                for row in (place, place + len(COLUMNS) * (-1 if locked else 1))
            )
            holds = (measured.value - other.value) * (own - beside) > 0
        return Finding(
            measured,
            tolerance=TOLERANCE,
            direction_holds=holds,
            convention="published",
            note=_note(told, long),
        )

    return finding


def _keyed(model: str, dataset: str, client: object, gap: bool) -> Build:
    """A number of Table 5.3: of a client (0 to 2), of their mean (empty) or with a random key."""

    def finding(evidence: Evidence) -> Finding:
        key = "random" if client == "random" else "own"
        of = {"key": key, "client": "" if client == "random" else client, "experiment": "thesis-table-5-3"}
        told = ""
        if gap and key == "random":
            measured = exactly(0, accuracy(evidence, model, dataset, "federated", True, **of).n)  # type: ignore[arg-type]
            told = "by definition"
        else:
            metric = "gap_to_random" if gap else "accuracy"
            measured = accuracy(evidence, model, dataset, "federated", True, metric=metric, **of)  # type: ignore[arg-type]
        long = length(evidence, "thesis-table-5-3", condition(model, dataset, "federated", True))
        holds = None
        if gap and key == "own" and has_learnt(evidence, model, dataset, "federated"):
            holds = measured.value > 0
        return Finding(
            measured,
            tolerance=TOLERANCE,
            direction_holds=holds,
            convention="published",
            note=_note(told, long),
        )

    return finding


def _share(model: str) -> Build:
    def finding(evidence: Evidence) -> Finding:
        share = 100 * float(evidence.fact("lock_shares", model))
        told = "with a head of 100 classes, buffers counted"
        if model == "LeNet":
            own = evidence.pick(
                "thesis-table-5-3", metric="lock_share", **condition(model, "MNIST", "federated", True)
            )
            told += f"; with MNIST's ten classes it is {100 * own.value:.1f} %"
        return Finding(exactly(share), note=told)

    return finding


def _numbers() -> dict[str, Build]:
    rows = {f"thesis.table-5-1.{place}": _cell(place) for place in range(1, 45)}
    rows |= {
        f"thesis.table-5-1.{place}": not_measured("quoted by the thesis from other papers, and not run")
        for place in (45, 46, 47)
    }
    cells = product(COLUMNS, (0, 1, 2, "", "random"), (False, True))
    for place, ((model, dataset), client, gap) in enumerate(cells, 1):
        rows[f"thesis.table-5-3.{place}"] = _keyed(model, dataset, client, gap)
    for place, model in enumerate(NETWORKS, 111):
        rows[f"thesis.table-5-3.{place}"] = _share(model)
    return rows


def _gain(model: str, dataset: str) -> Build:
    """FedKL's accuracy over FedAvg's, in percent of the latter."""

    def finding(evidence: Evidence) -> Finding:
        plain, told = baseline(evidence, model, dataset, "federated")
        over = ratio(accuracy(evidence, model, dataset, "federated", True), plain)
        gain = scaled(difference(over, exactly(1)), 100)
        return Finding(
            gain, tolerance=TOLERANCE, direction_holds=gain.value > 0, convention="published", note=told
        )

    return finding


def _vgg(evidence: Evidence) -> Finding:
    measured, told = baseline(evidence, "VGG-16", "CIFAR-100", "federated")
    return Finding(measured, tolerance=TOLERANCE, convention="published", note=told)


NUMBERS: dict[str, Build] = {
    **_numbers(),
    "thesis.text-5-3-1.1": lambda evidence: Finding(f"{evidence.fact('defences', 'key-lock', 'key_length')}"),
    "thesis.text-5-3-2.1": lambda evidence: Finding(f"{evidence.fact('studies', 'thesis-table-5-1')}"),
    "thesis.text-5-3-2.2": _gain("ResNet-20", "CIFAR-100"),
    "thesis.text-5-3-2.3": _gain("VGG-16", "CIFAR-100"),
    "thesis.text-5-3-2.4": _vgg,
}


def _over(
    cells: list[tuple[str, str, str]],
    quantity: Callable[[Evidence, str, str, str], Measured],
    joined: Callable[[list[Measured]], Measured],
    relation: Relation,
    against: float,
) -> Build:
    """A claim over cells (model, data set, training): those that have learnt decide it, and the reason names them."""

    def finding(evidence: Evidence) -> Finding:
        found: list[Measured] = []
        told: list[str] = []
        reason = "nothing was trained"
        for cell in cells:
            try:
                learnt(evidence, *cell)
                found.append(quantity(evidence, *cell))
            except NotMeasured as missing:
                reason = str(missing) if not told else reason
                continue
            long = length(evidence, "thesis-table-5-1", condition(*cell, True))
            told.append(_note(f"{cell[0]} on {cell[1]}, {cell[2]}: {found[-1].value:+.1f} points", long))
        if not found:
            raise NotMeasured(reason)
        return Finding(joined(found), against, relation, note="; ".join(told))

    return finding


def _loss(evidence: Evidence, model: str, dataset: str, kind: str) -> Measured:
    """Points of accuracy that a lock costs: of twins that differ in nothing else."""
    plain, locked = (
        accuracy(evidence, model, dataset, kind, each, convention="standard") for each in (False, True)
    )
    return difference(plain, locked)


def _gap(evidence: Evidence, model: str, dataset: str, kind: str) -> Measured:
    """Points between the clients' own keys and a random one with the initial locks."""
    return accuracy(
        evidence, model, dataset, kind, True, metric="gap_to_random", convention="standard", experiment="thesis-table-5-3"
    )  # fmt: skip


def _widest(evidence: Evidence, model: str, dataset: str, kind: str) -> Measured:
    """The largest gap in points between the curves with and without a lock in the last half of the rounds."""
    table = evidence.table("thesis-table-5-2")
    curves = []
    for locked in (False, True):
        where = condition(model, dataset, kind, locked)
        rows = select(
            table, "table thesis-table-5-2", metric="accuracy", baseline="snapshot", key="own" if locked else "", **where
        )  # fmt: skip
        if rows.empty:
            raise NotMeasured(
                evidence.why("thesis-table-5-2", **where) or f"no curve of {model} on {dataset}"
            )
        curves.append(rows.set_index("round")["mean"])
    gaps = (curves[0] - curves[1]).abs()
    return greatest([exactly(100 * gap) for gap in gaps[gaps.index > gaps.index.max() / 2]])


def _ahead(evidence: Evidence, model: str, dataset: str, kind: str) -> Measured:
    return scaled(_loss(evidence, model, dataset, kind), -1)


def _printed(evidence: Evidence, key: str) -> Measured:
    value = float(evidence.fact("printed", key))
    return Measured(value, value - ROUNDING, value + ROUNDING, 1)


def _typo(evidence: Evidence) -> Finding:
    own, plain, quoted = (
        _printed(evidence, f"thesis.{key}") for key in ("table-5-1.44", "table-5-1.33", "text-5-3-2.3")
    )
    gain = difference(ratio(own, plain), exactly(1))
    note = "arithmetic on printed numbers, with their rounding"
    return Finding(difference(scaled(gain, 100), quoted), -0.1, "<", note=note)


def _fedavg_best(evidence: Evidence) -> Finding:
    learnt(evidence, "LeNet", "MNIST", "federated")
    plain, _ = baseline(evidence, "LeNet", "MNIST", "centralised")
    centralised = greatest([plain, accuracy(evidence, "LeNet", "MNIST", "centralised", True)])
    federated, told = baseline(evidence, "LeNet", "MNIST", "federated")
    long = length(evidence, "thesis-table-5-1", condition("LeNet", "MNIST", "federated", False))
    return Finding(difference(federated, centralised), 0, ">", note=_note(told, long))


def _client_average(evidence: Evidence) -> Finding:
    # Clients 0, 1 and 2 of ResNet-18 on CIFAR-10, and their average.
    clients = average([_printed(evidence, f"thesis.table-5-3.{row}") for row in (51, 53, 55)])
    gap = difference(clients, _printed(evidence, "thesis.table-5-3.57"))
    return Finding(gap, -0.5, "<", note="arithmetic on printed numbers, with their rounding")


def _share_gap(evidence: Evidence) -> Finding:
    for model in ("ResNet-32", "ResNet-20"):
        learnt(evidence, model, "CIFAR-10", "federated")
    deep, shallow = (_gap(evidence, model, "CIFAR-10", "federated") for model in ("ResNet-32", "ResNet-20"))
    return Finding(difference(deep, shallow), 0, ">")


def _single_runs(evidence: Evidence) -> Finding:
    table = evidence.table("thesis-single-runs")
    where = condition("LeNet", "MNIST", "centralised", False)
    rows = select(table, "table thesis-single-runs", metric="accuracy", key="", client="", **where)
    spread = deviation(100 * float(rows.iloc[0]["std"]), int(rows.iloc[0]["n"]))
    return Finding(spread, 0.3, ">", note=length(evidence, "thesis-single-runs", where))


SMALL = [cell for cell in COLUMNS if cell[0] not in LARGE]
CLAIMS: dict[str, Build] = {
    "thesis.text-5-3-2.no-loss": _over(
        [(*cell, kind) for kind in KINDS for cell in COLUMNS], _loss, average, "<", 1
    ),
    "thesis.table-5-2.same-trend": _over(
        [(*cell, "centralised") for cell in SMALL], _widest, greatest, "<", 3
    ),
    "thesis.table-5-2.ahead-at-224": _over(
        [(*cell, "centralised") for cell in COLUMNS if cell not in SMALL], _ahead, least, ">", 0
    ),
    "thesis.table-5-3.wrong-key": _over([(*cell, "federated") for cell in COLUMNS], _gap, least, ">", 0),
    "thesis.doubt-22.vgg-typo": _typo,
    "thesis.doubt-22.mnist-fedavg-best": _fedavg_best,
    "thesis.doubt-23.client-average": _client_average,
    "thesis.doubt-23.lock-share-gap": _share_gap,
    "thesis.doubt-27.single-runs": _single_runs,
}


def findings(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], absent: Absent | None = None
) -> dict[str, Finding]:
    """A finding for every id of FedKL's accuracy; the arguments are those of `agic.findings`."""
    return collect(NUMBERS | CLAIMS, Evidence(tables, facts, absent or {}))
