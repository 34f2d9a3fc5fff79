"""Result tables and facts as they would look if everything that we measure of chapter 3 of Ren's thesis held."""

import itertools
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.scorecard.grnn_evidence import DATASETS, LENET, RESNET, STATES, federation
from leakbench.scorecard.published import read_published

PUBLISHED = Path(__file__).parents[3] / "published"
ATTACKS = {("DLG", "LeNet"): "dlg", ("GRNN", "LeNet"): "grnn", ("GRNN", "ResNet-18"): "grnn-resnet18"}
VICTIMS = {"LeNet": LENET, "ResNet-18": RESNET}
LOSSES = (
    "grnn-squares",
    "grnn-norm",
    "grnn-cosine",
    "grnn-squares-norm",
    "grnn-squares-cosine",
    "grnn-squares-cosine-tv",
)


def row(experiment_of: dict[str, Any], metric: str, mean: float, **more: Any) -> dict[str, Any]:
    published = metric.startswith("psnr_")
    common = {
        "defence": "none", "checkpoint": 0, "client": 0, "local_samples": 1, "baseline": "", "metric": metric,
        "convention": "published" if published else "standard", "mean": mean, "median": mean, "q25": mean, "q75": mean,
        "ci_low": mean - 1e-6, "ci_high": mean + 1e-6, "n": 10, "failure_rate": 0.0, "unit": "image", "seeds": "0",
        "scale": "paper", "iterations": 300 if experiment_of["attack"] == "dlg" else 1000,
    }  # fmt: skip
    return common | experiment_of | more


def printed(item: str, deviations: bool = False) -> Iterator[tuple[dict[str, str], str, float]]:
    """Yield condition, printed text and number of each row of a table, or of each standard deviation."""
    frame = read_published(PUBLISHED)
    for each in frame[(frame["item"] == item) & (frame["kind"] != "claim")].to_dict("records"):
        if str(each["metric"]).endswith("_std") == deviations:
            cells = (cell.partition("=") for cell in str(each["condition"]).split("; "))
            yield {key: value for key, _, value in cells}, str(each["published"]), float(each["value"])


def where(condition: dict[str, str]) -> dict[str, Any]:
    dataset = DATASETS[condition["dataset"]]
    size = condition.get("batch_size", "1")
    state = STATES[condition.get("model_state", "non-converged")]
    noise = f"-{condition['noise_scale']}" if condition.get("noise_scale", "1e-1") != "1e-1" else ""
    return {
        "dataset": dataset,
        "victim": VICTIMS[condition["model"]] + state,
        "attack": ATTACKS[condition["attack"], condition["model"]],
        "federation": federation(dataset, int(size)) if size != "avg" else "",
        "defence": condition.get("noise_type", "none").lower() + noise,
    }


def quality(condition: dict[str, Any], text: str, value: float) -> list[dict[str, Any]]:
    """Return rows of every metric for a printed PSNR, or for a failure."""
    failed = text == "failure"
    strong = condition["defence"] in ("gaussian", "laplacian")
    return [
        row(condition, "psnr_uint8_wrap", 27.9 if failed else value),
        row(condition, "psnr", 9.0 if failed else value),
        row(condition, "ssim", 0.1 if failed or strong else 0.9),
        row(condition, "identified", 0.0 if failed else 1.0),
        row(condition, "mse", 0.01),
        row(condition, "mse", 0.03, baseline="snapshot", iterations=100),
        row(condition, "label_accuracy", 1.0, std=0.0),
        row(condition, "ssim", 0.05 if failed or strong else 0.6, baseline="snapshot", iterations=100),
        # DLG's images are right in places, GRNN's as a whole.
        row(
            condition,
            "coarse_error",
            0.6 if condition["attack"] == "dlg" else 0.3,
            baseline="snapshot",
            iterations=100,
        ),
    ]


def curve(condition: dict[str, Any], metric: str, points: dict[float, float]) -> list[dict[str, Any]]:
    """Return rows of a success rate that is straight between `points`, threshold → rate."""
    thresholds = [step / 20 for step in range(21)]
    rates = np.interp(thresholds, list(points), list(points.values()))
    return [
        row(condition, f"success_{metric}", float(y), threshold=x, convention="published")
        for x, y in zip(thresholds, rates, strict=True)
    ]


