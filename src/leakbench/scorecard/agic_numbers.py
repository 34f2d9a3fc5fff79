"""Findings for the numbers and settings that the AGIC paper prints: Tables I to VII and its text."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from leakbench.scorecard import agic_evidence as agic
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import ENOUGH, Build, Look, Quantity, not_measured, number
from leakbench.scorecard.measure import (
    Measured,
    NotMeasured,
    difference,
    greatest,
    ratio,
)
from leakbench.scorecard.verdict import Finding

GIVEN = "labels given, as the paper assumes"
INFERRED = "labels inferred, always rightly for one image"


def _table_1() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    for place, name in enumerate(agic.SHAPES):
        for column, dataset in enumerate(agic.RESNET20):
            equal = None if name == "equal" else agic.shape(dataset, "equal")
            rows[f"agic.table-1.{2 * place + column + 1}"] = number(
                agic.shape(dataset, name), "psnr", equal, name.startswith("rising"), GIVEN
            )
    return rows


def _table_2() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    # The ordering each row belongs to; a published tie (SSIM on CIFAR-10) has none.
    others = {
        "dlg-adam": ("invg", False),
        "invg": ("dlg-adam", True),
        "agic-one-batch": ("invg", True),
        "agic": ("invg", True),
    }
    published = {("agic-one-batch", "cifar10", "ssim"): None} | {
        ("agic-one-batch", "cifar100", metric): False for metric in agic.METRICS
    }
    place = 0
    for attack, (other, usual) in others.items():
        for dataset in agic.DATASETS:
            for metric in agic.METRICS:
                place += 1
                key = f"agic.table-2.{place}"
                if dataset == "imagenet":
                    rows[key] = not_measured(agic.NO_WEIGHTS)
                    continue
                better = published.get((attack, dataset, metric), usual)
                rows[key] = number(
                    agic.local_steps(dataset, attack, metric),
                    metric,
                    agic.local_steps(dataset, other, metric),
                    better,
                )
    return rows


# Table III: method and epochs -> attack.
PAIRS = {"DLG-Adam": "dlg-adam", "InvG": "invg", "AGIC": "agic", "AGIC, epochs 1 and 2": "agic-joint-assumed"}


def pairs(attack: str, metric: str = "psnr") -> Quantity:
    """A row of Table III: the images of the first epoch, found from its update or from both epochs'."""
    return agic.at("agic-table-3", metric, attack=attack, **{"pass": 0})


def _table_3() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    others = {"dlg-adam": ("invg", False), "invg": ("dlg-adam", True), "agic": ("invg", True)}
    for place, attack in enumerate(PAIRS.values()):
        other, better = others.get(attack, ("agic", True))
        for column, metric in enumerate(agic.METRICS):
            rows[f"agic.table-3.{3 * place + column + 1}"] = number(
                pairs(attack, metric), metric, pairs(other, metric), better
            )
    return rows


def _table_4() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    others = {"dlg-adam": ("invg", False), "invg": ("dlg-adam", True), "agic": ("invg", True)}
    place = 0
    for dataset in ("cifar10", "imagenet"):
        for batch in agic.BATCHES:
            for attack, (other, usual) in others.items():
                for metric in agic.METRICS:
                    place += 1
                    # Printed as 0.721 beside 0.720.
                    single = (dataset, batch) == ("cifar10", 1)
                    worse = (dataset, batch, attack, metric) == ("imagenet", 4, "agic", "lpips_alex")
                    rows[f"agic.table-4.{place}"] = number(
                        agic.single_gradient(dataset, batch, attack, metric),
                        metric,
                        agic.single_gradient(dataset, batch, other, metric),
                        usual and not worse,
                        INFERRED if single else GIVEN,
                        _recorded(attack, metric) if single else None,
                    )
    return rows


def _recorded(attack: str, metric: str) -> Callable[[Evidence], str]:
    """What longer runs of a single image found, and, beside AGIC's PSNR, what other readings of the paper found."""

    def told(evidence: Evidence) -> str:
        longer = evidence.earlier("agic-iterations", metric=metric, attack=f"{attack}-single")
        readings = agic.readings(evidence) if (attack, metric) == ("agic", "psnr") else ""
        return "; ".join(filter(None, [longer, readings]))

    return told


