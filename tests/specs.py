"""A sound spec of each kind of job, with every key that one may have."""

import copy
from typing import Any

IMAGES = {"name": "made", "shape": [8, 8, 1], "classes": 10}
FITTED = {
    "optimiser": "sgd", "lr": 0.1, "options": {"momentum": 0.9, "nesterov": True}, "batch_size": 10,
    "epochs": 2, "checkpoints": [0, 2], "images": None, "settled": None,
}  # fmt: skip
VICTIM: dict[str, Any] = {"module": "mlp", "parameters": {"hidden": [5, 4]}}
DEFENCE = {"module": "prune", "parameters": {"share": 0.5}}
FEDERATION = {
    "clients": [1, 3], "rounds": 4, "private": {"split": "train", "start": 0, "stop": 60},
    "local": {"lr": 0.1, "batch_size": None, "epochs": 1}, "update": "gradient", "server": "frozen",
    "local_set": "fresh", "distinct_labels": False, "passes": 1, "checkpoints": "last", "keep": True,
    "evaluate": None, "candidates": 5, "watched": True, "begins": 2,
}  # fmt: skip
REGIME = {
    "optimiser": "adadelta", "lr": 0.1, "options": {"rho": 0.9}, "decay": {"factor": 0.2, "rounds": [3]},
    "batch_size": 10, "rounds": 5, "local_epochs": 1, "clients": 3, "split": "iid", "alpha": None,
    "validation": 0.1, "images": None, "evaluate": None, "size": None, "augmentation": "none",
    "task": "classification", "beside": [], "tested_on": ["other"], "hold_out": 0.1, "fusion": 0.9,
    "privacy": {"noise": 1.0, "clip": 1.0, "delta": 0.1}, "poisoned": {"client": 1, "labels": "shuffled"},
    "faults": [{"client": 0, "round": 2, "kind": "absent"}],
}  # fmt: skip
CELL = "made/mlp/fed/prune/fidel/0"
SPECS: dict[str, dict[str, Any]] = {
    "victim": {"victim": VICTIM | {"training": FITTED}, "dataset": IMAGES, "seed": 0},
    "generator": {
        "generator": {
            "module": "fidel-mnist", "parameters": {}, "reads": "features",
            "auxiliary": {"dataset": "made", "split": "test", "start": 0, "stop": 20}, "validation": 0.1,
            "training": FITTED, "weights": None,
        },
        "victim": VICTIM, "dataset": IMAGES, "seed": 0,
    },
    "study": {
        "study": {"dataset": "made", "victim": "mlp", "training": "boosted", "defence": "prune"},
        "training": REGIME, "victim": VICTIM, "defence": DEFENCE, "dataset": IMAGES, "seed": 0,
        "aggregation": {"module": "fedboosting-code", "parameters": {}},
        "encryption": {"module": "paillier", "parameters": {"pieces": 2}},
    },
    "capture": {
        "federation": FEDERATION, "federation_name": "fed", "victim": VICTIM, "defence": DEFENCE,
        "dataset": IMAGES, "seed": 0, "salt": 32 * "0",
        "malicious": {
            "module": "robbing-the-fed", "parameters": {"bins": "normal"}, "threat": "G",
            "auxiliary": {"split": "test", "start": 0, "stop": 40},
        },
    },
    "attack": {
        "attack": {
            "module": "fidel", "parameters": {}, "generator": None, "labels": "none", "matching": "best",
        },
        "attack_name": "fidel", "null_rounds": 1, "seed": 0, "adaptation": {"module": "prune"},
        "defence": DEFENCE,
    },
    "score": {
        "cell": {"dataset": "made", "victim": "mlp", "federation": "fed", "defence": "prune", "seed": 0},
        "attacks": {
            "fidel": {"metrics": ["mse"], "judges": ["judge"], "matching": "best", "decays": False},
        },
        "judges": ["judge"],
    },
    "table": {
        "experiment": {
            "seeds": [0], "metrics": ["mse", "pearson"], "success": ["mse"], "client": None,
            "exhibit": {"rule": "matched", "rounds": 1, "reconstructions": 24},
        },
        "cells": [CELL], "scale": "quick", "left_out": "", "cells_left_out": {CELL: "too long"},
        "shares": {CELL: {"victim": 0.5}},
    },
}  # fmt: skip

# Of a data set that leakbench draws itself.
FETCH: dict[str, Any] = {
    "name": "gaussians", "module": "gaussians", "shape": [1, 2, 1], "classes": 2, "scaled": False,
    "counts": {"train": 36, "test": 4}, "sha256": None, "local": False,
    "parameters": {
        "samples": 20, "test": 0.1, "seed": 0, "means": [[[0.0, 1.0], [1.0, 0.0]]],
        "deviations": [[[1.0, 1.0], [1.0, 1.0]]],
    },
    "sources": [{
        "folders": [], "holding": ["*"], "put": "", "torchvision": [], "package": "", "drawn": "by leakbench",
    }],
}  # fmt: skip


# Of what shows results.
SHOWN: dict[str, dict[str, Any]] = {
    "figure": {
        "item": "table-1", "title": "x", "shows": "x", "work": "x", "scale": "quick",
        "figure": [{"drawing": "dots", "metrics": ["mse"]}],
        "parts": {
            "attack": [{"name": "fidel", "title": "Fidel", "summary": "x", "parameters": {"iterations": 5}}],
        },
    },
    "scorecard": {
        "attacks": {"fidel": {}}, "defences": {"prune": {"share": 0.5}}, "networks": {"mlp": VICTIM},
        "federations": {"fed": {"lr": 0.1, "rounds": 4}}, "images": {"made": 60}, "settled": {"mlp": 0.01},
        "splits": {"made": {"train": 50, "test": 10}}, "run": {"scale": "quick"},
        "files": {"cost.train.made/mlp": "results/quick/records/train/made/mlp/0.json"},
        "left_out": {"x": {"every cell": "too long"}},
    },
}  # fmt: skip


def verb_of(kind: str) -> str:
    """Return the verb that takes a kind of spec."""
    return "train" if kind in ("victim", "generator", "study") else kind


def at(value: Any, keys: str) -> Any:
    """Return what a value holds at keys with dots between them; at none of them, the value."""
    for key in filter(None, keys.split(".")):
        value = value[int(key) if isinstance(value, list) else key]
    return value


def altered(kind: str, *changes: tuple[str, Any]) -> dict[str, Any]:
    """Return the spec of a kind with other values at keys with dots between them; without those of `...`."""
    spec = copy.deepcopy(SPECS[kind])
    for keys, value in changes:
        above, _, last = keys.rpartition(".")
        inside = at(spec, above)
        key = int(last) if isinstance(inside, list) else last
        if value is ...:
            del inside[key]
        else:
            inside[key] = value
    return spec
