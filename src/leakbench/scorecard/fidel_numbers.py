"""Findings for the numbers and facts that the Fidel paper prints: its text, and the architectures of its
Tables I-IV.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from leakbench.scorecard.architecture import layer_text
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.measure import Measured, NotMeasured, difference, exactly, least
from leakbench.scorecard.verdict import Finding

ACTIVATIONS = ("relu", "sigmoid", "tanh", "linear")
LEAKIEST = "relu-dropout"
SETTINGS = tuple(f"{activation}{dropout}" for activation in ACTIVATIONS for dropout in ("", "-dropout"))
FCNN, CNN = "fidel-figure-13", "fidel-figure-14"
FAMILY = {FCNN: "fcnn", CNN: "cnn"}

# Table -> network in facts["architectures"], and how many layer rows it prints, the input included.
TABLES = {
    "table-1": ("FCNN", 5),
    "table-2": ("CNN", 7),
    "table-3": ("generator-mnist", 8),
    "table-4": ("generator-cifar10", 7),
}
HYPER = {
    "table-1": ("learning_rate", "loss", "optimizer", "batch_size"),
    "table-2": ("learning_rate", "loss", "optimizer", "batch_size"),
    "table-3": ("learning_rate", "rho", "loss", "optimizer"),
    "table-4": ("learning_rate", "rho", "loss", "optimizer"),
}
WHY = {
    "fidel.table-4.5": "'same' would make 28 pixels where CIFAR-10 needs 32; the authors' code uses valid",
}


def curve(
    evidence: Evidence, experiment: str, setting: str, metric: str, sizes: tuple[int, ...]
) -> dict[float, Measured]:
    """One curve of Fig. 13 or 14: local set size -> mean of the metric over the measurements."""
    victim = f"{FAMILY[experiment]}-{setting}"
    return {k: evidence.pick(experiment, metric=metric, victim=victim, local_samples=k) for k in sizes}


def revealed(evidence: Evidence, experiment: str, setting: str, k: int, metric: str = "revealed") -> Measured:
    """One point of Fig. 13 or 14."""
    return curve(evidence, experiment, setting, metric, (k,))[k]


def lead_of_leakiest(evidence: Evidence, experiment: str, k: int, times: float = 1.0) -> Measured:
    """Revealed samples with ReLU and dropout, minus those of the next best setting."""
    top = revealed(evidence, experiment, LEAKIEST, k)
    others = (revealed(evidence, experiment, setting, k) for setting in SETTINGS if setting != LEAKIEST)
    return least([difference(top, other, times) for other in others])


def _revealed_count(
    experiment: str, k: int, tolerance: float, metric: str = "revealed"
) -> Callable[[Evidence], Finding]:
    def finding(evidence: Evidence) -> Finding:
        measured = revealed(evidence, experiment, LEAKIEST, k, metric)
        holds = lead_of_leakiest(evidence, experiment, k).value > 0
        return Finding(
            measured,
            tolerance=tolerance,
            direction_holds=holds,
            note="ReLU with dropout, the most leaky setting of the paper",
        )

    return finding


def _above_one(evidence: Evidence) -> Finding:
    points = curve(evidence, FCNN, LEAKIEST, "revealed", (2, 5, 10, 20, 30, 50, 100, 200))
    return Finding(
        least(list(points.values())),
        note="ReLU with dropout, the smallest mean over k = 2 to 200; all settings: see the claim",
    )


def _measurements(experiment: str) -> Callable[[Evidence], Finding]:
    def finding(evidence: Evidence) -> Finding:
        counts = evidence.values(experiment, "n", metric="revealed")
        return Finding(
            exactly(min(counts, default=math.nan)),
            relation=">=",
            note="fewest measurements behind a point of the figure",
        )

    return finding


def _local_samples(experiment: str, **where: object) -> Callable[[Evidence], Finding]:
    def finding(evidence: Evidence) -> Finding:
        return Finding(",".join(f"{k:g}" for k in evidence.values(experiment, "local_samples", **where)))

    return finding


def _configured(key: str) -> Callable[[Evidence], Finding]:
    return lambda evidence: Finding(str(evidence.fact(key)))


def _minutes(evidence: Evidence) -> Finding:
    minutes = evidence.fact("generator_minutes")
    if not minutes:
        raise NotMeasured("no generator was trained")
    return Finding(exactly(max(float(value) for value in minutes.values())), relation="<=")


def _first_dense(evidence: Evidence, network: str) -> int:
    return next(
        int(layer["size"])
        for layer in evidence.fact("architectures", network, "layers")
        if layer["layer"] == "dense"
    )


def _channels(evidence: Evidence) -> Finding:
    convolution = next(
        layer for layer in evidence.fact("architectures", "CNN", "layers") if layer["layer"] == "conv2d"
    )
    filters = int(re.findall(r"\d+", convolution["size"])[-1])
    return Finding(str(filters * _first_dense(evidence, "CNN")))


def _tiles(dataset: str) -> Callable[[Evidence], Finding]:
    def finding(evidence: Evidence) -> Finding:
        usable = {
            d: evidence.pick("fidel-figure-15", metric="usable_neurons", dataset=d)
            for d in ("mnist", "cifar10")
        }
        return Finding(
            usable[dataset],
            tolerance=10,
            direction_holds=usable["cifar10"].value > usable["mnist"].value,
            note="the figure fills rows of ten tiles, hence the tolerance; ordering: CIFAR-10 above MNIST",
        )

    return finding


NUMBERS: dict[str, Callable[[Evidence], Finding]] = {
    "fidel.text-abstract.1": _revealed_count(FCNN, 30, tolerance=1),
    "fidel.text-conclusion.1": _revealed_count(FCNN, 30, tolerance=1),
    "fidel.text-V-B.1": _revealed_count(FCNN, 30, tolerance=1 / 30, metric="revealed_fraction"),
    "fidel.text-abstract.2": _revealed_count(CNN, 20, tolerance=0),
    "fidel.text-conclusion.2": _revealed_count(CNN, 20, tolerance=0),
    "fidel.text-V-B.2": _configured("correlation_threshold"),
    "fidel.fig-13.1": _above_one,
    "fidel.fig-13.2": _measurements(FCNN),
    "fidel.fig-14.1": _measurements(CNN),
    "fidel.text-III-A.1": lambda evidence: Finding(str(_first_dense(evidence, "FCNN"))),
    "fidel.text-III-B.1": _channels,
    "fidel.text-III-B.2": _configured("auxiliary_samples"),
    "fidel.text-III-B.3": _configured("private_pool"),
    "fidel.text-III-B.4": _minutes,
    "fidel.text-IV-B.1": _local_samples("fidel-figure-9"),
    "fidel.fig-11.1": _local_samples("fidel-figure-11", dataset="mnist"),
    "fidel.fig-15.1": _tiles("mnist"),
    "fidel.fig-15.2": _tiles("cifar10"),
}


def _layer(network: str, index: int, note: str) -> Callable[[Evidence], Finding]:
    def finding(evidence: Evidence) -> Finding:
        layers: list[dict[str, Any]] = evidence.fact("architectures", network, "layers")
        return Finding(layer_text(layers[index]) if index < len(layers) else "", note=note)

    return finding


def _hyper(network: str, key: str) -> Callable[[Evidence], Finding]:
    # A parameter that our optimiser does not have is a fact too, so it is compared, not skipped.
    return lambda evidence: Finding(str(evidence.fact("architectures", network, "hyper").get(key, "none")))


def _architecture_rows() -> dict[str, Callable[[Evidence], Finding]]:
    rows: dict[str, Callable[[Evidence], Finding]] = {}
    for table, (network, layers) in TABLES.items():
        ids = [f"fidel.{table}.{row}" for row in range(1, layers + len(HYPER[table]) + 1)]
        rows |= {row: _layer(network, index, WHY.get(row, "")) for index, row in enumerate(ids[:layers])}
        rows |= {row: _hyper(network, key) for key, row in zip(HYPER[table], ids[layers:], strict=True)}
    return rows


NUMBERS |= _architecture_rows()
