"""Findings for the qualitative claims about Fidel in `published/claims.csv`: each is a quantity against a
threshold.

Thresholds that the paper leaves open ("almost all", "far above", "small") are positions taken here; the
`check` column of claims.csv states each in words.
"""

from collections.abc import Callable

from leakbench.scorecard.architecture import output_side
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.fidel_numbers import CNN, FCNN, LEAKIEST, SETTINGS, curve, lead_of_leakiest, revealed
from leakbench.scorecard.measure import (
    Measured,
    average,
    difference,
    exactly,
    greatest,
    least,
    ratio,
    share_of_conditions,
    where_greatest,
)
from leakbench.scorecard.verdict import Finding, Relation

Quantity = Callable[[Evidence], Measured]
BOTH = ("mnist", "cifar10")
MOVING = {"victim": "fcnn-relu-dropout", "federation": "fidel-reveal-moving", "local_samples": 30}
SEVERAL = (2, 5, 10, 20, 30, 50, 100, 200)
MANY = (10, 20, 30, 50, 100, 200)
OTHERS = ("sigmoid", "tanh", "linear")


def at(experiment: str, metric: str, dataset: str, **where: object) -> Quantity:
    """The mean of a metric on one data set."""
    return lambda evidence: evidence.pick(experiment, metric=metric, dataset=dataset, **where)


def on_both(
    experiment: str, metric: str, combine: Callable[[list[Measured]], Measured] = least, **where: object
) -> Quantity:
    """The mean of a metric on MNIST and CIFAR-10: the smaller one, so that a claim must hold on both."""
    return lambda evidence: combine([at(experiment, metric, dataset, **where)(evidence) for dataset in BOTH])


def minus(a: Quantity, b: Quantity) -> Quantity:
    """The difference of two quantities."""
    return lambda evidence: difference(a(evidence), b(evidence))


def relu_over_others(evidence: Evidence, metric: str, k: int, states: tuple[str, ...]) -> Measured:
    """ReLU minus twice the best other activation at one set size, in the least favourable dropout state."""

    def point(setting: str) -> Measured:
        return revealed(evidence, FCNN, setting, k, metric)

    return least([difference(point(f"relu{s}"), point(f"{o}{s}"), times=2) for s in states for o in OTHERS])


def dropout_gain(evidence: Evidence, metric: str, sizes: tuple[int, ...]) -> Measured:
    """With dropout minus without, ReLU, averaged over set sizes."""
    with_dropout = curve(evidence, FCNN, LEAKIEST, metric, sizes)
    without = curve(evidence, FCNN, "relu", metric, sizes)
    return average([difference(with_dropout[k], without[k]) for k in sizes])


def fcnn_minus_cnn(evidence: Evidence, metric: str, sizes: tuple[int, ...]) -> Measured:
    """FCNN (Fig. 13) minus CNN with generator (Fig. 14), most leaky setting, averaged over set sizes."""
    fcnn, cnn = (curve(evidence, experiment, LEAKIEST, metric, sizes) for experiment in (FCNN, CNN))
    return average([difference(fcnn[k], cnn[k]) for k in sizes])


def fraction_kept(evidence: Evidence, experiment: str) -> Measured:
    """Revealed fraction at 30 samples relative to that at one sample."""
    points = curve(evidence, experiment, LEAKIEST, "revealed_fraction", (1, 30))
    return ratio(points[30], points[1])


def decline(evidence: Evidence, experiment: str) -> Measured:
    """Revealed fraction at 2 samples minus that at 100."""
    points = curve(evidence, experiment, LEAKIEST, "revealed_fraction", (2, 100))
    return difference(points[2], points[100])


def all_settings(evidence: Evidence, metric: str, sizes: tuple[int, ...]) -> list[Measured]:
    """Every point of Fig. 13: activations with and without dropout, at these set sizes."""
    return [point for setting in SETTINGS for point in curve(evidence, FCNN, setting, metric, sizes).values()]


def saturating(evidence: Evidence) -> Measured:
    """The most that sigmoid or tanh reveal at ten samples or more."""
    settings = [
        f"{activation}{dropout}" for activation in ("sigmoid", "tanh") for dropout in ("", "-dropout")
    ]
    return greatest([p for s in settings for p in curve(evidence, FCNN, s, "revealed", MANY).values()])


