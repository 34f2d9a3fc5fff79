"""How the AGIC findings read result tables: names of what stands for what, and how long the attacks ran."""

from leakbench.scorecard import look, measure
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import Quantity
from leakbench.scorecard.measure import Measured

ITERATIONS = 10_000
# The first look at each update, before updates of several epochs are matched.
PRE_ITERATIONS = 2_000
NO_WEIGHTS = "needs torchvision's pretrained ResNet-50 weights"
METRICS = ("psnr", "ssim", "lpips_alex")

RESNET20 = {"cifar10": "resnet20-4", "cifar100": "resnet20-4-cifar100"}
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet": "ImageNet"}
BATCHES = {1: "agic-gradient", 4: "agic-gradient-batch4"}
TRAINED = "resnet20-4-trained"

# Table I: function of the layer -> attack, in the paper's order.
SHAPES = {
    "equal": "agic-equal-oracle",
    "falling convex": "agic-falling-convex-oracle",
    "falling concave": "agic-falling-concave-oracle",
    "falling line": "agic-falling-linear-oracle",
    "rising convex": "agic-rising-convex-oracle",
    "rising concave": "agic-rising-concave-oracle",
    "rising line": "agic-rising-linear-oracle",
}
# Figure 9: ratio of the last layer's weight to the first's -> attack.
UNTRAINED_BETAS = {b: f"agic-beta-{b}-oracle" for b in (1, 5, 10, 20)} | {50: "agic-oracle"}
PLAIN_BETAS = {b: f"agic-plain-beta-{b}-oracle" for b in (1, 5, 10, 20)} | {50: "agic-plain-oracle"}
TRAINED_BETAS = {b: f"agic-trained-beta-{b}-oracle" for b in (1, 2, 5, 20, 50)}
STEPS = (1, 2, 4, 8)
# Table V: (label filter, pooling) -> metric.
MATCHING = {
    (False, False): "matching_success_plain",
    (False, True): "matching_success_no_labels",
    (True, False): "matching_success_no_pooling",
    (True, True): "matching_success",
}
PASSES = {1: "agic-passes", 4: "agic-passes-batch4"}


def at(experiment: str, metric: str = "psnr", published: int = ITERATIONS, **where: object) -> Quantity:
    """The mean of a metric in one condition."""
    return look.at(experiment, metric, published, **where)


def resnet50(attack: str) -> str:
    """The variant of an attack with the weight of total variation that the paper gives for ResNet-50."""
    name, oracle, _ = attack.partition("-oracle")
    return f"{name}-resnet50{oracle}" if name in ("invg", "agic") else attack


def single_gradient(dataset: str, batch: int, attack: str, metric: str = "psnr") -> Quantity:
    """A cell of Table IV. Labels are given, as the paper assumes that they were inferred rightly; for single images of
    CIFAR-10 they are inferred, which cannot go wrong there.
    """
    name = f"{attack}-single" if (dataset, batch) == ("cifar10", 1) else f"{attack}-oracle"
    victim = "resnet50" if dataset == "imagenet" else RESNET20[dataset]
    return at(
        "agic-table-4", metric, dataset=dataset, victim=victim, federation=BATCHES[batch],
        attack=resnet50(name) if dataset == "imagenet" else name,
    )  # fmt: skip


def local_steps(dataset: str, attack: str, metric: str = "psnr") -> Quantity:
    """A cell of Table II: labels are inferred, for simulation in ascending order."""
    return at("agic-table-2", metric, dataset=dataset, attack=attack)


def shape(dataset: str, name: str) -> Quantity:
    """A cell of Table I."""
    return at("agic-table-1", dataset=dataset, attack=SHAPES[name])


def matching(batch: int, labels: bool, pooling: bool) -> Quantity:
    """A cell of Table V: how often an image of the second epoch was paired with itself in the first."""
    metric = MATCHING[labels, pooling]
    return at("agic-table-5", metric, published=PRE_ITERATIONS, federation=PASSES[batch])


def epoch(which: str, metric: str = "psnr") -> Quantity:
    """A row of Table VI: the images of epoch `1` or `2` alone, or of `1,2` together."""
    alone = {"1": 0, "2": 1}
    if which in alone:
        return at("agic-table-6", metric, attack="agic-one-batch", **{"pass": alone[which]})
    return at("agic-table-6", metric, attack="agic-joint", **{"pass": 0})


def seconds(evidence: Evidence, attack: str, steps: int) -> Measured:
    """Seconds that an attack on the updates of Figure 8 took, null baseline included."""
    return measure.exactly(float(evidence.fact("agic_seconds", attack, str(steps))))


def readings(evidence: Evidence) -> str:
    """Recorded runs of the readings of what the paper leaves open, best first, in words; empty without any."""
    if "agic-readings" not in evidence.recorded:
        return ""
    rows = measure.select(evidence.recorded["agic-readings"], "recorded agic-readings", metric="psnr")
    rows = rows.sort_values("mean", ascending=False)
    found = [
        f"{name.removeprefix('agic-reading-')}{' by batch statistics' * victim.endswith('-statistics')} {value:.1f}"
        for name, victim, value in zip(rows["attack"], rows["victim"], rows["mean"], strict=True)
    ]
    scales = " and ".join(sorted(rows["scale"].unique()))
    return (
        f"readings on {rows['n'].min()} other images, recorded at scale {scales}, in dB: {', '.join(found)}"
    )
