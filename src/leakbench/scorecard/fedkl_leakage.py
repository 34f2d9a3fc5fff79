"""Every number and claim about what leaks under the key-lock (chapter 5 of Ren's thesis), beside what we measured."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import pandas as pd

from leakbench.scorecard import look as looking
from leakbench.scorecard.evidence import Absent, Evidence, collect
from leakbench.scorecard.grnn_resolution import LEVELS
from leakbench.scorecard.look import Build, Look, Quantity, at, best, minus, number, smallest
from leakbench.scorecard.measure import (
    Measured,
    NotMeasured,
    average,
    difference,
    exactly,
    ratio,
    scaled,
    within,
)
from leakbench.scorecard.verdict import Finding

DATASETS = {"MNIST": "mnist-32", "C-10": "cifar10", "C-100": "cifar100"}
# What anybody can fetch, on which a claim is judged where the thesis' own set is absent. Numbers are not.
STAND_INS = {"cifar100": "cifar10", "cifar100-256": "cifar10-256"}
LENET, RESNET20, RESNET18 = "lenet-dlg", "resnet20-sigmoid", "resnet18-sigmoid"
# Steps in the authors' code.
LENGTH = {"dlg": 500, "grnn": 20000, "grnn-resnet18": 20000, "ggl": 500}
# Printed name → ours: the thesis' columns, each without and with the lock.
METRICS = {
    "mse": "rmse_255",
    "psnr": "psnr_of_rmse",
    "lpips_vgg": "lpips_vgg_raw255_bgr",
    "lpips_alex": "lpips_alex_raw255_bgr",
    "ssim": "ssim",
}
# Attack, victim, data set of each row of Table 5.6, in its order.
ROWS = (
    *product(["dlg"], [LENET], DATASETS.values()),
    *product(["grnn"], [LENET, RESNET20], DATASETS.values()),
    *product(["grnn-resnet18"], [RESNET18], ["cifar10-256", "cifar100-256", "imagenet"]),
    ("ggl", RESNET18, "imagenet"),
)
# What the text tells of Table 5.5, and what the table lists.
DESCRIBED = {"black grouse", "sweatshirt", "basset hound", "pig", "bedlington terrier"}
LISTED = {"black grouse", "tiger beetle", "cliff dwelling", "basset hound", "sweatshirt"}

claim = partial(looking.claim, stand_ins=STAND_INS)


def leak(
    attack: str, victim: str, dataset: str, locked: bool, metric: str, table: str = "6", shares: str = ""
) -> Quantity:
    """A cell of Tables 5.4 to 5.7. LeNet has batch norm only where it has a lock; `shares`: a sharing strategy's name."""
    large = dataset.endswith(("-256", "imagenet"))
    relu = victim == LENET
    lock = "-".join(filter(None, ["key-lock", "" if relu else "sigmoid", shares]))
    where: dict[str, object] = {
        "dataset": dataset, "attack": attack, "defence": lock if locked else "none",
        "convention": "standard" if metric in ("ssim", "psnr", "mse", "label_accuracy") else "published",
    }  # fmt: skip
    length = LENGTH[attack.removesuffix("-adapted")]
    if attack.startswith("ggl"):
        return at("thesis-table-5-5", metric, length, **where)
    network = f"{victim}-batch-norm" if relu and locked else victim
    federation = "grnn-large" if large else "grnn"
    return at(f"thesis-table-5-{table}", metric, length, victim=network, federation=federation, **where)


def _adapted(quantity: Quantity) -> Callable[[Evidence], str]:
    """What a lock is worth against who knows of it, in words; empty where that was not measured."""

    def told(evidence: Evidence) -> str:
        try:
            found = quantity(Look(evidence, stand_ins=STAND_INS))
        except NotMeasured:
            return ""
        return f"by who knows of the lock: {found.value:.4g} ({found.low:.4g} to {found.high:.4g})"

    return told


def _table_5_6() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    cells = product(ROWS, METRICS.values(), (False, True))
    for place, ((attack, victim, dataset), metric, locked) in enumerate(cells, 1):
        of = partial(leak, attack, victim, dataset, metric=metric)
        rows[f"thesis.table-5-6.{place}"] = number(
            of(locked), metric, of(not locked), not locked,
            told=_adapted(leak(f"{attack}-adapted", victim, dataset, True, metric)) if locked else None,
            convention="published" if metric != "ssim" else "standard",
        )  # fmt: skip
    return rows


def _increase(attack: str) -> Build:
    """By how many percent the printed "MSE", a root, is larger with the lock."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        with_lock, without = (
            leak(attack, LENET, "mnist-32", locked, "rmse_255")(look) for locked in (True, False)
        )
        more = scaled(difference(ratio(with_lock, without), exactly(1)), 100)
        return Finding(
            more, tolerance=5.0, direction_holds=more.value > 0, convention="published", note=look.note
        )

    return finding


def _of_both(locked: bool) -> Build:
    """The printed PSNR of DLG and GRNN, averaged over the sets that were measured."""
    cells = [leak(a, LENET, d, locked, "psnr_of_rmse") for a in ("dlg", "grnn") for d in DATASETS.values()]

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence, stand_ins=STAND_INS)
        return Finding(average([cell(look) for cell in cells]), convention="published", note=look.note)

    return finding


def _change(metrics: tuple[str, ...]) -> Build:
    """A metric of GGL without and with the lock, as the text prints it."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        without, with_lock = (
            "/".join(
                f"{leak('ggl', RESNET18, 'imagenet', locked, metric)(look).value:.{3 if metric == 'ssim' else 2}f}"
                for metric in metrics
            )
            for locked in (False, True)
        )
        return Finding(f"{without} to {with_lock}", note=look.note)

    return finding


