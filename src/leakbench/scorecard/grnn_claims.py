"""Findings for the claims of chapter 3 of Ren's thesis in `published/claims.csv`: each a quantity against a threshold."""

from functools import partial

from leakbench.scorecard import grnn_evidence as grnn
from leakbench.scorecard import look as looking
from leakbench.scorecard.grnn_evidence import batch, noise, single
from leakbench.scorecard.look import Build, Look, Quantity, at, best, minus, smallest
from leakbench.scorecard.measure import Measured, average, difference, exactly

NAMES = tuple(grnn.DATASETS)
claim = partial(looking.claim, stand_ins=grnn.STAND_INS)
lenet = partial(single, victim=grnn.LENET)
sized = partial(batch, victim=grnn.LENET)


def _mean(*parts: Quantity) -> Quantity:
    def quantity(look: Look) -> Measured:
        return average([part(look) for part in parts])

    return quantity


def _loss(attack: str, metric: str = "psnr") -> Quantity:
    return at("thesis-table-3-12", metric, 1000, attack=attack)


def _states(attack: str, victim: str, dataset: str) -> Quantity:
    both = (single(attack, victim, dataset, state) for state in grnn.STATES)
    return minus(*both)


def _above(quantity: Quantity, threshold: float) -> Quantity:
    """How far a quantity is above a threshold."""
    return lambda look: difference(quantity(look), exactly(threshold))


def _below(quantity: Quantity, threshold: float) -> Quantity:
    """How far a quantity is below a threshold."""
    return lambda look: difference(exactly(threshold), quantity(look))


def _gradually(dataset: str) -> Quantity:
    """Image error at a tenth of the iterations minus the final one, of GRNN on an untrained network."""
    condition = {
        "dataset": grnn.DATASETS[dataset], "victim": grnn.LENET, "attack": "grnn", "federation": grnn.federation(grnn.DATASETS[dataset], 1)
    }  # fmt: skip
    early = at("thesis-table-3-4", "mse", 1000, **condition, baseline="snapshot", iterations=100)
    return minus(early, at("thesis-table-3-4", "mse", 1000, **condition))


def _coarse(attack: str, dataset: str) -> Quantity:
    """The coarse share of the error of the first image on the way with half of the final SSIM."""
    condition = {
        "dataset": grnn.DATASETS[dataset], "victim": grnn.LENET, "attack": attack, "federation": grnn.federation(grnn.DATASETS[dataset], 1)
    }  # fmt: skip

    def quantity(look: Look) -> Measured:
        def on_the_way(metric: str, **more: object) -> Measured:
            return look.mean("thesis-table-3-4", metric, grnn.LENGTH[attack], **condition, **more)

        half = on_the_way("ssim").value / 2
        own = look.where("thesis-table-3-4", "ssim", **condition)
        kept = look.evidence.values(
            "thesis-table-3-4", "iterations", metric="ssim", baseline="snapshot", **own
        )
        for steps in kept:
            if on_the_way("ssim", baseline="snapshot", iterations=steps).value >= half:
                return on_the_way("coarse_error", baseline="snapshot", iterations=steps)
        return on_the_way("coarse_error")

    return quantity


def _colours(dataset: str, size: int) -> Quantity:
    """How much nearer the mean colours of failed images are than those of the data set's mean image."""
    own, null = (
        at(
            "thesis-table-3-6", "colour_error", 1000, dataset=grnn.DATASETS[dataset], victim=grnn.LENET, attack="grnn",
            federation=grnn.federation(grnn.DATASETS[dataset], size), baseline=baseline,
        )
        for baseline in ("", "dataset-mean")
    )  # fmt: skip
    return minus(null, own)


OTHER_LOSSES = ("squares", "norm", "cosine", "squares-norm", "squares-cosine", "squares-cosine-tv")
BOTH_NOISES = ("gaussian", "laplacian")

