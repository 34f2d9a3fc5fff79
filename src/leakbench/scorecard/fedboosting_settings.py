"""Findings for what chapter 4 of the thesis states in its text: settings, sizes of data sets, sums on printed numbers, weights.

Facts: `trainings` (name → optimiser, lr, fusion, encryption), `points` (of a client in the plane), `splits` (data set → split →
images), all of the catalogue; `units` (network → units of its dense layers), `pieces` (of a quantised update), `printed` (id →
published number) and `print` (id → published text).
"""

from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.fedboosting_evidence import PUBLISHED, condition, learnt, length, printed, steady
from leakbench.scorecard.look import Build
from leakbench.scorecard.measure import NotMeasured, difference, exactly, select
from leakbench.scorecard.verdict import Finding

ARITHMETIC = "arithmetic on printed numbers"
BOOSTED = "text-fedboosting-1e800b"
# In points of weight, fixed before measuring: the thesis says "up to about".
ABOUT = 5.0


def _setting(*keys: str, note: str = "") -> Build:
    return lambda evidence: Finding(str(evidence.fact(*keys)), note=note)


def _rate(training: str, optimiser: str, note: str = "") -> Build:
    """The learning rate of a training, which must be of this optimiser."""

    def finding(evidence: Evidence) -> Finding:
        own, rate = (evidence.fact("trainings", training, key) for key in ("optimiser", "lr"))
        return Finding(f"{rate}" if own == optimiser else f"{rate} of {own}", note=note)

    return finding


def _units(evidence: Evidence) -> Finding:
    return Finding("/".join(map(str, evidence.fact("units", "perceptron"))))


def _scale(evidence: Evidence) -> Finding:
    places = evidence.fact("trainings", "gaussians-code-paillier-published", "encryption", "decimal_scale")
    note = "of the variant as published; float64 has 53 bits, so that it adds no precision"
    return Finding(f"1e{places}", note=note)


def _key(evidence: Evidence) -> Finding:
    bits = evidence.fact("trainings", "gaussians-code-paillier-published", "encryption", "bits")
    return Finding(str(bits), note="of the variant as published, which is factored in seconds; ours has 2048")


def _large(dataset: str, column: int) -> Build:
    """The size of a training set of millions, which is never at hand whole: what the printed iterations make is told."""

    def finding(evidence: Evidence) -> Finding:
        steps = int(str(evidence.fact("print", "thesis.text-4-3-2-2.4")).split("/")[column])
        raise NotMeasured(
            f"{dataset} is not present whole; {steps:,} printed iterations of 800 are {800 * steps / 1e6:.2f} million words"
        )

    return finding


def _tested(dataset: str, note: str = "") -> Build:
    def finding(evidence: Evidence) -> Finding:
        return Finding(str(evidence.fact("splits", dataset, "test")), note=note)

    return finding


def _unlike(dataset: str, why: str) -> Build:
    def finding(evidence: Evidence) -> Finding:
        counts = evidence.fact("splits", dataset)
        raise NotMeasured(f"{dataset} is not counted here: {why.format(**counts)}")

    return finding


def _gap(more: str, less: str) -> Build:
    """A difference of two cells of one of the printed tables, in points."""

    def finding(evidence: Evidence) -> Finding:
        gap = difference(printed(evidence, f"thesis.{more}"), printed(evidence, f"thesis.{less}"))
        # The thesis subtracts what it prints, so the rounding of both decides nothing.
        return Finding(steady(gap.value), tolerance=1e-6, convention="published", note=ARITHMETIC)

    return finding


def _best(evidence: Evidence) -> Finding:
    """FedBoosting's best cell of Table 4.1 for each test set."""
    best = [
        max(printed(evidence, f"thesis.table-4-1.{row}").value for row in range(first, 77, 4))
        for first in range(53, 57)
    ]
    return Finding("/".join(f"{value:.2f}" for value in best), note=f"{ARITHMETIC}, each of another setting")  # fmt: skip


def _steps(other: str, batch: int, beside: int) -> Build:
    """Iterations of an epoch, from those that are printed for another batch size, a set ending midway in its last batch."""

    def finding(evidence: Evidence) -> Finding:
        known = [int(each) for each in str(evidence.fact("print", f"thesis.{other}")).split("/")]
        found = [int((steps + 0.5) * beside / batch) for steps in known]
        sizes = " and ".join(f"{steps * beside / 1e6:.2f}" for steps in known)
        return Finding(
            "/".join(map(str, found)),
            note=f"{ARITHMETIC}: from those at batch {beside}; they are whole sets of {sizes} million words, with nothing held out",
        )

    return finding


