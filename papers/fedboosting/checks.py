"""What no expression can say of chapter 4: boundaries, rounds of a curve, words of an exhibit, lists."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from leakbench.scorecard.checking import Evidence
from leakbench.scorecard.quantity import NAN, Measured, NotMeasured, Trials, from_trials, mean, share

Row = Mapping[str, str]
# Fixed before measuring: a training whose last round reads less than this share of its best has diverged.
COLLAPSED = 0.5
PLANE = "thesis-figure-4-2-seeds"
TESTS = ("iiit5k", "svt", "scut-foru", "icdar2015")


def _boundaries(evidence: Evidence, training: str) -> dict[str, dict[str, float]]:
    """Return by seed the length of a boundary and the share of the plane that it classifies otherwise."""
    from skimage.measure import find_contours

    tensors, facts = evidence.exhibit(PLANE)
    found = {}
    for place, about in enumerate(facts.get("boundaries", [])):
        if about["training"] == training:
            surface, (left, right, bottom, top) = tensors[f"{place}/surface"], about["extent"]
            knots = np.array([top - bottom, right - left]) / (np.array(surface.shape) - 1)
            lines = find_contours(np.asarray(surface), 0.5)
            length = float(sum(np.hypot(*np.diff(line * knots, axis=0).T).sum() for line in lines))
            found[str(about["seed"])] = {"length": length, "apart": float(about["apart"])}
    if not found:
        raise NotMeasured(f"no boundary of {training} was drawn")
    return found


def _drawn(evidence: Evidence, key: str) -> Measured:
    """Return FedAvg's number minus FedBoosting's by the released code; the note has the printed equations."""

    def against(training: str) -> Measured:
        plain, other = _boundaries(evidence, "gaussians-fedavg"), _boundaries(evidence, training)
        gaps = {seed: plain[seed][key] - other[seed][key] for seed in plain.keys() & other.keys()}
        return from_trials(
            Trials(dict(sorted(gaps.items())), {s: s for s in gaps}), Measured(NAN, n=len(gaps))
        )

    printed = against("gaussians-equations").value
    return replace(against("gaussians-code"), notes=(f"by the printed equations {printed:.3g}",))


def smoother(evidence: Evidence, row: Row) -> Measured:
    return _drawn(evidence, "length")


def closer(evidence: Evidence, row: Row) -> Measured:
    return _drawn(evidence, "apart")


def _over_rounds(evidence: Evidence, training: str, experiment: str, **signs: float) -> Measured:
    """Return the mean over rounds of the clients' weights, each times its sign."""
    where = {"experiment": experiment, "training": training, "metric": "weight", "baseline": "snapshot"}
    rounds = sorted({float(each) for each in evidence.rows(**where, client=0)["round"]})
    if not rounds:
        raise NotMeasured(evidence.why(experiment, training=training) or f"{training} did not run")
    of = {
        client: [evidence.at(**where, client=client[1:], round=each) for each in rounds] for client in signs
    }
    return mean(sum(of[c][i] * sign for c, sign in signs.items()) for i in range(len(rounds)))


def poisoned(evidence: Evidence, row: Row) -> Measured:
    return _over_rounds(evidence, "gaussians-poisoned-code", "thesis-poisoned", c0=0.5, c1=-1.0, c2=0.5)


def poisoned_by_equations(evidence: Evidence, row: Row) -> Measured:
    return _over_rounds(evidence, "gaussians-poisoned-equations", "thesis-poisoned", c0=0.5, c1=-1.0, c2=0.5)


def without_training_losses(evidence: Evidence, row: Row) -> Measured:
    return _over_rounds(evidence, "text-fedboosting-1e800b-validation", "thesis-figure-4-6", c0=1.0, c1=-1.0)


def weights(evidence: Evidence, row: Row) -> str:
    own = 100 * _over_rounds(evidence, "text-fedboosting-1e800b", "thesis-table-4-1", c0=1.0).value
    return f"{5 * round(own / 5)}/{100 - 5 * round(own / 5)}"


def by_training_losses(evidence: Evidence, row: Row) -> Measured:
    """Return the largest weight in percent that training losses alone would have given Synth90K."""
    where = {**evidence.condition, "metric": "training_loss", "baseline": "snapshot"}
    losses = [evidence.rows(**where, client=client).set_index("round")["mean"] for client in (0, 1)]
    shares = 100 * losses[1] / (losses[0] + losses[1])
    if shares.empty:
        raise NotMeasured(evidence.why("thesis-table-4-1", **evidence.condition) or "no training losses")
    return replace(
        evidence.at(metric="accuracy", tested="synth90k", client=""),
        value=float(shares.max()),
        low=NAN,
        high=NAN,
    )


def _curve(evidence: Evidence, **where: object) -> "pd.Series[float]":
    """Return the share of words read by round, over the thesis' test sets or else on the study's own."""
    asked = {
        **evidence.condition,
        "metric": "accuracy",
        "baseline": "snapshot",
        "convention": "standard",
        **where,
    }
    asked.pop("tested", None)
    rows = evidence.rows(**asked)
    if rows.empty:
        raise NotMeasured(evidence.why(str(asked.pop("experiment")), **asked) or "no rounds were tested")
    read = rows[rows["tested"].isin(TESTS)]
    read = read if len(read) else rows[rows["tested"] == asked["dataset"]]
    return read.groupby("round")["mean"].mean()


