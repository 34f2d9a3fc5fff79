"""The words that figures and the report put under names: data sets, victims, threat models."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

DATASETS = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "orl": "ORL faces",
    "lfw": "LFW",
    "vgg-face": "VGG-Face",
    "imagenet": "ImageNet",
    "gaussians": "points in the plane",
    "synth90k": "Synth90K",
    "synthtext": "SynthText",
    "words-plain": "plain words (stand-in)",
    "words-over-photos": "words over photographs (stand-in)",
    "iiit5k": "IIIT5K",
    "svt": "SVT",
    "scut-foru": "SCUT-FORU",
    "icdar2003": "ICDAR 2003",
    "icdar2015": "ICDAR 2015",
}
ACTIVATIONS = ("relu", "sigmoid", "tanh", "linear")
SPELLING = {"relu": "ReLU", "fcnn": "FCNN", "cnn": "CNN", "lenet": "LeNet", "crnn": "CRNN"}
ATTACKS = {
    "dlg": "DLG",
    "idlg": "iDLG",
    "invg": "InvG",
    "agic": "AGIC",
    "grnn": "GRNN",
    "ggl": "GGL",
    "fidel": "Fidel",
    "adam": "Adam",
    "resnet50": "ResNet-50",
}
ORACLE = "-oracle"
# Names whose hyphens are their own.
NETWORKS = {
    "lenet-dlg-batch-norm": "DLG's LeNet with batch norm by the batch",
    "lenet-dlg-running-norm": "DLG's LeNet with batch norm",
    "lenet-dlg": "DLG's LeNet",
    "lenet-grnn": "GRNN's LeNet",
    "lenet-fedkl-running-norm": "FedKL's second LeNet",
    "lenet-fedkl": "FedKL's second LeNet, batch norm by the batch",
    "resnet18-sigmoid": "ResNet-18 with sigmoids",
    "resnet20-4": "ResNet20-4",
    "resnet20": "ResNet-20",
    "resnet32": "ResNet-32",
    "resnet34": "ResNet-34",
    "vgg16-batch-norm": "VGG-16, batch norm",
    "vgg16": "VGG-16",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "densenet121": "DenseNet-121",
}
# What a client shares of its key-lock.
DEFENCES = {
    "key-lock": "key-lock",
    "key-lock-sigmoid": "key-lock with sigmoids",
    "key-lock-key": "key-lock, key shared",
    "key-lock-lock": "key-lock, lock layers shared",
    "key-lock-both": "key-lock, key and lock layers shared",
    "key-lock-released": "key-lock, lock weights known",
    "key-lock-released-key": "key-lock, key and lock weights known",
    "encrypted": "encrypted, no key",
    "encrypted-colluding": "encrypted, key of a client",
    "fused": "fused models",
    "fused-drawn": "fused, secret shares",
    "fused-known": "fused, shares known",
    "aggregated": "sum of all",
    "aggregated-client": "sum, own part known",
}
# Trainings of FedBoosting's chapter, after the data set's name.
AGGREGATIONS = {
    "centralised": "centralised",
    "fedavg": "FedAvg",
    "fedavg-held-out": "FedAvg on 90 %",
    "equations": "FedBoosting, equations",
    "code": "FedBoosting, code",
    "code-accuracy": "FedBoosting, code, accuracies",
    "equations-validation": "equations, no training losses",
    "code-validation": "code, no training losses",
    "code-fused": "code, fused 0.9",
    "code-paillier": "code, Paillier 2048",
    "code-paillier-fused": "code, Paillier 2048, fused",
    "code-paillier-published": "code, Paillier 128 (insecure), fused",
    "code-ckks": "code, CKKS, fused",
    "code-private": "code, DP-SGD",
    "faults": "code, Paillier 2048, with faults",
}
# What a reader needs first; other fields of a threat model follow in their own order.
FIRST = ("threat model", "shared", "labels", "batch size")


def dataset(name: str) -> str:
    """The name of a data set as it is printed."""
    scaled = re.fullmatch(r"(.+)-(\d+)", name)
    if scaled:
        return f"{dataset(scaled[1])} at {scaled[2]}×{scaled[2]}"
    return DATASETS.get(name, re.sub(r"^cifar(\d+)$", r"CIFAR-\1", name))


def victim(name: str) -> str:
    """A victim's name as words: fcnn-relu-dropout is "FCNN, ReLU, dropout"."""
    network = next((n for n in NETWORKS if name == n or name.startswith(f"{n}-")), "")
    parts = name.removeprefix(network).strip("-").split("-")
    return ", ".join(filter(None, [NETWORKS.get(network, ""), *(SPELLING.get(part, part) for part in parts)]))


def defence(name: str) -> str:
    """A defence's name as words: gaussian-1e-2 is "Gaussian noise of 1e-2"."""
    kind, _, scale = name.partition("-")
    if kind in ("gaussian", "laplacian"):
        return f"{kind.capitalize()} noise of {scale or '1e-1'}"
    return DEFENCES.get(name, name.replace("-", " "))


def training(name: str) -> str:
    """A training's name as words: gaussians-code-fused is "code, fused 0.9", others lose their optimiser."""
    kind = re.sub(r"^(sgd|gaussians)-(poisoned-)?", "", name)
    return AGGREGATIONS.get(kind, kind.replace("-", " "))


def attack(name: str) -> str:
    """An attack's name as words: dlg-adam is "DLG-Adam", agic-beta-5-oracle is "AGIC beta 5, labels given"."""
    base = name.removesuffix(ORACLE)
    text = " ".join(ATTACKS.get(part, part) for part in base.split("-")).replace("DLG Adam", "DLG-Adam")
    return f"{text}, labels given" if name.endswith(ORACLE) else text


def merged(knows: Mapping[str, Any]) -> dict[str, str]:
    """One threat model out of one (field → value) or several (cell → field → value).

    Where cells differ, the values of a field are joined with " or ", so nothing is hidden.
    """
    models = [value for value in knows.values() if isinstance(value, Mapping)] or ([knows] if knows else [])
    fields = [
        *(f for f in FIRST if any(f in m for m in models)),
        *(f for m in models for f in m if f not in FIRST),
    ]
    return {
        field: " or ".join(dict.fromkeys(str(m[field]) for m in models if field in m)) for field in fields
    }


def threat(knows: Mapping[str, Any]) -> str:
    """A threat model in one line: "honest-but-curious server; labels unknown; ..."."""
    fields = merged(knows)
    return "; ".join(
        value if field == "threat model" else f"{field}: {value}" for field, value in fields.items()
    )


def listed(values: list[Any], most: int = 6) -> str:
    """Values with commas; a long list is shown by its ends."""
    words = [str(value) for value in values]
    return ", ".join(words) if len(words) <= most else f"{words[0]}, {words[1]} … {words[-1]}"


def steps(rows: pd.DataFrame) -> str:
    """How long the attacks behind some rows ran: "after 80 iterations", or nothing where the table does not tell."""
    counts = sorted(rows["iterations"].dropna().unique()) if "iterations" in rows else []
    if not counts:
        return ""
    return f"after {counts[0]:g}{f' to {counts[-1]:g}' if len(counts) > 1 else ''} iterations"


def many(count: int, thing: str) -> str:
    """A count with its noun."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
