"""Worlds in which our tables hold what AGIC and Fidel print, and the scorecard that they give."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from spread import spread
from worlds import CONFIG, KNOWN, as_printed, judged, works

from leakbench.catalogue.load import find
from leakbench.catalogue.shown import described
from leakbench.networks import generators, victims
from leakbench.networks.layers import describe
from leakbench.papers.facts import reader
from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.quantity import NotMeasured

WORLDS = yaml.safe_load(Path(__file__).with_name("worlds.yaml").read_text())
Tables = dict[str, pd.DataFrame]


def line(metric: str, mean: float, **where: Any) -> dict[str, Any]:
    """One line of a result table: 200 updates that hardly differ."""
    common = {"baseline": "", "convention": "standard", "n": 200, "std": 1e-5, "failure_rate": 0.0}
    ends = {"mean": float(mean), "ci_low": mean - 1e-6, "ci_high": mean + 1e-6}
    return common | ends | {"metric": metric} | where


def printed(name: str) -> dict[str, dict[tuple[tuple[str, Any], ...], float]]:
    """Experiment -> condition of ours -> what the paper prints of it, in our unit."""
    found: dict[str, dict[tuple[tuple[str, Any], ...], float]] = {}
    for row, _, where, value in as_printed(name, "mean"):
        lines = found.setdefault(where.pop("experiment"), {})
        if not math.isnan(value):
            assert lines.setdefault(tuple(sorted(where.items())), value) == value, row.id
    return found


def known(facts: Mapping[str, Any]) -> Callable[[str], Any]:
    """Facts by path: the given ones, and what the catalogue says."""
    catalogue = _catalogue()
    return lambda path: facts[path] if path in facts else catalogue(path)


@cache
def _catalogue() -> Callable[[str], Any]:
    return reader(described(CONFIG), {})


def card(name: str, found: Tables, fact: Callable[[str], Any], **more: Any) -> pd.DataFrame:
    lines = {experiment: Table(experiment, table) for experiment, table in found.items()}
    return judged(name, ScaleEvidence("paper", lines, fact=fact, known=KNOWN, **more))


def nothing(path: str) -> Any:
    raise NotMeasured(f"{path} is not known")


def changed(found: Tables, experiment: str, change: Callable[[pd.Series], pd.Series], **where: Any) -> Tables:
    table = found[experiment].copy()
    chosen = pd.Series(True, index=table.index)
    for key, value in where.items():
        chosen &= table[key] == value
    assert chosen.any()
    for key in ("mean", "ci_low", "ci_high"):
        table.loc[chosen, key] = change(table.loc[chosen, key])
    return found | {experiment: table}


def agic_facts() -> dict[str, Any]:
    cell = "cifar10/resnet20-4/agic-gradient/none"
    look = "cifar100/resnet20-4-cifar100/agic-passes/none/agic-joint-matching"
    return {
        f"run.attack.{cell}/agic-single.attack.parameters.iterations": 10000,
        f"run.attack.{look}.attack.epochs.joint.pre_iterations": 2000,
        f"run.capture.{cell}.federation.rounds": 100,
        "network.victims/cifar10/resnet20-4.tensors": [[64, 3, 3, 3]] * 21 + [[64]],
    }


SIZES = (1, 2, 5, 10, 20, 30, 50, 100, 200)


def curves(dataset: str, family: str, height: float, knee: int, fade: float) -> list[dict[str, Any]]:
    strength = {
        "relu": 0.6, "relu-dropout": 1.0, "sigmoid": 0.01, "sigmoid-dropout": 0.02, "tanh": 0.01,
        "tanh-dropout": 0.02, "linear": 0.02, "linear-dropout": 0.03,
    }  # fmt: skip
    lines = []
    for setting, share in strength.items():
        for k in SIZES:
            count = share * k if k <= 2 else share * k * height * min(1, (knee / k) ** fade)
            values = {"revealed": count, "revealed_fraction": count / k, "isolating_neurons": 2 * count}
            where = {"dataset": dataset, "victim": f"{family}-{setting}", "local_samples": k}
            lines += [line(metric, value, **where) for metric, value in values.items()]
    return lines


def own_tables(name: str) -> Tables:
    """Return our tables in the world in which a work holds."""
    rows = {
        experiment: [line(mean=v, **dict(k)) for k, v in lines.items()]
        for experiment, lines in (printed(name).items() if name == "agic" else ())
    }
    for experiment, said in WORLDS[name]["lines"].items():
        rows.setdefault(experiment, []).extend(line(**each) for each in spread(said))
    if name == "fidel":
        rows["fidel-figure-13"] = curves("mnist", "fcnn", 2 / 3, 30, 1.1)
        rows["fidel-figure-14"] = curves("cifar10", "cnn", 0.69, 20, 2.0)
    return {experiment: pd.DataFrame(lines) for experiment, lines in rows.items()}


def fidel_facts() -> dict[str, Any]:
    """Return our own networks, as the catalogue has them, and a run that took its time."""
    private = "run.capture.mnist/cnn-relu/fidel-demo/none.federation.private"
    cost = "cost.attack.mnist/fcnn-relu-dropout/fidel-reveal/none/fidel"
    found: dict[str, Any] = {
        f"{cost}.seconds": 20.0, f"{cost}.updates": 200,
        private: {"start": 6000, "stop": 10000}, f"{private}.start": 6000,
        "cost.generator.mnist/cnn-relu/fidel-mnist.seconds": 90.0,
        "cost.generator.cifar10/cnn-relu/fidel-cifar10.seconds": 360.0,
    }  # fmt: skip
    for name in ("fcnn-relu", "cnn-relu"):
        entry = find(CONFIG, "victims", name, "test").model_dump()
        model = victims.build(entry["module"], (28, 28, 1), 10, entry["parameters"])
        path = f"network.victims/mnist/{name}"
        found |= {f"{path}.layers": describe(model), f"{path}.training": entry["training"]}
        found |= {f"{path}.network.parameters.width": entry["parameters"].get("width")}
    shapes = {"mnist": ((32, 13, 13), (28, 28, 1)), "cifar10": ((32, 15, 15), (32, 32, 3))}
    for name, (features, shape) in shapes.items():
        entry = find(CONFIG, "generators", f"fidel-{name}", "test").model_dump()
        model = generators.build(entry["module"], features, shape, entry["parameters"])
        training, auxiliary = entry["training"], entry["auxiliary"]
        told = {"layers": describe(model), "training": training, "features": features, "auxiliary": auxiliary}
        told |= {"training.epochs": training["epochs"], "auxiliary.stop": auxiliary["stop"]}
        path = f"network.generators/{name}/cnn-relu/fidel-{name}"
        found |= {f"{path}.{key}": value for key, value in told.items()}
    return found


FACTS = {"agic": agic_facts, "fidel": fidel_facts}


class World:
    """A work, tables and facts in which it holds, and its scorecard there."""

    def __init__(self, name: str) -> None:
        self.name, self.work = name, works()[name]
        self.tables, self.facts = own_tables(name), FACTS[name]()
        self.held = self.card()

    def card(
        self, tables: Tables | None = None, facts: Mapping[str, Any] | None = None, **more: Any
    ) -> pd.DataFrame:
        found = self.tables if tables is None else tables
        made = card(self.name, found, known(self.facts if facts is None else facts), **more)
        return made.rename(index=lambda key: key.removeprefix(f"{self.name}."))


@cache
def world(name: str) -> World:
    return World(name)
