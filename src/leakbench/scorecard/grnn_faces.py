"""Findings for section 3.3.4 of Ren's thesis: whether classifiers identify people on reconstructed faces (Tables 3.14, 3.15).

Numbers are read on VGG-Face alone, which the thesis measured. Claims are judged on ORL where VGG-Face is not to be had.
"""

from functools import partial

from leakbench.scorecard import grnn_evidence as grnn
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import ENOUGH, Build, Look, Quantity, at, claim, minus, not_measured, smallest
from leakbench.scorecard.measure import Measured, NotMeasured, scaled
from leakbench.scorecard.verdict import Finding

VGG = "vgg-face-32"
_claim = partial(claim, stand_ins={VGG: "orl-32"})
EVERY_IMAGE = "of all reconstructions; the thesis selected successful ones"
UNNAMED = "confidences of three chosen faces, from a model that the thesis does not name"
JUDGES = ("resnet18", "densenet121")
COUNTS = (1, 3, 5)
BATCHES = (1, 4, 8, 16)
# In percentage points, fixed before measuring.
TOLERANCE, OF_CHANCE = 0.5, 1.0
# A share of fewer images tells nothing apart.
FEWEST = 10


def _cell(attack: str, judge: str, count: int, size: int = 1) -> Quantity:
    """The share of images whose person is among the `count` highest answers of a judge, in percent."""
    base = "grnn-faces" if size == 1 else f"grnn-faces-batch{size}"
    share = at(
        "thesis-table-3-15" if size <= 4 else "thesis-table-3-15-batches", f"top{count}_{judge}", grnn.LENGTH[attack],
        dataset=VGG, victim=grnn.LENET, attack=attack, federation=base,
    )  # fmt: skip
    return lambda look: _percent(share(look))


def _percent(share: Measured) -> Measured:
    if share.n < FEWEST:
        raise NotMeasured(f"needs paper scale: a share of {share.n} images tells nothing apart")
    return scaled(share, 100)


def _number(quantity: Quantity, other: Quantity, better: bool) -> Build:
    """A cell of Table 3.15, and the ordering it belongs to: it is better (or worse) than `other`, as printed."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        measured = quantity(look)
        note = "; ".join(filter(None, [EVERY_IMAGE, look.note]))
        return Finding(
            measured, tolerance=TOLERANCE, direction_holds=_ordered(look, measured, other, better), note=note
        )

    return finding


def _ordered(look: Look, measured: Measured, other: Quantity, better: bool) -> bool | None:
    """Whether the printed ordering holds; None where it cannot be told."""
    try:
        apart = measured.value - other(look).value
    except NotMeasured:
        return None
    return None if look.fewest < ENOUGH else apart > 0 if better else apart < 0


def _table_3_15() -> dict[str, Build]:
    rows: list[Build] = []
    for judge in JUDGES:
        for count in COUNTS:
            ours = _cell("dlg", judge, count)
            # On DenseNet-121 the thesis prints a higher top-1 for DLG.
            rows.append(_number(ours, _cell("grnn", judge, count), (judge, count) == ("densenet121", 1)))
    for judge in JUDGES:
        for place, size in enumerate(BATCHES):
            for count in COUNTS:
                ours = _cell("grnn", judge, count, size)
                if size == 1:
                    above = (judge, count) != ("densenet121", 1)
                    rows.append(_number(ours, _cell("dlg", judge, count), above))
                else:
                    rows.append(_number(ours, _cell("grnn", judge, count, BATCHES[place - 1]), False))
    rows += [_baseline(judge, "original", TOLERANCE) for judge in JUDGES]
    return {f"thesis.table-3-15.{place}": row for place, row in enumerate(rows, 1)}


def _baseline(judge: str, baseline: str, tolerance: float) -> Build:
    """Top-1 of a judge on what no attack made: the private images themselves, or noise."""

    def finding(evidence: Evidence) -> Finding:
        share = evidence.pick(
            "thesis-table-3-15", metric=f"top1_{judge}", dataset=VGG, victim=grnn.LENET, attack="grnn",
            federation="grnn-faces", baseline=baseline,
        )  # fmt: skip
        return Finding(_percent(share), tolerance=tolerance)

    return finding


def _gains(evidence: Evidence) -> Finding:
    """GRNN minus DLG on ResNet-18, top-1, 3 and 5, as the text prints them."""
    look = Look(evidence)
    apart = [minus(_cell("grnn", "resnet18", c), _cell("dlg", "resnet18", c))(look).value for c in COUNTS]
    return Finding("/".join(f"{value:+.2f}" for value in apart), note=look.note)


def _gain(judge: str) -> Quantity:
    """Top-1 of GRNN minus DLG's."""
    return minus(*(_cell(attack, judge, 1) for attack in ("grnn", "dlg")))


NUMBERS: dict[str, Build] = {
    **{f"thesis.table-3-14.{place}": not_measured(UNNAMED) for place in range(1, 19)},
    **_table_3_15(),
    "thesis.text-3-3-4.1": _gains,
    "thesis.text-3-3-4.2": _baseline("resnet18", "random-noise", OF_CHANCE),
}

CLAIMS: dict[str, Build] = {
    "thesis.table-3-15.identifiable": _claim(smallest(*map(_gain, JUDGES)), ">", 0),
    "thesis.doubt-18.densenet-top1": _claim(_gain("densenet121"), "<", 0),
}
