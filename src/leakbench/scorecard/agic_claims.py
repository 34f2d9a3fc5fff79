"""Findings for the qualitative claims about AGIC in `published/claims.csv`: each is a quantity against a threshold.

Attacks that ran for fewer than `look.ENOUGH` steps decide no claim about quality.
"""

from collections.abc import Callable, Mapping

import pandas as pd

from leakbench.scorecard import agic_evidence as agic
from leakbench.scorecard.agic_evidence import (
    at,
    epoch,
    local_steps,
    matching,
    shape,
    single_gradient,
)
from leakbench.scorecard.agic_numbers import (
    CELLS_OF_TABLE_4,
    largest_gain,
    modifier_gain,
    over_best,
    pairs,
    untrained,
)
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import Build, Look, Quantity, best, claim, minus, not_measured, smallest
from leakbench.scorecard.measure import (
    Measured,
    difference,
    exactly,
    greatest,
    least,
    ratio,
    share_of_conditions,
    where_greatest,
)
from leakbench.scorecard.verdict import Finding, Relation

CIFAR = tuple(agic.RESNET20)
FALLING = tuple(name for name in agic.SHAPES if name.startswith("falling"))
NO_IMAGENET = f"ImageNet is left out: it {agic.NO_WEIGHTS}"


def timed(quantity: Callable[[Evidence], Measured], relation: Relation, against: float) -> Build:
    """A claim about seconds, which need no long run."""
    return lambda evidence: Finding(
        quantity(evidence), against, relation, note="on this machine, not on a GPU"
    )


def trained(beta: int) -> Quantity:
    """A point of Figure 9 on the trained network."""
    return at("agic-figure-9", victim=agic.TRAINED, attack=agic.TRAINED_BETAS[beta])


def best_gain(point: Callable[[int], Quantity], betas: Mapping[int, str]) -> Quantity:
    """PSNR at the best ratio above 1 minus that at ratio 1."""
    return best(*(minus(point(beta), point(1)) for beta in betas if beta > 1))


def best_beta(point: Callable[[int], Quantity], betas: Mapping[int, str]) -> Quantity:
    """The ratio at which PSNR is greatest."""
    return lambda look: where_greatest({float(beta): point(beta)(look) for beta in betas})


def modifier_over_betas(look: Look) -> Measured:
    """The smallest difference of PSNR that the ReLU modifier makes over the ratios."""
    return least(
        [difference(untrained(b)(look), untrained(b, modifier=False)(look)) for b in agic.UNTRAINED_BETAS]
    )


def rank_correlation(look: Look) -> Measured:
    """Spearman's rank correlation of ratio and PSNR over Figure 10, from the means over its images."""
    betas = [1, 5, 10, 20]
    points = [at("agic-figure-10", attack=agic.UNTRAINED_BETAS[beta])(look) for beta in betas]
    ranks = pd.Series([point.value for point in points]).rank()
    return exactly(float(ranks.corr(pd.Series(betas).rank())), min(point.n for point in points))


def at_steps(attack: str, steps: int) -> Quantity:
    """A point of Figure 8a."""
    return at("agic-figure-8", federation=f"agic-fedavg-steps-{steps}", attack=attack)


def slower(attack: str) -> Callable[[Evidence], Measured]:
    """Seconds at eight local steps over those at one (Figure 8b)."""
    return lambda evidence: ratio(agic.seconds(evidence, attack, 8), agic.seconds(evidence, attack, 1))


def faster(evidence: Evidence) -> Measured:
    """InvG's seconds over AGIC's at eight local steps."""
    return ratio(agic.seconds(evidence, "invg", 8), agic.seconds(evidence, "agic", 8))


def over_baselines(cell: Callable[[str], Quantity]) -> Quantity:
    """AGIC's PSNR minus the better baseline's."""
    return minus(cell("agic"), best(cell("dlg-adam"), cell("invg")))


def table_2(dataset: str) -> Callable[[str], Quantity]:
    """The cells of one data set of Table II, by attack."""
    return lambda attack: local_steps(dataset, attack)


def batch_4(dataset: str) -> Callable[[str], Quantity]:
    """The cells of one data set of Table IV at batch 4, by attack."""
    return lambda attack: single_gradient(dataset, 4, attack)


def cells_with_half_more(look: Look) -> Measured:
    """How many cells of Tables II and IV have a gain of 45 % or more over both baselines."""
    found = [cell(look) for cell in CELLS_OF_TABLE_4.values()]
    found += [over_best(look, table_2(dataset)) for dataset in CIFAR]
    share = share_of_conditions(found, above=1.45)
    count = len(found)
    return Measured(count * share.value, count * share.low, count * share.high, share.n)


def pooling_pattern(look: Look) -> Measured:
    """The least of what pooling adds in three cells of Table V and takes away in the fourth."""

    def gain(batch: int, labels: bool) -> Measured:
        with_pooling, without = (matching(batch, labels, pooling)(look) for pooling in (True, False))
        exception = labels and batch == 1
        return difference(without, with_pooling) if exception else difference(with_pooling, without)

    return least([gain(batch, labels) for batch in agic.PASSES for labels in (False, True)])


def equal_weights_gap(look: Look) -> Measured:
    """How far AGIC without weights is from InvG on the same single images: the larger of both signs."""
    plain, invg = (at("agic-readings", attack=name)(look) for name in ("agic-reading-equal", "invg"))
    return greatest([difference(plain, invg), difference(invg, plain)])


