"""Worlds in which our tables hold what AGIC and Fidel print, and the scorecard that they give."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.catalogue.load import find, load_kind
from leakbench.catalogue.shown import described
from leakbench.networks import generators, victims
from leakbench.networks.layers import describe
from leakbench.papers.facts import reader
from leakbench.papers.join import read
from leakbench.papers.scorecard.evidence import Evidence, Lines
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.scorecard import Card
from leakbench.papers.work import Work, read_papers

ROOT = Path(__file__).parents[3]
Tables = dict[str, pd.DataFrame]


@cache
def works() -> dict[str, Work]:
    return {work.name: work for work in read_papers(ROOT / "papers")}


def line(metric: str, mean: float, **where: Any) -> dict[str, Any]:
    """One line of a result table: 200 updates that hardly differ."""
    common = {
        "baseline": "", "convention": "standard", "mean": float(mean), "ci_low": mean - 1e-6,
        "ci_high": mean + 1e-6,
    }  # fmt: skip
    return common | {"metric": metric, "n": 200, "std": 1e-5, "failure_rate": 0.0} | where


def printed(work: Work) -> dict[str, dict[tuple[tuple[str, Any], ...], float]]:
    """Experiment -> condition of ours -> what the paper prints of it, in our unit."""
    found: dict[str, dict[tuple[tuple[str, Any], ...], float]] = {}
    for row in (row for rows in work.tables.values() for row in rows):
        reading = read(work, row)
        if reading.way != "mean" or math.isnan(row.number.value):
            continue
        where = dict(reading.where)
        lines = found.setdefault(where.pop("experiment"), {})
        value = row.number.value / reading.unit
        assert lines.setdefault(tuple(sorted(where.items())), value) == value, row.id
    return found


def tables(work: Work, more: Mapping[str, Iterable[dict[str, Any]]]) -> Tables:
    """What the paper prints, and more lines by experiment."""
    rows = {
        name: [line(mean=v, **dict(k)) for k, v in lines.items()] for name, lines in printed(work).items()
    }
    for name, lines in more.items():
        rows[name] = rows.get(name, []) + list(lines)
    return {name: pd.DataFrame(content) for name, content in rows.items()}


def known(facts: Mapping[str, Any]) -> Callable[[str], Any]:
    """Facts by path: the given ones, and what the catalogue says."""
    catalogue = _catalogue()
    return lambda path: facts[path] if path in facts else catalogue(path)


@cache
def _catalogue() -> Callable[[str], Any]:
    return reader(described(ROOT / "config"), {})


def card(work: Work, found: Tables, fact: Callable[[str], Any], **more: Any) -> pd.DataFrame:
    """The scorecard of one work, by id."""
    known = frozenset(load_kind(ROOT / "config", "experiments"))
    scale = Evidence("paper", {n: Lines(n, t) for n, t in found.items()}, fact=fact, known=known, **more)
    return Card([work], [scale], scale).frame().set_index("id")


def nothing(path: str) -> Any:
    raise NotMeasured(f"{path} is not known")


def changed(found: Tables, experiment: str, change: Callable[[pd.Series], pd.Series], **where: Any) -> Tables:
    """The tables with some lines of one of them changed."""
    table = found[experiment].copy()
    chosen = pd.Series(True, index=table.index)
    for key, value in where.items():
        chosen &= table[key] == value
    assert chosen.any()
    for key in ("mean", "ci_low", "ci_high"):
        table.loc[chosen, key] = change(table.loc[chosen, key])
    return found | {experiment: table}


# Figure 9: ratio -> PSNR with and without the ReLU modifier, and of the trained network.
WITH = {1: 20.9, 5: 24.0, 10: 26.0, 20: 28.0, 50: 31.341}
PLAIN = {1: 20.6, 5: 23.7, 10: 25.6, 20: 27.6, 50: 30.8}
TRAINED = {1: 18.0, 2: 18.6, 5: 18.3, 20: 17.5, 50: 17.0}


def figure_9() -> list[dict[str, Any]]:
    def points(values: dict[int, float], name: str, last: str, victim: str) -> list[dict[str, Any]]:
        names = {beta: f"agic-{name}beta-{beta}-oracle" for beta in values} | ({50: last} if last else {})
        return [line("psnr", value, attack=names[beta], victim=victim) for beta, value in values.items()]

    trained = "resnet20-4-trained"
    return [
        *points(WITH, "", "agic-oracle", "resnet20-4"),
        *points(PLAIN, "plain-", "agic-plain-oracle", "resnet20-4"),
        *points(TRAINED, "trained-", "", trained),
        line("psnr", 18.6, attack="agic-trained", victim=trained),
        line("psnr", 8.0, attack="agic-trained", victim=trained, baseline="random-gradient"),
    ]


def steps(metric: str, attack: str, values: dict[int, float]) -> list[dict[str, Any]]:
    return [line(metric, v, attack=attack, federation=f"agic-fedavg-steps-{t}") for t, v in values.items()]


def agic_tables() -> Tables:
    single = {"dataset": "cifar10", "victim": "resnet20-4", "federation": "agic-gradient"}
    falling = {1: 0.1, 2: 0.2, 4: 0.4, 8: 0.8}
    named = {"agic-reading-equal": 20.6, "invg": 20.671}
    lrs = {"agic-fedavg": 14.25, "agic-fedavg-large-lr": 11.0}
    labels = {"labels": 1.0, "labels-batch4-distinct": 0.95}
    return tables(works()["agic"], {
        "agic-table-2": [line("psnr", 15.0, dataset="cifar10", attack="invg-oracle")],
        "agic-figure-6": [line("ssim", 0.963, attack="agic-single", **single)],
        "agic-figure-7": [
            line("psnr", v, attack=a)
            for a, v in (("dlg-adam", 11.311), ("invg-resnet50", 12.832), ("agic-resnet50", 15.573))
        ],
        "agic-figure-8": [
            *steps("psnr", "agic", {t: 15 - less for t, less in falling.items()}),
            *steps("psnr", "invg", {t: 14 - less for t, less in falling.items()}),
            *steps("seconds", "agic", dict.fromkeys(falling, 402.0)),
            *steps("seconds", "invg", {1: 410.0, 2: 700.0, 4: 1200.0, 8: 1992.0}),
        ],
        "agic-figure-9": figure_9(),
        "agic-figure-10": [
            *(line("psnr", WITH[b], attack=f"agic-beta-{b}-oracle") for b in (1, 5, 10, 20)),
            line("psnr", WITH[50], attack="agic"),
        ],
        "agic-readings": [line("psnr", v, attack=a, victim="resnet20-4") for a, v in named.items()],
        "agic-large-lr": [
            line("psnr", v, attack="agic-one-batch", federation=f) for f, v in lrs.items()
        ],
        "agic-labels": [
            line("label_accuracy", v, attack="labels-row-minimum", federation=f)
            for f, v in labels.items()
        ],
    })  # fmt: skip


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
BOTH = ("mnist", "cifar10")


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


def both(baseline: str = "", **values: float) -> list[dict[str, Any]]:
    return [
        line(m, v, dataset=d, local_samples=10, baseline=baseline) for m, v in values.items() for d in BOTH
    ]


def each(metric: str, **values: Any) -> list[dict[str, Any]]:
    """One line for each value of the one column that is named."""
    ((column, found),) = values.items()
    shared = {"dataset": "mnist", "local_samples": 30}
    return [line(metric, v, **shared | {column: name}) for name, v in found.items()]


def fidel_tables() -> Tables:
    one = both(pearson=0.999, mse=1e-6, usable_neurons=70, isolating_neurons=69, isolating_share=0.99)
    moving = {"fidel-reveal": 19.5, "fidel-reveal-moving": 19.5}
    robust = {"victim": "fcnn-relu-untrained", "attack": "fidel", "dataset": "mnist"}
    found = {
        "fidel-figure-5": one,
        "fidel-figure-6": both(pearson=0.999)
        + each("channel_pearson", dataset={"mnist": 0.8, "cifar10": 0.5}),
        "fidel-figure-8": both(pearson=0.95, revealed_fraction=0.95)
        + each("tv_ratio", dataset={"mnist": 1.2, "cifar10": 0.5}),
        "fidel-figure-9": both(revealed=5, isolating_neurons=12, usable_neurons=120),
        "fidel-figure-10": both(revealed_fraction=0.9, isolating_neurons=9),
        "fidel-figure-11": [line | {"local_samples": 3} for line in both(revealed=2, isolating_neurons=20)],
        "fidel-figure-12": both(pearson_unrevealed=0.8) + both("dataset-mean", pearson=0.4),
        "fidel-figure-13": curves("mnist", "fcnn", 2 / 3, 30, 1.1),
        "fidel-figure-14": curves("cifar10", "cnn", 0.69, 20, 2.0),
        "fidel-figure-15": both(pearson=0.9, revealed_fraction=0.6)
        + each("usable_neurons", dataset={"mnist": 100, "cifar10": 120}),
        "fidel-training": [
            line("revealed", 1 + epoch / 2, victim=victim, local_samples=30, checkpoint=epoch)
            for victim in ("fcnn-relu", "fcnn-relu-dropout")
            for epoch in (0, 1, 5, 10, 30)
        ],
        "fidel-moving": [
            line | {"victim": "fcnn-relu-dropout"} for line in each("revealed", federation=moving)
        ],
        "fidel-rounds": each("revealed", dataset={"mnist": 19.5})
        + each("revealed_cumulative", dataset={"mnist": 30}),
        "fidel-width": each("revealed", victim={"fcnn-relu-dropout": 20, "fcnn-relu-dropout-256": 25}),
        "fidel-partial-update": [line | {"attack": "fidel-combined"} for line in both(revealed_fraction=0.6)],
        "fidel-auxiliary": each("pearson", attack={"fidel-generator": 0.95, "fidel-generator-fashion": 0.8}),
        "fidel-compression": [
            line("revealed_fraction", 1, defence=d, **robust) for d in ("quantise", "prune")
        ],
        "thesis-fedkl-adaptive": [
            line(
                "revealed_fraction",
                1,
                defence="gaussian-1e-3",
                federation="grnn-repeated",
                client=c,
                **robust,
            )
            for c in (0, 1)
        ],
    }
    return {name: pd.DataFrame(lines) for name, lines in found.items()}


def fidel_facts() -> dict[str, Any]:
    """Return our own networks, as the catalogue has them, and a run that took its time."""
    config, private = ROOT / "config", "run.capture.mnist/cnn-relu/fidel-demo/none.federation.private"
    cost = "cost.attack.mnist/fcnn-relu-dropout/fidel-reveal/none/fidel"
    found: dict[str, Any] = {
        f"{cost}.seconds": 20.0, f"{cost}.updates": 200,
        private: {"start": 6000, "stop": 10000}, f"{private}.start": 6000,
        "cost.generator.mnist/cnn-relu/fidel-mnist.seconds": 90.0,
        "cost.generator.cifar10/cnn-relu/fidel-cifar10.seconds": 360.0,
    }  # fmt: skip
    for name in ("fcnn-relu", "cnn-relu"):
        entry = find(config, "victims", name, "test").model_dump()
        model = victims.build(entry["module"], (28, 28, 1), 10, entry["parameters"])
        path = f"network.victims/mnist/{name}"
        found |= {f"{path}.layers": describe(model), f"{path}.training": entry["training"]}
        found |= {f"{path}.network.parameters.width": entry["parameters"].get("width")}
    for name, features, shape in (
        ("mnist", (32, 13, 13), (28, 28, 1)),
        ("cifar10", (32, 15, 15), (32, 32, 3)),
    ):
        entry = find(config, "generators", f"fidel-{name}", "test").model_dump()
        model = generators.build(entry["module"], features, shape, entry["parameters"])
        path = f"network.generators/{name}/cnn-relu/fidel-{name}"
        found |= {
            f"{path}.layers": describe(model),
            f"{path}.training": entry["training"],
            f"{path}.features": features,
        }
        found |= {
            f"{path}.training.epochs": entry["training"]["epochs"],
            f"{path}.auxiliary": entry["auxiliary"],
        }
        found |= {f"{path}.auxiliary.stop": entry["auxiliary"]["stop"]}
    return found


TABLES = {"agic": agic_tables, "fidel": fidel_tables}
FACTS = {"agic": agic_facts, "fidel": fidel_facts}


class World:
    """A work, tables and facts in which it holds, and its scorecard there."""

    def __init__(self, name: str) -> None:
        self.name, self.work = name, works()[name]
        self.tables, self.facts = TABLES[name](), FACTS[name]()
        self.held = self.card()

    def card(
        self, tables: Tables | None = None, facts: Mapping[str, Any] | None = None, **more: Any
    ) -> pd.DataFrame:
        """Return the scorecard by id, without the work's name in front, of other tables or facts."""
        found = self.tables if tables is None else tables
        made = card(self.work, found, known(self.facts if facts is None else facts), **more)
        return made.rename(index=lambda key: key.removeprefix(f"{self.name}."))


@cache
def world(name: str) -> World:
    """Return the world of a work."""
    return World(name)