def success(dataset: str) -> list[dict[str, Any]]:
    """Return Figure 3.5 as the text reads it: at batch 1 both alike, beyond it DLG near nothing."""
    out = []
    for attack, size in itertools.product(("dlg", "grnn"), (1, 4, 8, 16)):
        condition = {
            "dataset": dataset, "victim": LENET, "attack": attack, "federation": federation(dataset, size)
        }  # fmt: skip
        good = attack == "grnn" or size == 1
        ssim = 0.7 if (attack, size) == ("dlg", 1) else 0.8 if good else 0.0
        out += curve(
            condition,
            "mse",
            {0: 0, 0.05 if attack == "grnn" else 0.15: 0.6 if good else 0.52, 0.2: 0.72, 1: 1},
        )
        out += curve(condition, "ssim", {0: 1, 0.2: ssim, 0.5: ssim if size > 1 else 0.6, 1: 0})
    return out


def pairs(dataset: str, wrapped: float, true: float, rmse: float) -> list[dict[str, Any]]:
    """Return what unrelated images score."""
    condition = {
        "dataset": dataset, "victim": LENET, "attack": "grnn", "federation": federation(dataset, 1)
    }  # fmt: skip
    scores = {"psnr_uint8_wrap": wrapped, "psnr": true, "psnr_of_rmse": rmse}
    return [row(condition, metric, value, baseline="unrelated-image") for metric, value in scores.items()]


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables by experiment."""
    single = list(printed("table-3.4"))
    rows: dict[str, list[dict[str, Any]]] = {
        "thesis-table-3-4": [r for c, t, v in single if c["model"] == "LeNet" for r in quality(where(c), t, v)],
        "thesis-table-3-4-resnet18": [
            r for c, t, v in single if c["model"] == "ResNet-18" for r in quality(where(c), t, v)
        ],
        "thesis-table-3-12": [
            *(row(_mnist("grnn"), metric, value) for metric, value in (("psnr", 40.0), ("tv_ratio", 1.0))),
            *(row(_mnist(name), metric, value) for name in LOSSES for metric, value in (("psnr", 35.0), ("tv_ratio", 1.5))),
            row(_mnist("grnn-wasserstein"), "psnr", 36.0),
        ],
        "thesis-conventions": [*pairs("cifar100", 27.9, 9.5, 28.8), *pairs("mnist-32", 32.9, 9.6, 28.9)],
        "thesis-figure-3-5": success("cifar100"),
        "thesis-figure-3-3": [],
        "thesis-table-3-6": [],
        "thesis-table-3-16": [],
        "thesis-table-3-16-batches": [],
    }  # fmt: skip
    labels = {
        (c["attack"], c["model"], c["dataset"], c["batch_size"]): v for c, _, v in printed("table-3.13")
    }
    deviations = {
        (c["attack"], c["model"], c["dataset"], c["batch_size"]): v
        for c, _, v in printed("table-3.13", deviations=True)
    }
    for condition, text, _ in printed("table-3.6"):
        if text == "not run":
            continue
        size, at = int(condition["batch_size"]), where(condition)
        short = condition["model"] == "LeNet" and size <= 16
        key = (condition["attack"], condition["model"], condition["dataset"], condition["batch_size"])
        right = labels[key]
        won = text == "success"
        rows["thesis-figure-3-3" if short else "thesis-table-3-6"] += [
            row(at, "ssim", 0.9 if won else 0.1),
            row(at, "identified", float(won)),
            row(at, "mse", 0.01 if at["attack"] == "dlg" else 0.02),
            row(at, "label_accuracy", right / 100, std=deviations[key], n=10 * size),
            row(at, "gradient_mse", 1e-6 if at["attack"] == "dlg" else 1e-5),
            row(at, "colour_error", 0.05),
            row(at, "colour_error", 0.2, baseline="dataset-mean"),
        ]
    for condition, text, value in printed("table-3.16"):
        name = "thesis-table-3-16" if condition["batch_size"] == "1" else "thesis-table-3-16-batches"
        rows[name] += quality(where(condition), text, value)
    rows |= _faces() | _larger()
    for dataset, value in (("MNIST", 56.61), ("LFW", 43.01)):
        plain = where({"dataset": dataset, "model": "LeNet", "attack": "GRNN"})
        rows["thesis-table-3-16"].append(row(plain, "psnr_uint8_wrap", value))
    rows["thesis-table-3-16"].append(row(_mnist("grnn"), "psnr", 56.89))
    return {name: pd.DataFrame(content) for name, content in rows.items()}


def _faces() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of Table 3.15: on VGG-Face the printed ones, on ORL GRNN above DLG."""
    short: list[dict[str, Any]] = []
    long: list[dict[str, Any]] = []
    # Each condition is printed as top-1, top-3 and top-5.
    for place, (condition, _, value) in enumerate(printed("table-3.15")):
        judge = {"ResNet-18": "resnet18", "DenseNet-121": "densenet121"}[condition["classifier"]]
        at = {"dataset": "vgg-face-32", "victim": LENET, "attack": "grnn", "federation": "grnn-faces"}
        if "attack" not in condition:
            short += [
                row(at, f"top1_{judge}", value / 100, baseline="original", iterations=0),
                row(at, f"top1_{judge}", 0.01, baseline="random-noise"),
            ]
            continue
        size = condition["batch_size"]
        at |= {"attack": condition["attack"].lower(), "local_samples": int(size)}
        at["federation"] += f"-batch{size}" if size != "1" else ""
        (short if size in ("1", "4") else long).append(
            row(at, f"top{(1, 3, 5)[place % 3]}_{judge}", value / 100)
        )
    orl = {"dataset": "orl-32", "victim": LENET, "federation": "grnn-faces"}
    for judge, (attack, value) in product(("resnet18", "densenet121"), (("dlg", 0.5), ("grnn", 0.7))):
        short.append(row(orl | {"attack": attack}, f"top1_{judge}", value))
    return {"thesis-table-3-15": short, "thesis-table-3-15-batches": long}