def shapes_best(dataset: str) -> Quantity:
    """PSNR of the rising line minus the best other shape's."""
    return minus(
        shape(dataset, "rising line"), best(*(shape(dataset, n) for n in agic.SHAPES if n != "rising line"))
    )


def above_falling(dataset: str) -> Quantity:
    """PSNR of equal weights minus the best falling shape's."""
    return minus(shape(dataset, "equal"), best(*(shape(dataset, name) for name in FALLING)))


FIGURE_7 = {name: at("agic-figure-7", attack=agic.resnet50(name)) for name in ("dlg-adam", "invg", "agic")}
LARGE_LR = {
    lr: at("agic-large-lr", federation=federation)
    for lr, federation in (("1e-4", "agic-fedavg"), ("1e-2", "agic-fedavg-large-lr"))
}

CLAIMS: dict[str, Build] = {
    "agic.text-abstract.gradient-gain": claim(largest_gain, ">=", 1.4),
    "agic.text-abstract.five-times-faster": timed(faster, ">=", 4),
    "agic.fig-6.agic-near-truth": claim(at("agic-figure-6", "ssim", attack="agic-single"), ">=", 0.95),
    "agic.fig-7.agic-closest": claim(over_baselines(lambda name: FIGURE_7[name]), ">", 1),
    "agic.fig-8a.agic-above": claim(
        smallest(*(minus(at_steps("agic", t), at_steps("invg", t)) for t in agic.STEPS)), ">", 0
    ),
    "agic.fig-8a.both-fall": claim(
        smallest(*(minus(at_steps(attack, 1), at_steps(attack, 8)) for attack in ("agic", "invg"))), ">", 0
    ),
    "agic.fig-8b.invg-grows": timed(slower("invg"), ">", 2),
    "agic.fig-8b.agic-flat": timed(slower("agic"), "<", 1.2),
    "agic.fig-9.untrained-rise": claim(best_gain(untrained, agic.UNTRAINED_BETAS), ">", 2),
    "agic.fig-9.trained-weaker": claim(
        minus(best_gain(untrained, agic.UNTRAINED_BETAS), best_gain(trained, agic.TRAINED_BETAS)), ">", 0
    ),
    "agic.fig-9.trained-optimum-lower": claim(
        minus(best_beta(untrained, agic.UNTRAINED_BETAS), best_beta(trained, agic.TRAINED_BETAS)), ">", 0
    ),
    "agic.fig-9.trained-still-helps": claim(best_gain(trained, agic.TRAINED_BETAS), ">", 0),
    "agic.fig-9.modifier-helps": claim(modifier_over_betas, ">", 0),
    "agic.fig-9.modifier-bound": claim(modifier_gain, "<=", 2),
    "agic.fig-10.quality-with-beta": claim(rank_correlation, ">", 0.8, note="over the mean of all images"),
    "agic.table-1.linear-best": claim(smallest(*map(shapes_best, CIFAR)), ">", 0),
    "agic.table-1.falling-worse": claim(smallest(*map(above_falling, CIFAR)), ">", 0),
    "agic.table-2.full-agic-best": claim(
        smallest(*(over_baselines(table_2(dataset)) for dataset in CIFAR)), ">", 0, note=NO_IMAGENET
    ),
    "agic.table-3.second-epoch-helps": claim(minus(pairs("agic-joint-assumed"), pairs("agic")), ">", 0),
    "agic.table-4.batch-4": claim(
        smallest(*(over_baselines(batch_4(dataset)) for dataset in ("cifar10", "imagenet"))), ">", 0
    ),
    "agic.text-V-D.high-success": claim(matching(1, True, False), ">=", 0.95),
    "agic.table-6.joint-better": claim(minus(epoch("1,2"), best(epoch("1"), epoch("2"))), ">", 0),
    "agic.text-IV-A.large-lr": claim(minus(LARGE_LR["1e-4"], LARGE_LR["1e-2"]), ">", 2),
    "agic.related-work.invg-labels": claim(
        minus(local_steps("cifar10", "invg-oracle"), local_steps("cifar10", "invg")), ">", 0,
        note="inferred labels in ascending order stand for shuffled ones",
    ),
    "agic.doubt-6.fifty-percent": claim(cells_with_half_more, "=", 1, note=NO_IMAGENET + " in Table II"),
    "agic.doubt-7.one-batch-loses": claim(
        minus(local_steps("cifar100", "agic-one-batch"), local_steps("cifar100", "invg")), "<", 0, note=NO_IMAGENET
    ),
    "agic.doubt-7.lpips-imagenet": claim(
        minus(
            single_gradient("imagenet", 4, "agic", "lpips_alex"), single_gradient("imagenet", 4, "invg", "lpips_alex")
        ),
        ">", 0, note="Table IV alone: for Table II ImageNet " + agic.NO_WEIGHTS,
    ),
    "agic.doubt-8.equal-weights-mismatch": claim(equal_weights_gap, "<=", 0.2),
    "agic.doubt-9.pooling-exception": claim(pooling_pattern, ">", 0),
    "agic.doubt-9.lpips-order": claim(
        best(*(minus(epoch("2", metric), epoch("1", metric)) for metric in ("lpips_alex", "psnr"))), "<", 0
    ),
    "agic.doubt-10.one-batch-trivial": not_measured(
        "no experiment compares an update with the gradient of its union batch"
    ),
}  # fmt: skip