def _table_5() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    place = 0
    for labels, pooling in agic.MATCHING:
        for batch in agic.PASSES:
            place += 1
            # Pooling helps but at batch 1 with labels.
            other = agic.matching(batch, labels, not pooling)
            better = pooling != (labels and batch == 1)
            rows[f"agic.table-5.{place}"] = number(
                agic.matching(batch, labels, pooling), "matching_success", other, better
            )
    return rows


def _table_6() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    for place, which in enumerate(("1", "2", "1,2")):
        for column, metric in enumerate(agic.METRICS):
            other = {"1": "2", "2": "1", "1,2": "1"}[which]
            # LPIPS orders the epochs against PSNR and SSIM.
            better = {"1": metric != "lpips_alex", "2": metric == "lpips_alex", "1,2": True}[which]
            rows[f"agic.table-6.{3 * place + column + 1}"] = number(
                agic.epoch(which, metric), metric, agic.epoch(other, metric), better
            )
    return rows


def _attack(evidence: Evidence, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = evidence.fact("attacks", name)
    return found


def _trained_network(evidence: Evidence, name: str) -> Finding:
    if name != "agic":
        raise NotMeasured("no experiment attacks a trained network with it")
    look = Look(evidence, ENOUGH)
    point = partial(
        look.mean, "agic-figure-9", "psnr", agic.ITERATIONS, victim=agic.TRAINED, attack="agic-trained"
    )
    gain = difference(point(), point(baseline="random-gradient"))
    return Finding("yes" if gain.low > 0 else "no", note="PSNR above that of a random gradient attacked")


def _label_inference(attack: Mapping[str, Any]) -> Finding:
    if attack["labels"] == "joint":
        return Finding("No use")
    if attack["inference"] == "idlg":
        return Finding("One")
    return Finding("Multiple", note="our attacks share the step that infers labels")


def _fact(property_: str, evidence: Evidence, name: str) -> Finding:
    attack = _attack(evidence, name)
    match property_:
        case "main_loss":
            return Finding({"squares": "L2", "cosine": "Cosine"}[attack["distance"]])
        case "other_loss":
            return Finding("Total variation" if attack["tv"] > 0 else "None")
        case "optimizer":
            return Finding({"adam": "Adam", "lbfgs": "L-BFGS"}[attack["optimiser"]])
        case "label_inference":
            return _label_inference(attack)
        case "extra_knowledge":
            return Finding("a trained generator" if attack["generator"] else "No")
        case "multiple_epochs":
            return Finding("yes" if f"{name}-joint" in evidence.fact("attacks") else "no")
        case "fedavg":
            way = (
                "steps simulated" if attack["updates"] == "simulated" else "several steps taken for one batch"
            )
            return Finding("yes", note=f"{way}; our attacks share the loop that can do either")
    return _trained_network(evidence, name)


PROPERTIES = (
    "main_loss", "other_loss", "optimizer", "label_inference", "extra_knowledge", "trained_network",
    "multiple_epochs", "fedavg",
)  # fmt: skip
# Table VII's methods in its order -> our attack, if there is one.
METHODS = {
    "DLG": "dlg", "iDLG": "idlg", "InvG": "invg", "CPL": None, "R-GAP": None, "Grad-Inversion": None,
    "Geng et al.": None, "GIAS": None, "AGIC": "agic",
}  # fmt: skip


def _table_7() -> dict[str, Build]:
    def build(property_: str, name: str) -> Build:
        return lambda evidence: _fact(property_, evidence, name)

    rows: dict[str, Build] = {}
    for place, attack in enumerate(METHODS.values()):
        for column, property_ in enumerate(PROPERTIES):
            rows[f"agic.table-7.{8 * place + column + 1}"] = (
                not_measured("not implemented") if attack is None else build(property_, attack)
            )
    return rows


def gain(dataset: str, batch: int) -> Quantity:
    """AGIC's PSNR over the better baseline's in a cell of Table IV."""
    return lambda look: over_best(look, lambda name: agic.single_gradient(dataset, batch, name))


def over_best(look: Look, cell: Callable[[str], Quantity]) -> Measured:
    """AGIC's PSNR over the better of the two baselines'."""
    return ratio(cell("agic")(look), greatest([cell("dlg-adam")(look), cell("invg")(look)]))


CELLS_OF_TABLE_4 = {(d, b): gain(d, b) for d in ("cifar10", "imagenet") for b in agic.BATCHES}


def largest_gain(look: Look) -> Measured:
    """The largest of AGIC's gains over the cells of Table IV that were measured."""
    found, missing = [], ""
    for cell in CELLS_OF_TABLE_4.values():
        try:
            found.append(cell(look))
        except NotMeasured as reason:
            missing = missing or str(reason)
    if not found:
        raise NotMeasured(missing)
    return greatest(found)


def percent(value: Measured) -> Measured:
    """A ratio as percent above one."""
    return Measured(100 * (value.value - 1), 100 * (value.low - 1), 100 * (value.high - 1), value.n)


def modifier_gain(look: Look) -> Measured:
    """The largest relative gain of PSNR by the ReLU modifier over the ratios of Figure 9, in percent."""
    return greatest(
        [
            percent(ratio(untrained(beta)(look), untrained(beta, modifier=False)(look)))
            for beta in agic.UNTRAINED_BETAS
        ]
    )


def untrained(beta: int, modifier: bool = True) -> Quantity:
    """A point of Figure 9 on the untrained network."""
    attack = (agic.UNTRAINED_BETAS if modifier else agic.PLAIN_BETAS)[beta]
    return agic.at("agic-figure-9", victim="resnet20-4", attack=attack)


def _percentage(quantity: Callable[[Look], Measured], tolerance: float) -> Build:
    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        measured = quantity(look)
        holds = None if look.fewest < ENOUGH else measured.value > 0
        return Finding(
            measured, relation="=", tolerance=tolerance, direction_holds=holds, convention="published", note=look.note
        )  # fmt: skip

    return finding


def _speedup(evidence: Evidence) -> Finding:
    measured = ratio(agic.seconds(evidence, "invg", 8), agic.seconds(evidence, "agic", 8))
    return Finding(
        measured, relation="=", tolerance=0.5, direction_holds=measured.value > 1, note="on this machine, not on a GPU"
    )  # fmt: skip


def configured(*keys: str) -> Build:
    """A setting of ours, by its place among the facts."""
    return lambda evidence: Finding(f"{evidence.fact(*keys)}")


def as_run(experiment: str, key: str) -> Build:
    """What this scale made of a setting, if it ran the experiment that shows it."""

    def finding(evidence: Evidence) -> Finding:
        evidence.table(experiment)
        return Finding(f"{evidence.fact('agic_run', key)}")

    return finding


def _first_weight(evidence: Evidence) -> Finding:
    evidence.fact("attacks", "agic-joint")
    return Finding("1", note="fixed in the attack: later epochs are weighted against the first")


HARDWARE = "minutes on an RTX 2080 Ti; the ratio is measured instead"

NUMBERS: dict[str, Build] = {
    "agic.text-abstract.1": _percentage(lambda look: percent(largest_gain(look)), 5),
    "agic.text-abstract.2": _speedup,
    "agic.text-V-C.1": not_measured(HARDWARE),
    "agic.text-V-C.2": not_measured(HARDWARE),
    "agic.text-V-E.1": _percentage(modifier_gain, 0.5),
    "agic.text-V-D.1": number(agic.matching(1, True, False), "matching_success"),
    "agic.text-V-D.2": number(agic.matching(4, True, False), "matching_success"),
    "agic.text-V-A.1": configured("attacks", "agic", "beta"),
    "agic.text-V-A.2": configured("attacks", "agic-trained", "beta"),
    "agic.text-V-A.3": configured("attacks", "agic", "tv"),
    "agic.text-V-A.4": configured("attacks", "agic-trained", "tv"),
    "agic.text-V-A.5": configured("attacks", "agic-resnet50", "tv"),
    "agic.text-V-A.6": configured("attacks", "agic-resnet50-trained", "tv"),
    "agic.text-V-A.7": configured("attacks", "agic", "lr"),
    "agic.text-V-A.8": as_run("agic-table-4", "iterations"),
    "agic.text-V-D.3": as_run("agic-table-5", "pre_iterations"),
    "agic.text-V-A.9": configured("federations", "agic-fedavg", "lr"),
    "agic.text-V-A.10": _first_weight,
    "agic.text-V-A.11": configured("attacks", "agic-joint", "later"),
    "agic.text-V-A.12": configured("pooling"),
    "agic.text-V-A.13": as_run("agic-table-4", "rounds"),
    "agic.text-IV-C.1": configured("convolutions"),
    "agic.text-IV-A.1": configured("federations", "agic-fedavg-large-lr", "lr"),
}
NUMBERS |= _table_1() | _table_2() | _table_3() | _table_4() | _table_5() | _table_6() | _table_7()