def _larger() -> dict[str, list[dict[str, Any]]]:
    """Return the rows of Tables 3.9 and 3.11: recognised images where the thesis marks them, means of its samples."""

    def at(side: str, size: str, attack: str) -> dict[str, Any]:
        federation = ("grnn" if side == "32" else "grnn-large") + (f"-batch{size}" if size != "1" else "")
        dataset = "cifar100" if side == "32" else f"cifar100-{side}"
        return {"dataset": dataset, "victim": RESNET, "attack": attack, "federation": federation}

    marked = []
    for condition, text, _ in printed("table-3.9"):
        own = at(condition["resolution"].partition("x")[0], condition["batch_size"], "grnn-resnet18")
        won = text == "success"
        marked += [row(own, "ssim", 0.9 if won else 0.1), row(own, "identified", float(won))]
    samples: dict[tuple[str, str, str], list[float]] = {}
    frame = read_published(PUBLISHED)
    metrics = frame[(frame["item"] == "table-3.11") & (frame["kind"] != "claim")]["metric"]
    for (condition, _, value), metric in zip(printed("table-3.11"), metrics, strict=True):
        samples.setdefault((condition["attack"], condition["batch_size"], metric), []).append(value)
    compared = [
        row(
            at("256", size, "grnn-resnet18" if attack == "GRNN" else "invg-grnn"),
            metric,
            sum(values) / len(values) / (255**2 if metric == "mse" else 1),
        )
        for (attack, size, metric), values in samples.items()
    ]
    return {"thesis-table-3-9": marked, "thesis-table-3-11": compared}


def _mnist(attack: str) -> dict[str, Any]:
    return {"dataset": "mnist-32", "victim": LENET, "federation": "grnn", "attack": attack}


def facts() -> dict[str, Any]:
    """Return our catalogue's settings, as the thesis states them."""
    return {
        "attacks": {"grnn": {"lr": 1e-4, "momentum": 0.99, "tv": 1e-3}, "grnn-resnet18": {"tv": 1e-6}},
        "federations": {"grnn": {"rounds": 10}},
        "images": {"mnist-32": 7000},
        "settled": {f"{LENET}-converged": 1e-4},
        "printed": read_published(PUBLISHED).set_index("id")["value"].to_dict(),
    }