def _roots(evidence: Evidence) -> Finding:
    """How far RMSE under the lock is inside the printed range, unless the mean squared error is inside it too."""
    look = Look(evidence, looking.ENOUGH, stand_ins=STAND_INS)
    cells = [(attack, dataset) for attack in ("dlg", "grnn") for dataset in DATASETS.values()]
    root, square = (
        average([leak(attack, LENET, dataset, True, metric)(look) for attack, dataset in cells])
        for metric in ("rmse_255", "mse")
    )
    middle, room = (63 + 141) / 2, (141 - 63) / 2
    apart = abs(LEVELS * square.value - middle) > room
    told = f"RMSE {root.value:.0f}, MSE {LEVELS * square.value:.0f} on 0..255, printed 63 to 141"
    margin = within(root, middle, room)
    return Finding(
        margin if apart else exactly(-1.0), 0, ">", note="; ".join(filter(None, [told, look.note]))
    )


def _below(quantity: Quantity, threshold: float) -> Quantity:
    return lambda look: difference(exactly(threshold), quantity(look))


def _above(quantity: Quantity, threshold: float) -> Quantity:
    return lambda look: difference(quantity(look), exactly(threshold))


def _shared(shares: str) -> Quantity:
    """SSIM of GRNN on LeNet at 32 pixels under a sharing strategy."""
    return leak("grnn", LENET, "cifar100", True, "ssim", "7", shares)


def _images(attack: str, dataset: str, locked: bool, victim: str = LENET) -> Quantity:
    return leak(attack, victim, dataset, locked, "ssim", "4")


def _readable(attacker: str) -> Quantity:
    """The best SSIM behind LeNet's lock."""
    return best(*(_images(a + attacker, d, True) for a in ("dlg", "grnn") for d in DATASETS.values()))


def _bn_alone(look: Look) -> Measured:
    control = "lenet-dlg-batch-norm"
    return average(
        [
            at(
                "thesis-table-5-4",
                "ssim",
                LENGTH["dlg"],
                dataset=d,
                attack="dlg",
                victim=control,
                defence="none",
            )(look)
            for d in DATASETS.values()
        ]
    )


def _ggl(metric: str, locked: bool) -> Quantity:
    return leak("ggl", RESNET18, "imagenet", locked, metric)


NUMBERS: dict[str, Build] = {
    **_table_5_6(),
    "thesis.text-5-3-1.1": lambda evidence: Finding(f"{evidence.fact('key_length'):g}"),
    "thesis.text-5-3-3.1": _increase("grnn"),
    "thesis.text-5-3-3.2": _increase("dlg"),
    "thesis.text-5-3-3.3": _of_both(True),
    "thesis.text-5-3-3.4": _of_both(False),
    "thesis.text-5-3-3.5": _change(("lpips_vgg_raw255_bgr", "lpips_alex_raw255_bgr")),
    "thesis.text-5-3-3.6": _change(("ssim",)),
}

CLAIMS: dict[str, Build] = {
    "thesis.table-5-4.nothing-left": claim(_readable(""), "<", 0.2, told=_adapted(_readable("-adapted"))),
    "thesis.table-5-4.dlg-only-lenet": claim(
        smallest(
            *(_above(_images("dlg", d, False), 0.5) for d in DATASETS.values()),
            *(_below(_images("dlg", d, False, RESNET20), 0.5) for d in DATASETS.values()),
            *(_below(_images("dlg", d, False, RESNET18), 0.5) for d in ("cifar10", "cifar100")),
        ),
        ">=",
        0,
    ),
    "thesis.table-5-4.traces-at-256": claim(
        minus(
            _images("grnn-resnet18", "cifar100-256", True, RESNET18),
            _images("grnn-resnet18", "cifar100", True, RESNET18),
        ),
        ">",
        0,
    ),
    "thesis.table-5-5.class-kept": claim(_ggl("label_accuracy", True), ">=", 0.9),
    "thesis.table-5-5.layout-lost": claim(minus(_ggl("ssim", False), _ggl("ssim", True)), ">", 0),
    "thesis.table-5-7.key-enough-32": claim(minus(_shared("key"), _shared("")), ">", 0.3),
    "thesis.table-5-7.lock-not-enough": claim(_shared("lock"), "<", 0.2),
    "thesis.table-5-7.both-best": claim(
        minus(_shared("both"), best(_shared("key"), _shared("lock"))), ">", 0
    ),
    "thesis.text-5.bn-alone": claim(_bn_alone, "<", 0.2),
    "thesis.doubt-24.rmse-as-mse": _roots,
    "thesis.doubt-25.missing-pig": lambda evidence: Finding(
        exactly(len(DESCRIBED & LISTED)),
        len(DESCRIBED),
        "<",
        note="by reading: a pig and a Bedlington terrier",
    ),
    "thesis.doubt-26.lock-weights-known": claim(minus(_shared("released"), _shared("")), ">", 0),
}


def findings(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], absent: Absent | None = None
) -> dict[str, Finding]:
    """A finding for every id of chapter 5 about leakage; the arguments are those of `agic.findings`.

    Facts: `iterations` (experiment → fewest steps of its attacks) and `key_length`. Either may be missing.
    """
    return collect(NUMBERS | CLAIMS, Evidence(tables, facts, absent or {}))
