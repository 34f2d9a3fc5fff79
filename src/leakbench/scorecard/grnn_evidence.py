"""How the findings of chapter 3 of Ren's thesis (GRNN) read result tables: names of what stands for what."""

from collections.abc import Callable

from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import Build, Look, Quantity, at
from leakbench.scorecard.verdict import Finding

DATASETS = {"MNIST": "mnist-32", "CIFAR-100": "cifar100", "LFW": "lfw-32"}
# Sets that anybody can fetch, on which a claim is judged where the thesis' own are absent. Numbers are not.
STAND_INS = {"cifar100": "cifar10", "lfw-32": "orl-32"}
BATCHES = (1, 4, 8, 16, 32, 64, 128, 256)
# Where both attacks are compared, both have the LeNet of DLG's code, which the author's later code uses too.
LENET, RESNET = "lenet-dlg", "resnet18-sigmoid"
STATES = {"non-converged": "", "converged": "-converged"}
# Steps in the authors' codes.
LENGTH = {"dlg": 300, "grnn": 1000, "grnn-resnet18": 1000}
# A success, where the thesis judges by eye: fixed before measuring.
RECOGNISABLE, IDENTIFIED = 0.5, 0.5


def federation(dataset: str, batch: int) -> str:
    """The federation of a batch size; sets of faces have their own."""
    base = "grnn-faces" if dataset == DATASETS["LFW"] else "grnn"
    return base if batch == 1 else f"{base}-batch{batch}"


def single(attack: str, victim: str, dataset: str, state: str, metric: str = "psnr") -> Quantity:
    """A cell of Table 3.4."""
    convention = "published" if metric.startswith("psnr_") else "standard"
    return at(
        "thesis-table-3-4" + "-resnet18" * (victim == RESNET), metric, LENGTH[attack], dataset=DATASETS[dataset], victim=victim + STATES[state],
        attack=attack, convention=convention,
    )  # fmt: skip


def batch(attack: str, victim: str, dataset: str, size: int, metric: str = "ssim") -> Quantity:
    """A cell of Table 3.6 or 3.13 and a curve's end in Figure 3.3."""
    experiment, where = place(attack, victim, dataset, size)
    return at(experiment, metric, LENGTH[attack], **where)


def place(attack: str, victim: str, dataset: str, size: int) -> tuple[str, dict[str, str]]:
    """The experiment that has such a cell, and the cell's condition in its table."""
    experiment = "thesis-figure-3-3" if victim == LENET and size <= 16 else "thesis-table-3-6"
    name = DATASETS[dataset]
    return experiment, {
        "dataset": name, "victim": victim, "attack": attack, "federation": federation(name, size),
    }  # fmt: skip


def noise(attack: str, dataset: str, kind: str, scale: str, size: int = 1, metric: str = "psnr") -> Quantity:
    """A cell of Table 3.16; `scale` 1e-1 to 1e-4, or of no noise (`none`, empty scale)."""
    experiment = "thesis-table-3-16" if size == 1 else "thesis-table-3-16-batches"
    name = DATASETS[dataset]
    convention = "published" if metric.startswith("psnr_") else "standard"
    return at(
        experiment, metric, LENGTH[attack], dataset=name, victim=LENET, attack=attack,
        federation=federation(name, size), defence=kind if scale in ("", "1e-1") else f"{kind}-{scale}",
        convention=convention,
    )  # fmt: skip


def recognised(cell: Callable[[str], Quantity]) -> Build:
    """Success or failure by the stated rule of a cell, metric → quantity."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        ssim, identified = cell("ssim")(look), cell("identified")(look)
        right = ssim.value >= RECOGNISABLE and identified.value >= IDENTIFIED
        rule = f"SSIM {ssim.value:.2f}, {identified.value:.0%} identified (success from {RECOGNISABLE:g} and {IDENTIFIED:.0%})"
        return Finding("success" if right else "failure", note="; ".join(filter(None, [rule, look.note])))

    return finding