def training_gain(evidence: Evidence) -> Measured:
    """Revealed of 30 at the last checkpoint minus the first (untrained), in the less favourable dropout
    state.
    """
    epochs = evidence.values("fidel-training", "checkpoint", metric="revealed")

    def count(victim: str, epoch: object) -> Measured:
        return evidence.pick(
            "fidel-training", metric="revealed", victim=victim, local_samples=30, checkpoint=epoch
        )

    return least(
        [difference(count(v, epochs[-1]), count(v, epochs[0])) for v in ("fcnn-relu", "fcnn-relu-dropout")]
    )


def moving_gap(evidence: Evidence) -> Measured:
    """How far the count of a moving model is from that of a restored one at 30 samples: the larger of
    both signs.
    """
    moving = at("fidel-moving", "revealed", "mnist", **MOVING)(evidence)
    restored = revealed(evidence, FCNN, LEAKIEST, 30)
    return greatest([difference(moving, restored), difference(restored, moving)])


def padded_side(evidence: Evidence) -> Measured:
    """Output side of our CIFAR-10 generator if its third transposed convolution were padded as Table IV
    prints it.
    """
    layers = [dict(layer) for layer in evidence.fact("architectures", "generator-cifar10", "layers")]
    layers[4]["padding"] = "same"
    return exactly(output_side(layers))


def claim(
    quantity: Quantity, relation: Relation, against: float, tolerance: float = 0.0, note: str = ""
) -> Callable[[Evidence], Finding]:
    """A claim: this quantity stands in this relation to this threshold."""
    return lambda evidence: Finding(quantity(evidence), against, relation, tolerance, note=note)


