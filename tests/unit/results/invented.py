"""Invented results of every experiment: a table with every cell, metric and baseline of its figure."""

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.catalogue.resolve import Plan, plan
from leakbench.results.figures.result import Panel, Result

ROOT = Path(__file__).parents[3]
NULLS = ("random-gradient", "random-noise", "dataset-mean", "unrelated-image", "original")
KNOWS = {
    "threat model": "honest-but-curious server", "shared": "model update of each client, each round",
    "labels": "unknown", "batch size": "known", "defence": "none",
}  # fmt: skip
LOOKS, ROUNDS = 5, 4


@cache
def planned(scale: str = "paper") -> Plan:
    return plan(ROOT, scale)


def metrics_of(figure: list[dict[str, Any]]) -> list[str]:
    """Return the metrics that a figure's drawings ask for."""
    # A PSNR says that an attack reconstructs images.
    asked = [*(part.get("metrics", ()) for part in figure), ["psnr"] * any("strongest" in p for p in figure)]
    return list(dict.fromkeys(itertools.chain(*asked)))


def invent(name: str) -> Result:
    """Return an invented result of an experiment: means rise with the cell, three values of each behind an
    interval."""
    drawn = planned()
    spec = drawn.specs[f"figure/{name}"]
    cells, studies = drawn.experiments[name], drawn.studies[name]
    metrics = metrics_of(spec["figure"]) or ["psnr"]
    rows = pd.DataFrame([*_attacked(drawn, cells, metrics), *_trained(studies, metrics)])
    panels = [_panel(drawn, cell, name) for cell in cells] if drawn.definitions[name].exhibit else []
    classes = {cell.dataset: 40 for cell in cells}
    facts = {"knows": {"cell": KNOWS}, "seeds": [0], "classes": classes, "device": "cpu"}
    tensors, found = _plane(studies)
    return Result(rows, panels, facts | found, tensors, spec)


def row(**more: Any) -> dict[str, Any]:
    same = {
        "baseline": "", "convention": "standard", "mean": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 3,
        "unit": "image", "seeds": "0", "scale": "paper", "client": 0, "failure_rate": 0.0,
    }  # fmt: skip
    return same | more


def _attacked(drawn: Plan, cells: list[Any], metrics: list[str]) -> list[dict[str, Any]]:
    out = []
    for number, cell in enumerate(cells):
        federation = drawn.specs[f"capture/{cell.capture}"]["federation"]
        named = {key: value for key, value in vars(cell).items() if key != "seed"}
        epochs = federation["checkpoints"] if isinstance(federation["checkpoints"], list) else [0]
        whole = drawn.specs[f"attack/{cell.stem}"]["attack"]["parameters"].get("iterations")
        for metric, (client, size), epoch in itertools.product(
            metrics, enumerate(federation["clients"]), epochs
        ):
            kind = "psnr" if metric.startswith("psnr") else metric
            level = {"psnr": 30, "update_bytes": 1e5, "seconds": 100}.get(kind, 1)
            mean = level * (0.2 + 0.6 * (number % 17) / 17) / (1 + client / 8)
            here = named | {
                "metric": metric, "client": client, "local_samples": size, "checkpoint": epoch, "pass": 0,
            }  # fmt: skip
            here |= {"mean": mean, "ci_low": mean * 0.9, "ci_high": mean * 1.1, "iterations": whole}
            if metric.startswith("success"):
                out += [row(**here | {"threshold": step / 10, "mean": step / 10}) for step in range(11)]
                continue
            out.append(row(**here))
            out += [row(**here | {"baseline": null, "mean": mean / 4}) for null in NULLS]
            for look in range(1, LOOKS):
                steps = {"iterations": whole * look / LOOKS if whole else None, "round": look}
                out.append(row(**here | steps | {"baseline": "snapshot", "mean": mean * look / LOOKS}))
    return out


def _trained(studies: list[Any], metrics: list[str]) -> list[dict[str, Any]]:
    out = []
    for number, study in enumerate(studies):
        named = {key: value for key, value in vars(study).items() if key != "seed"}
        keys = [""] if study.defence == "none" else ["own", "other", "random"]
        for metric, key, client in itertools.product(metrics, keys, (np.nan, 0, 1, 2)):
            same = named | {
                "metric": metric, "key": key, "client": client, "unit": "run", "rounds": 4, "images": 900,
            }  # fmt: skip
            for tested, convention in itertools.product((study.dataset, "svt"), ("standard", "published")):
                here = same | {"tested": tested, "convention": convention}
                out.append(row(**here | {"mean": 0.3 + 0.5 * (number % 7) / 7}))
                way = here | {"baseline": "snapshot"}
                out += [row(**way | {"round": turn, "mean": turn / 5}) for turn in range(1, ROUNDS + 1)]
    return out


def _panel(drawn: Plan, cell: Any, name: str) -> Panel:
    exhibit = drawn.definitions[name].exhibit
    sizes = drawn.specs[f"capture/{cell.capture}"]["federation"]["clients"]
    size = sizes[drawn.definitions[name].client or 0]
    paired = exhibit.rule == "matched"
    k = min(10, size * exhibit.rounds) if paired else min(size, 10)
    m = k if paired else exhibit.reconstructions
    features = name in ("fidel-figure-6", "fidel-figure-10")
    rng = np.random.default_rng(abs(hash(cell.dataset)) % 2**16)
    truth = rng.uniform(size=(k, 3, 8, 8)).astype(np.float32)
    about = {key: value for key, value in vars(cell).items() if key != "seed"}
    about |= {"checkpoint": 0, "local_samples": size, "rule": exhibit.rule, "knows": KNOWS}
    about |= {"target": "features", "neuron": 7} if features else {"target": "images"}
    score = np.linspace(1, -0.2, m).astype(np.float32)
    return Panel(about, truth, truth[np.arange(m) % k], np.arange(m) % 9 != 5, np.arange(m) % k, score)


def _plane(studies: list[Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the boundaries and the words read of training studies."""
    tensors: dict[str, np.ndarray] = {}
    boundaries, examples = [], []
    rng = np.random.default_rng(0)
    for place, study in enumerate(studies):
        named = vars(study) | {"round": 4}
        if study.dataset == "gaussians":
            clients = 1 if study.training.endswith("centralised") else 2
            tensors[f"{place}/surface"] = np.linspace(0, 1, 49, dtype=np.float32).reshape(7, 7)
            for group in (*range(clients), "test"):
                points = rng.normal(size=(20, 3)).astype(np.float32)
                points[:, 2] = np.arange(20) % 2
                tensors[f"{place}/points/{group}"] = points
            extent = [-3, 3, -3, 3]
            boundaries.append(
                named | {"extent": extent, "clients": clients, "apart": place / 50, "accuracy": 0.9}
            )
        if study.victim == "crnn":
            tensors["words/svt"] = np.full((2, 32, 100), 90, np.uint8)
            examples.append(named | {"tested": "svt", "words": ["HOTEL", "BANK"], "read": ["HOTEL", ""]})
    problems = {s.training: [{"client": 1, "problem": "no update came", "round": 2}] for s in studies}
    return tensors, {"boundaries": boundaries, "examples": examples, "problems": problems}