def _converged(evidence: Evidence, training: str, dataset: str = "synth90k") -> Measured:
    """Return the first round within one point of the final accuracy."""
    curve = _curve(evidence, training=training, dataset=dataset)
    own = evidence.at(training=training, dataset=dataset, tested=dataset)
    first = float(curve.index[(curve - curve.iloc[-1]).abs() <= 0.01][0])
    return replace(own, value=first, low=NAN, high=NAN, trials=None, metric="")


def late_round(evidence: Evidence, row: Row) -> Measured:
    return _converged(evidence, "text-fedboosting-1e256b-validation")


def late_without(evidence: Evidence, row: Row) -> Measured:
    return late_round(evidence, row) - _converged(evidence, "text-fedboosting-1e256b")


def faster(evidence: Evidence, row: Row) -> Measured:
    """Return how many rounds later FedAvg converges, on the published sets or else on the stand-ins."""
    plain, boosted = "text-fedavg-1e800b", "text-fedboosting-1e800b"
    try:
        return _converged(evidence, plain) - _converged(evidence, boosted)
    except NotMeasured:
        return _converged(evidence, plain, "words-plain") - _converged(evidence, boosted, "words-plain")


def diverged(evidence: Evidence, row: Row) -> str:
    tested = evidence.condition["tested"]
    rows = evidence.rows(**{**evidence.condition, "baseline": "snapshot", "convention": "standard"})
    found = evidence.at()
    rounds = rows.sort_values("round")["mean"]
    if rounds.empty:
        raise NotMeasured(f"no round was tested on {tested}")
    last = float(rounds.iloc[-1])
    return "diverged" if math.isnan(last) or last < COLLAPSED * rounds.max() else f"{100 * found.value:.2f}"


def mostly_right(evidence: Evidence, row: Row) -> Measured:
    """Return the share of the example words, the first of each test set, that FedBoosting reads right."""
    _, facts = evidence.exhibit("thesis-table-4-2")
    for dataset, training in (
        ("synth90k", "text-fedboosting-3e512b"),
        ("words-plain", "text-fedboosting-1e800b"),
    ):
        shown = [
            each
            for each in facts.get("examples", [])
            if (each["dataset"], each["training"]) == (dataset, training)
        ]
        right = [
            word == read for each in shown for word, read in zip(each["words"], each["read"], strict=True)
        ]
        if right:
            own = evidence.at(dataset=dataset, training=training, tested=dataset)
            note = () if dataset == "synth90k" else ("words-plain stands in for synth90k",)
            return replace(share(sum(right), len(right)), length=own.length, notes=(*own.notes, *note))
    raise NotMeasured(evidence.why("thesis-table-4-2") or "no example words were read")


def units(evidence: Evidence, row: Row) -> str:
    hidden = evidence.fact("run.study.gaussians/perceptron/gaussians-fedavg/none.victim.parameters.width")
    return f"{hidden}/{evidence.fact('run.study.gaussians/perceptron/gaussians-fedavg/none.dataset.classes')}"


def scale_factor(evidence: Evidence, row: Row) -> str:
    study = "run.study.gaussians/perceptron/gaussians-code-paillier-published/none"
    return f"1e{evidence.fact(study + '.encryption.parameters.decimal_scale')}"


def test_words(evidence: Evidence, row: Row) -> str:
    """Return how many test words the catalogue has of a set that was tested on in this run."""
    tested = str(evidence.condition["tested"])
    if evidence.rows(**evidence.condition).empty:
        raise NotMeasured(f"nothing was tested on {tested} at this scale")
    return str(evidence.fact(f"splits.{tested}.test"))


def _cells(evidence: Evidence, table: str, rows: range) -> list[float]:
    return [evidence.printed(f"thesis.table-4-{table}.{row}").value for row in rows]


def best_of_table(evidence: Evidence, row: Row) -> str:
    """Return FedBoosting's best cell of Table 4.1 for each test set."""
    return "/".join(f"{max(_cells(evidence, '1', range(first, 77, 4))):.2f}" for first in range(53, 57))


def iterations(evidence: Evidence, row: Row) -> str:
    """Return iterations from those printed for the other batch size; a set ends midway in its last batch."""
    own, other, key = (800, 512, "5") if "800" in row["condition"] else (512, 800, "4")
    known = evidence.prints[f"thesis.text-4-3-2-2.{key}"].published.split("/")
    return "/".join(str(int((int(steps) + 0.5) * other / own)) for steps in known)


def lost(evidence: Evidence, row: Row) -> str:
    plain, encrypted = _cells(evidence, "3", range(1, 3)), _cells(evidence, "3", range(4, 6))
    return "/".join(f"{round(a - b, 2):g}" for a, b in zip(plain, encrypted, strict=True))


def fallen(evidence: Evidence, row: Row) -> str:
    plain, encrypted = _cells(evidence, "3", range(7, 11, 3))
    return f"{plain:.2f} to about {encrypted:.0f}"
