"""Findings for larger images in chapter 3 of Ren's thesis: Tables 3.9 to 3.11 and the doubts about them."""

from functools import partial
from itertools import product

from leakbench.scorecard import grnn_evidence as grnn
from leakbench.scorecard.look import Build, Quantity, at, claim, minus, number, smallest
from leakbench.scorecard.measure import scaled

SIZES = (32, 64, 128, 256)
BATCHES = (1, 4, 8, 16, 32)
COMPARED = (1, 4, 8)
METRICS = ("mse", "psnr", "ssim")
ATTACKS = ("grnn-resnet18", "invg-grnn")
# What the printed MSE counts: squared levels of 8 bits.
LEVELS = 255.0**2
SAMPLES = "the thesis prints single samples, ours is a mean"


def _sized(
    size: int, batch: int, attack: str = ATTACKS[0], metric: str = "ssim", table: str = "9"
) -> Quantity:
    small = size == SIZES[0]
    federation = ("grnn" if small else "grnn-large") + (f"-batch{batch}" if batch > 1 else "")
    return at(
        f"thesis-table-3-{table}", metric, 1000, dataset="cifar100" if small else f"cifar100-{size}",
        victim=grnn.RESNET, attack=attack, federation=federation,
    )  # fmt: skip


def _table_3_9() -> dict[str, Build]:
    cells = enumerate(product(SIZES, BATCHES), 1)
    return {
        f"thesis.table-3-9.{place}": grnn.recognised(lambda metric, s=s, b=b: _sized(s, b, metric=metric))  # type: ignore[misc]
        for place, (s, b) in cells
    }


def _compared(attack: str, batch: int, metric: str) -> Quantity:
    quantity = _sized(256, batch, attack, metric, "11")
    return (lambda look: scaled(quantity(look), LEVELS)) if metric == "mse" else quantity


def _table_3_11() -> dict[str, Build]:
    rows = {}
    for place, (batch, metric, attack, _) in enumerate(product(COMPARED, METRICS, ATTACKS, range(4)), 1):
        of = partial(_compared, batch=batch, metric=metric)
        other = of(next(each for each in ATTACKS if each != attack))
        rows[f"thesis.table-3-11.{place}"] = number(
            of(attack), metric, other, attack == ATTACKS[0] if metric == "ssim" else None, SAMPLES
        )
    return rows


def _lead(metric: str) -> list[Quantity]:
    return [minus(*(_compared(attack, batch, metric) for attack in ATTACKS)) for batch in COMPARED]


NUMBERS: dict[str, Build] = _table_3_9() | _table_3_11()
CLAIMS: dict[str, Build] = {
    "thesis.table-3-10.any-size": claim(smallest(*(_sized(size, 1) for size in SIZES)), ">=", 0.5),
    "thesis.table-3-11.better-than-ig": claim(
        smallest(*_lead("ssim")), ">", 0, note="means of each batch size instead of every sample"
    ),
    "thesis.doubt-15.ig-mse": claim(
        smallest(*_lead("psnr")),
        "<=",
        0,
        note="the least lead of GRNN's mean PSNR over the batch sizes instead of the share of samples",
    ),
}