CLAIMS: dict[str, Build] = {
    "thesis.table-3-2.recognisable": claim(
        smallest(*(lenet("grnn", dataset=d, state="non-converged", metric="ssim") for d in NAMES)), ">=", 0.5
    ),
    "thesis.table-3-2.gradual": claim(smallest(*(_gradually(d) for d in NAMES)), ">", 0),
    "thesis.table-3-3.recognisable": claim(
        smallest(*(lenet("grnn", dataset=d, state="converged", metric="ssim") for d in NAMES)), ">=", 0.3
    ),
    "thesis.table-3-3.worse": claim(
        _mean(
            *(_states("grnn", grnn.LENET, d) for d in NAMES),
            *(_states("grnn-resnet18", grnn.RESNET, d) for d in NAMES),
        ),
        ">",
        0,
    ),
    "thesis.fig-3-3.dlg-batch-1": claim(
        _mean(*(minus(*(sized(a, dataset=d, size=1, metric="mse") for a in ("dlg", "grnn"))) for d in NAMES)),
        "<",
        0,
    ),
    "thesis.fig-3-3.dlg-only-mnist": claim(
        smallest(
            *(_above(sized("dlg", dataset="MNIST", size=n), 0.5) for n in (4, 8)),
            *(_below(sized("dlg", dataset=d, size=n), 0.5) for d in ("CIFAR-100", "LFW") for n in (4, 8)),
        ),
        ">=",
        0,
    ),
    "thesis.fig-3-3.dlg-fails-16": claim(best(*(sized("dlg", dataset=d, size=16) for d in NAMES)), "<", 0.5),
    "thesis.fig-3-3.grnn-converges": claim(
        smallest(*(sized("grnn", dataset=d, size=n) for d in NAMES for n in (1, 4, 8, 16))), ">=", 0.5
    ),
    "thesis.fig-3-4.lower-loss": claim(
        minus(*(sized(a, dataset="CIFAR-100", size=32, metric="gradient_mse") for a in ("dlg", "grnn"))),
        "<",
        0,
    ),
    "thesis.fig-3-4.no-image": claim(
        minus(*(sized(a, dataset="CIFAR-100", size=32) for a in ("dlg", "grnn"))), "<", 0
    ),
    "thesis.table-3-5.coarse-to-fine": claim(
        minus(*(_coarse(a, "CIFAR-100") for a in ("grnn", "dlg"))), "<", 0
    ),
    "thesis.table-3-7.colours-kept": claim(
        smallest(_colours("CIFAR-100", 256), _below(sized("grnn", dataset="CIFAR-100", size=256), 0.5)),
        ">",
        0,
    ),
    "thesis.table-3-8.dlg-batch-1-only": claim(sized("dlg", dataset="CIFAR-100", size=4), "<", 0.5),
    "thesis.table-3-8.grnn-recognisable": claim(sized("grnn", dataset="CIFAR-100", size=64), ">=", 0.5),
    "thesis.table-3-12.full-loss-best": claim(
        minus(_loss("grnn"), best(*(_loss(f"grnn-{name}") for name in OTHER_LOSSES))), ">", 0
    ),
    "thesis.table-3-12.tv-wd-artefacts": claim(
        minus(_loss("grnn-squares", "tv_ratio"), _loss("grnn", "tv_ratio")), ">", 0
    ),
    "thesis.table-3-13.labels": claim(
        smallest(
            *(
                minus(*(sized(a, dataset=d, size=256, metric="label_accuracy") for a in ("grnn", "dlg")))
                for d in NAMES
            )
        ),
        ">",
        0,
    ),
    "thesis.fig-3-6.fails-at-strong-noise": claim(
        best(*(noise("grnn", "MNIST", kind, "1e-1", metric="ssim") for kind in BOTH_NOISES)), "<", 0.2
    ),
    "thesis.fig-3-6.works-below": claim(
        smallest(*(noise("grnn", "MNIST", kind, "1e-2", metric="ssim") for kind in BOTH_NOISES)), ">=", 0.5
    ),
    "thesis.text-3-3-5.label-survives": claim(
        smallest(*(noise("grnn", "MNIST", kind, "1e-1", metric="label_accuracy") for kind in BOTH_NOISES)),
        ">",
        0.1,
        note="chance is one of ten",
    ),
    "thesis.doubt-12.resnet-batches": claim(batch("grnn-resnet18", grnn.RESNET, "CIFAR-100", 8), ">=", 0.5),
    "thesis.doubt-14.noise-helps": claim(
        minus(noise("grnn", "MNIST", "gaussian", "1e-4"), noise("grnn", "MNIST", "none", "")), "=", 0
    ),
    "thesis.doubt-17.label-tie": claim(
        _mean(
            *(
                minus(*(sized(a, dataset=d, size=1, metric="label_accuracy") for a in ("grnn", "dlg")))
                for d in NAMES
            )
        ),
        "=",
        0,
    ),
    "thesis.doubt-19.wd-not-wasserstein": claim(minus(_loss("grnn"), _loss("grnn-wasserstein")), ">", 0),
}
