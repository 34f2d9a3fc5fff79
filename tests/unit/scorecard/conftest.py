"""Result tables and facts as they would look if everything in the Fidel paper held."""

from typing import Any

import pandas as pd
import pytest

SIZES = (1, 2, 5, 10, 20, 30, 50, 100, 200)
BOTH = ("mnist", "cifar10")


def row(dataset: str, victim: str, k: int, metric: str, mean: float, **more: Any) -> dict[str, Any]:
    common = {
        "dataset": dataset, "victim": victim, "federation": "f", "defence": "none", "attack": "fidel",
        "checkpoint": 30,
        "client": 0, "local_samples": k, "baseline": "", "metric": metric, "convention": "standard",
        "mean": mean,
        "median": mean, "q25": mean, "q75": mean, "ci_low": mean - 1e-6, "ci_high": mean + 1e-6, "n": 200,
        "failure_rate": 0.0, "unit": "update", "seeds": "0", "scale": "quick",
    }  # fmt: skip
    return common | more


def curve_rows(dataset: str, family: str, height: float, fade: float) -> list[dict[str, Any]]:
    strength = {
        "relu": 0.6, "relu-dropout": 1.0, "sigmoid": 0.01, "sigmoid-dropout": 0.02, "tanh": 0.01,
        "tanh-dropout": 0.02,
        "linear": 0.02, "linear-dropout": 0.03,
    }  # fmt: skip
    rows = []
    for setting, share in strength.items():
        for k in SIZES:
            count = share * k if k <= 2 else share * k * height * min(1, (30 / k) ** fade)
            values = {
                "revealed": count,
                "revealed_fraction": count / k,
                "isolating_neurons": 2 * count,
            }
            rows += [
                row(dataset, f"{family}-{setting}", k, metric, value) for metric, value in values.items()
            ]
    return rows


def flat(experiment: dict[str, float], victim: str, k: int, **more: Any) -> list[dict[str, Any]]:
    return [
        row(dataset, victim, k, metric, mean, **more)
        for metric, mean in experiment.items()
        for dataset in BOTH
    ]


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    one = {
        "pearson": 0.999,
        "mse": 1e-6,
        "usable_neurons": 70,
        "isolating_neurons": 69,
        "isolating_share": 0.99,
    }
    rows = {
        "fidel-figure-5": flat(one, "fcnn-relu", 1)
        + flat({"pearson": 0.0}, "fcnn-relu", 1, baseline="random-noise"),
        "fidel-figure-6": flat({"pearson": 0.999}, "cnn-relu", 1)
        + [row(d, "cnn-relu", 1, "channel_pearson", r) for d, r in (("mnist", 0.8), ("cifar10", 0.5))],
        "fidel-figure-8": flat({"pearson": 0.95}, "cnn-relu", 1)
        + [row(d, "cnn-relu", 1, "tv_ratio", r) for d, r in (("mnist", 1.2), ("cifar10", 0.5))],
        "fidel-figure-9": flat(
            {"revealed": 5, "isolating_neurons": 12, "usable_neurons": 120}, "fcnn-relu", 10
        ),
        "fidel-figure-10": flat({"revealed_fraction": 0.9, "isolating_neurons": 9}, "cnn-relu", 10),
        "fidel-figure-11": flat({"revealed": 2, "isolating_neurons": 20}, "fcnn-relu", 3)[::2],
        "fidel-figure-12": flat({"pearson_unrevealed": 0.8}, "fcnn-relu", 10)
        + flat({"pearson": 0.4}, "fcnn-relu", 10, baseline="dataset-mean"),
        "fidel-figure-13": curve_rows("mnist", "fcnn", 2 / 3, 1.1),
        "fidel-figure-14": curve_rows("cifar10", "cnn", 0.655, 2.0),
        "fidel-figure-15": flat({"pearson": 0.9, "revealed_fraction": 0.6}, "cnn-relu", 10)
        + [row(d, "cnn-relu", 10, "usable_neurons", n) for d, n in (("mnist", 104), ("cifar10", 126))],
        "fidel-training": [
            row("mnist", victim, 30, "revealed", 1 + epoch / 2, checkpoint=epoch)
            for victim in ("fcnn-relu", "fcnn-relu-dropout")
            for epoch in (0, 1, 5, 10, 30)
        ],
        "fidel-moving": [
            row("mnist", "fcnn-relu-dropout", 30, "revealed", 19.5, federation=federation)
            for federation in ("fidel-reveal", "fidel-reveal-moving")
        ],
        "fidel-rounds": [
            row("mnist", "fcnn-relu-dropout", 30, metric, mean)
            for metric, mean in (("revealed", 19.5), ("revealed_cumulative", 30))
        ],
        "fidel-width": [
            row("mnist", f"fcnn-relu-dropout{wide}", 30, "revealed", mean)
            for wide, mean in (("", 20), ("-256", 25))
        ],
        "fidel-partial-update": flat({"revealed_fraction": 0.6}, "fcnn-relu", 1, attack="fidel-combined"),
        "fidel-auxiliary": [
            row("mnist", "cnn-relu", 1, "pearson", r, attack=a)
            for a, r in (("fidel-generator", 0.95), ("fidel-generator-fashion", 0.8))
        ],
    }
    return {name: pd.DataFrame(content) for name, content in rows.items()}


def _layers(*texts: str) -> list[dict[str, str]]:
    keys = ("layer", "size", "stride", "padding", "activation")
    return [dict(zip(keys, text.split("|"), strict=False)) for text in texts]


@pytest.fixture
def facts() -> dict[str, Any]:
    victim = {"learning_rate": 0.01, "loss": "categorical crossentropy", "optimizer": "SGD", "batch_size": 50}
    generator = {"learning_rate": 0.001, "rho": 0.95, "loss": "mean squared error", "optimizer": "Adadelta"}
    return {
        "attack_seconds": 0.1,
        "architectures": {
            "FCNN": {
                "layers": _layers("input", "dense|128|||relu", "dense|128|||relu", "dense|64|||relu",
                "dense|10|||softmax"),
                "hyper": victim,
            },
            "CNN": {
                "layers": _layers(
                    "input", "conv2d|3,3 x 32|1,1|valid|none", "maxpool|2,2", "flatten", "dense|128|||relu",
                    "dense|64|||relu", "dense|10|||softmax",
                ),
                "hyper": victim,
            },
            "generator-mnist": {
                "layers": _layers(
                    "input|13,13,32", "up-sampling nearest|2,2", "conv2d|5,5 x 20|1,1|valid|relu",
                    "up-sampling nearest|2,2", "conv2d|5,5 x 10|2,2|valid|relu", "flatten",
                    "dense|784|||sigmoid",
                    "reshape|28,28",
                ),
                "hyper": generator,
            },
            "generator-cifar10": {
                "layers": _layers(
                    "input|15,15,32", "conv2d transpose|5,5 x 128|1,1|same|relu",
                    "conv2d transpose|5,5 x 64|2,2|same|relu", "batchnorm",
                    "conv2d transpose|5,5 x 64|1,1|valid|relu",
                    "conv2d|3,3 x 32|1,1|valid|tanh", "conv2d|3,3 x 3|1,1|same|sigmoid",
                ),
                "hyper": generator,
            },
        },
        "correlation_threshold": 0.98,
        "auxiliary_samples": 6000,
        "private_pool": 4000,
        "auxiliary_private_overlap": 0,
        "generator_minutes": {"mnist": 1.5, "cifar10": 6.0},
    }  # fmt: skip