CLAIMS: dict[str, Callable[[Evidence], Finding]] = {
    "fidel.text-II-A.exact": claim(on_both("fidel-figure-5", "mse", greatest), "<", 1e-4),
    "fidel.text-II-B.redundant": claim(on_both("fidel-figure-5", "isolating_neurons"), ">=", 2),
    "fidel.text-II-B.partial-update": claim(
        on_both("fidel-partial-update", "revealed_fraction", attack="fidel-combined"), ">", 0.5
    ),
    "fidel.fig-3.direction": claim(on_both("fidel-figure-5", "pearson"), ">=", 0.98),
    "fidel.fig-5.live-neurons": claim(on_both("fidel-figure-5", "isolating_share"), ">=", 0.98),
    "fidel.fig-5.dead-neurons": claim(on_both("fidel-figure-5", "usable_neurons", greatest), "<=", 127),
    "fidel.fig-6.features": claim(on_both("fidel-figure-6", "pearson"), ">=", 0.98),
    "fidel.fig-6.clearest-on-mnist": claim(
        minus(
            at("fidel-figure-6", "channel_pearson", "mnist"),
            at("fidel-figure-6", "channel_pearson", "cifar10"),
        ),
        ">",
        0,
    ),
    "fidel.text-III-B.similar-auxiliary": claim(
        minus(
            at("fidel-auxiliary", "pearson", "mnist", attack="fidel-generator"),
            at("fidel-auxiliary", "pearson", "mnist", attack="fidel-generator-fashion"),
        ),
        ">",
        0,
    ),
    "fidel.fig-8.content": claim(on_both("fidel-figure-8", "pearson"), ">=", 0.9),
    "fidel.fig-8.mnist-noisy": claim(at("fidel-figure-8", "tv_ratio", "mnist"), ">", 1),
    "fidel.fig-8.cifar-blurrier": claim(at("fidel-figure-8", "tv_ratio", "cifar10"), "<", 1),
    "fidel.fig-9.still-leaks": claim(on_both("fidel-figure-9", "revealed"), ">=", 1),
    "fidel.fig-9.isolates": claim(on_both("fidel-figure-9", "isolating_neurons"), ">=", 1),
    "fidel.fig-9.dead-neuron": claim(on_both("fidel-figure-9", "usable_neurons", least), "<=", 127),
    "fidel.fig-10.single-sample": claim(on_both("fidel-figure-10", "isolating_neurons"), ">=", 1),
    "fidel.fig-11.dominates": claim(at("fidel-figure-11", "revealed", "mnist"), ">=", 1),
    "fidel.fig-11.others-faint": claim(at("fidel-figure-11", "isolating_neurons", "mnist"), ">=", 1),
    "fidel.fig-12.below-threshold": claim(
        minus(
            at("fidel-figure-12", "pearson_unrevealed", "mnist"),
            at("fidel-figure-12", "pearson", "mnist", baseline="dataset-mean"),
        ),
        ">",
        0,
    ),
    "fidel.text-V-A.relu-isolates": claim(
        lambda e: relu_over_others(e, "isolating_neurons", 10, ("",)),
        ">",
        0,
        note="neurons that isolate the same sample each count here; Fig. 13 counts that sample once",
    ),
    "fidel.text-V-A.dropout-isolates": claim(lambda e: dropout_gain(e, "isolating_neurons", MANY), ">", 0),
    "fidel.fig-13.relu-above-others": claim(
        lambda e: relu_over_others(e, "revealed", 30, ("", "-dropout")), ">", 0
    ),
    "fidel.fig-13.dropout-raises": claim(lambda e: dropout_gain(e, "revealed", SEVERAL), ">", 0),
    "fidel.fig-13.above-one": claim(
        lambda e: share_of_conditions(all_settings(e, "revealed", SEVERAL), above=1), ">=", 0.9
    ),
    "fidel.fig-13.peak": claim(
        lambda e: where_greatest(curve(e, FCNN, LEAKIEST, "revealed", SEVERAL)), "=", 30, tolerance=20
    ),
    "fidel.fig-13.large-sets": claim(lambda e: revealed(e, FCNN, LEAKIEST, 200), ">=", 1),
    "fidel.text-V-B.wider-layer": claim(
        minus(
            at("fidel-width", "revealed", "mnist", victim="fcnn-relu-dropout-256", local_samples=30),
            at("fidel-width", "revealed", "mnist", victim="fcnn-relu-dropout", local_samples=30),
        ),
        ">",
        0,
    ),
    "fidel.text-V-B.cumulative": claim(
        minus(
            at("fidel-rounds", "revealed_cumulative", "mnist"),
            at("fidel-rounds", "revealed", "mnist"),
        ),
        ">",
        0,
    ),
    "fidel.fig-14.falls-faster": claim(
        lambda e: difference(fraction_kept(e, FCNN), fraction_kept(e, CNN)), ">", 0
    ),
    "fidel.fig-14.small-sets": claim(lambda e: revealed(e, CNN, LEAKIEST, 1, "revealed_fraction"), ">=", 0.9),
    "fidel.fig-14.only-small-sets": claim(
        lambda e: revealed(e, CNN, LEAKIEST, 50, "revealed_fraction"), "<", 0.5
    ),
    "fidel.fig-14.thirteen-of-twenty": claim(lambda e: revealed(e, CNN, LEAKIEST, 20), "=", 13, tolerance=1),
    "fidel.text-V-B.cnn-fewer": claim(lambda e: fcnn_minus_cnn(e, "revealed", SEVERAL), ">", 0),
    "fidel.text-V-B.generator-costs": claim(
        minus(
            at("fidel-figure-10", "revealed_fraction", "cifar10"),
            at("fidel-figure-15", "revealed_fraction", "cifar10"),
        ),
        ">",
        0,
    ),
    "fidel.fig-15.nearly-all": claim(on_both("fidel-figure-15", "pearson"), ">=", 0.8),
    "fidel.text-VI.low-cost": claim(
        lambda evidence: exactly(float(evidence.fact("attack_seconds"))), "<", 1, note="seconds per update"
    ),
    "fidel.text-VI.most-effective": claim(lambda e: lead_of_leakiest(e, FCNN, 30), ">", 0),
    "fidel.text-VI.small-sets": claim(lambda e: least([decline(e, FCNN), decline(e, CNN)]), ">", 0),
    "fidel.text-VII.complete": claim(
        lambda e: revealed(e, FCNN, LEAKIEST, 2, "revealed_fraction"), ">=", 0.95
    ),
    "fidel.doubt-1.twenty-not-twenty-three": claim(lambda e: revealed(e, FCNN, LEAKIEST, 30), "<", 21.5),
    "fidel.doubt-2.cnn-rate-similar": claim(
        lambda e: fcnn_minus_cnn(e, "revealed_fraction", (20,)), "<", 0.1
    ),
    "fidel.doubt-3.average-is-one-setting": claim(
        lambda e: average(all_settings(e, "revealed_fraction", (30,))), "<", 2 / 3
    ),
    "fidel.doubt-4.dropout-helps-attacker": claim(lambda e: dropout_gain(e, "revealed", (30,)), ">", 0),
    "fidel.doubt-5.table-4-padding": claim(padded_side, "=", 28),
    "fidel.doubt-5.auxiliary-disjoint": claim(
        lambda e: exactly(float(e.fact("auxiliary_private_overlap"))), "=", 0
    ),
    "fidel.expectation.more-training": claim(training_gain, ">", 0),
    "fidel.expectation.sigmoid-tanh": claim(saturating, "<", 1),
    "fidel.expectation.moving-model": claim(moving_gap, "<", 2),
}
