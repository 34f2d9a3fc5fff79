"""Result tables and facts as they would look if everything in the AGIC paper held."""

from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.drawing.printed import printed

PUBLISHED = Path(__file__).parents[3] / "published"
NAMES = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "ImageNet": "imagenet"}
VICTIMS = {"cifar10": "resnet20-4", "cifar100": "resnet20-4-cifar100", "imagenet": "resnet50"}
# Figure 9: ratio -> PSNR with and without the ReLU modifier, and of the trained network.
WITH = {1: 20.9, 5: 24.0, 10: 26.0, 20: 28.0, 50: 31.341}
PLAIN = {1: 20.6, 5: 23.7, 10: 25.6, 20: 27.6, 50: 30.8}
TRAINED = {1: 18.0, 2: 18.6, 5: 18.3, 20: 17.5, 50: 17.0}


def row(dataset: str, federation: str, attack: str, metric: str, mean: float, **more: Any) -> dict[str, Any]:
    common = {
        "dataset": dataset, "victim": VICTIMS[dataset], "federation": federation, "defence": "none", "attack": attack,
        "checkpoint": 0, "client": 0, "local_samples": 1, "baseline": "", "metric": metric, "convention": "standard",
        "mean": mean, "median": mean, "q25": mean, "q75": mean, "ci_low": mean - 1e-6, "ci_high": mean + 1e-6,
        "n": 100, "failure_rate": 0.0, "unit": "image", "seeds": "0", "scale": "paper", "iterations": 10000,
    }  # fmt: skip
    return common | more


def spelt(dataset: str, attack: str, samples: int, oracle: bool) -> str:
    if dataset == "imagenet" and attack in ("invg", "agic"):
        attack += "-resnet50"
    if not oracle:
        return attack
    return f"{attack}-single" if (dataset, samples) == ("cifar10", 1) else f"{attack}-oracle"


def from_paper(table: int, federations: dict[int, str], oracle: bool = False) -> list[dict[str, Any]]:
    """The paper's own numbers as rows: federation by the number of images behind an update."""
    return [
        row(
            dataset := NAMES[each["dataset"]],
            federations[each["local_samples"]],
            spelt(dataset, each["attack"], each["local_samples"], oracle),
            each["metric"],
            each["value"],
            **{"local_samples": each["local_samples"], "pass": each["pass"]},
        )
        for each in printed(PUBLISHED, f"table-{table}").to_dict("records")
    ]


def figure_9() -> list[dict[str, Any]]:
    def points(values: dict[int, float], name: str, last: str, victim: str) -> list[dict[str, Any]]:
        names = {beta: f"agic-{name}beta-{beta}-oracle" for beta in values} | ({50: last} if last else {})
        return [
            row("cifar10", "agic-gradient", names[beta], "psnr", value, victim=victim)
            for beta, value in values.items()
        ]

    trained = [
        row(
            "cifar10",
            "agic-gradient",
            "agic-trained",
            "psnr",
            value,
            victim="resnet20-4-trained",
            baseline=baseline,
        )
        for value, baseline in ((18.6, ""), (8.0, "random-gradient"))
    ]
    untrained = points(WITH, "", "agic-oracle", "resnet20-4") + points(
        PLAIN, "plain-", "agic-plain-oracle", "resnet20-4"
    )
    return untrained + points(TRAINED, "trained-", "", "resnet20-4-trained") + trained


def tables() -> dict[str, pd.DataFrame]:
    gradient = {1: "agic-gradient", 4: "agic-gradient-batch4"}
    table_4 = from_paper(4, gradient, oracle=True)
    rows = {
        "agic-table-1": from_paper(1, gradient, oracle=True),
        "agic-table-2": [
            *from_paper(2, {4: "agic-fedavg"}),
            row("cifar10", "agic-fedavg", "invg-oracle", "psnr", 15.0, **{"pass": 0}),
        ],
        "agic-table-3": from_paper(3, {8: "agic-passes-fixed"}),
        "agic-table-4": table_4,
        "agic-table-5": from_paper(5, {1: "agic-passes", 4: "agic-passes-batch4"}),
        "agic-table-6": from_paper(6, {1: "agic-passes"}),
        "agic-figure-6": [row("cifar10", "agic-gradient", "agic-single", "ssim", 0.963)],
        "agic-figure-7": [
            each | {"attack": each["attack"].removesuffix("-oracle")}
            for each in table_4
            if each["dataset"] == "imagenet" and each["local_samples"] == 1
        ],
        "agic-figure-8": [
            row("cifar10", f"agic-fedavg-steps-{steps}", attack, "psnr", top - steps / 10)
            for steps in (1, 2, 4, 8)
            for attack, top in (("agic", 15.0), ("invg", 14.0))
        ],
        "agic-figure-9": figure_9(),
        "agic-figure-10": [
            row("cifar10", "agic-gradient", f"agic-beta-{beta}-oracle", "psnr", WITH[beta])
            for beta in (1, 5, 10, 20)
        ],
        "agic-readings": [
            row("cifar10", "agic-gradient-tuning", attack, "psnr", value)
            for attack, value in (("agic-reading-equal", 20.6), ("invg", 20.671))
        ],
        "agic-large-lr": [
            row("cifar10", federation, "agic-one-batch", "psnr", value)
            for federation, value in (("agic-fedavg", 14.25), ("agic-fedavg-large-lr", 11.0))
        ],
    }
    return {name: pd.DataFrame(content) for name, content in rows.items()}


def facts() -> dict[str, Any]:
    squares = {
        "distance": "squares",
        "tv": 0.0,
        "optimiser": "lbfgs",
        "updates": "one-batch",
        "generator": {},
    }
    cosine = {
        "distance": "cosine", "tv": 0.0001, "optimiser": "adam", "lr": 0.1, "inference": "row-minimum",
        "labels": "inferred", "generator": {},
    }  # fmt: skip
    agic = cosine | {"updates": "one-batch", "beta": 50.0}
    return {
        "attacks": {
            "dlg": squares | {"labels": "joint", "inference": "counted"},
            "idlg": squares | {"labels": "inferred", "inference": "idlg"},
            "invg": cosine | {"updates": "simulated"},
            "agic": agic,
            "agic-trained": agic | {"tv": 0.01, "beta": 2.0},
            "agic-resnet50": agic | {"tv": 0.001},
            "agic-resnet50-trained": agic | {"tv": 0.1, "beta": 2.0},
            "agic-joint": agic | {"later": 0.1},
        },
        "federations": {"agic-fedavg": {"lr": 0.0001}, "agic-fedavg-large-lr": {"lr": 0.01}},
        "agic_run": {"iterations": 10000, "pre_iterations": 2000, "rounds": 100},
        "agic_seconds": {
            "invg": {"1": 402.0, "2": 700.0, "4": 1200.0, "8": 1992.0},
            "agic": {"1": 402.0, "2": 402.0, "4": 402.0, "8": 402.0},
        },
        "convolutions": 21,
        "pooling": "2x2,2",
    }