def _fallen(evidence: Evidence) -> Finding:
    plain, encrypted = (printed(evidence, f"thesis.table-4-3.{row}").value for row in (7, 10))
    return Finding(f"{plain:.2f} to about {encrypted:.0f}", note=ARITHMETIC)


def _lost(evidence: Evidence) -> Finding:
    gaps = [
        printed(evidence, f"thesis.table-4-3.{row}").value
        - printed(evidence, f"thesis.table-4-3.{row + 3}").value
        for row in (1, 2)
    ]
    return Finding("/".join(f"{round(gap, 2):g}" for gap in gaps), note=ARITHMETIC)


def _of_clients(evidence: Evidence, metric: str) -> list[list[float]]:
    """A number of both clients by round, of FedBoosting at 800/1 with the published data sets."""
    experiment = "thesis-table-4-1"
    learnt(evidence, experiment, PUBLISHED, BOOSTED)
    found = []
    for client in (0, 1):
        rows = select(
            evidence.table(experiment), f"table {experiment}", metric=metric, baseline="snapshot",
            **condition(PUBLISHED, BOOSTED) | {"client": client},
        )  # fmt: skip
        if rows.empty:
            raise NotMeasured(f"table {experiment} has no {metric} of client {client}")
        found.append(rows.sort_values("round")["mean"].astype(float).tolist())
    return found


def _weights(evidence: Evidence) -> Finding:
    own, _ = _of_clients(evidence, "weight")
    # "Approximate": to the nearest twentieth.
    share = 5 * round(100 * sum(own) / len(own) / 5)
    long = length(evidence, "thesis-table-4-1", PUBLISHED, BOOSTED)
    mean = f"the mean over rounds is {100 * sum(own) / len(own):.1f} % for {PUBLISHED}"
    return Finding(f"{share}/{100 - share}", note="; ".join(filter(None, (mean, long))))


def _by_training(evidence: Evidence) -> Finding:
    """The largest weight that training losses alone would have given Synth90K's client in any round."""
    losses = _of_clients(evidence, "training_loss")
    shares = [100 * other / (own + other) for own, other in zip(*losses, strict=True)]
    note = "of the losses of a run with both terms"
    return Finding(exactly(max(shares)), tolerance=ABOUT, note=note)


SCUT = "the thesis counts 1,162 of something, its scores are of 1,271 words, and the official set is of {train} and {test} words"
IC15 = "the whole of {test} is the official test set, of which the thesis says not how it used 1,811"
SETTINGS: dict[str, Build] = {
    "thesis.text-4-3-1.1": _setting("points", note="of the catalogue, a tenth of them for the test"),
    "thesis.text-4-3-1.2": _units,
    "thesis.text-4-3-1.3": _rate("gaussians-fedavg", "adam"),
    "thesis.text-4-3-2-1.1": _large("synth90k", 1),
    "thesis.text-4-3-2-1.2": _large("synthtext", 0),
    "thesis.text-4-3-2-1.3": _tested("iiit5k", "of the catalogue's description of the set"),
    "thesis.text-4-3-2-1.4": _tested("svt", "of the catalogue's description of the set"),
    "thesis.text-4-3-2-1.5": _unlike("scut-foru", SCUT),
    "thesis.text-4-3-2-1.6": _unlike("icdar2015", IC15),
    "thesis.text-4-3-2-1.7": _rate(
        "text-fedavg-1e800b-slow",
        "adadelta",
        "of the variant as stated; the code trains at 1.0, and so do the others",
    ),
    "thesis.text-4-3-2-1.8": _key,
    "thesis.text-4-3-2-1.9": _setting("pieces"),
    "thesis.text-4-3-2-1.10": _setting("trainings", "text-fedboosting-1e800b-he-fused", "fusion"),
    "thesis.text-4-2-2.1": _scale,
    "thesis.text-4-3-2-2.1": _gap("table-4-1.45", "table-4-1.25"),
    "thesis.text-4-3-2-2.2": _gap("table-4-1.40", "table-4-1.24"),
    "thesis.text-4-3-2-2.3": _best,
    "thesis.text-4-3-2-2.4": _steps("text-4-3-2-2.5", 800, 512),
    "thesis.text-4-3-2-2.5": _steps("text-4-3-2-2.4", 512, 800),
    "thesis.text-4-3-2-2.6": _lost,
    "thesis.text-4-3-2-2.7": _fallen,
    "thesis.text-4-3-2-2.8": _gap("table-4-3.9", "table-4-3.12"),
    "thesis.text-4-3-2-3.1": _weights,
    "thesis.text-4-3-2-3.2": _by_training,
}
