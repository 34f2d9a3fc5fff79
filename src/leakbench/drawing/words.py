"""The words that figures and the report put under names: data sets, victims, threat models."""

import re
from collections.abc import Iterable, Mapping
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
    "key-lock-linear": "linear key-lock",
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
# Defences whose strength is one number: what the words say of it.
STRENGTHS = {
    "gaussian": "Gaussian noise {scale:g}",
    "laplacian": "Laplacian noise {scale:g}",
    "clip": "clip to norm {norm:g}",
    "prune": "prune to {share:.0%}",
    "withhold": "withhold {share:.0%}",
    "quantise": "quantise to {bits} bits",
}
KEYS = {"own": "own key", "other": "another client's key", "random": "random key"}
METRICS = {
    "psnr": "PSNR (dB)",
    "ssim": "SSIM",
    "lpips_alex": "LPIPS (AlexNet)",
    "lpips_vgg": "LPIPS (VGG)",
    "lpips_alex_raw255_bgr": "LPIPS (AlexNet) of 0 to 255",
    "lpips_vgg_raw255_bgr": "LPIPS (VGG) of 0 to 255",
    "mse": "MSE of images",
    "gradient_mse": "MSE of gradients",
    "rmse_255": "RMSE of 0 to 255",
    "psnr_of_rmse": "PSNR, RMSE for MSE (dB)",
    "psnr_uint8_wrap": "PSNR, 8-bit wrap (dB)",
    "pearson": "Pearson r",
    "revealed": "revealed samples (r ≥ 0.98)",
    "revealed_fraction": "share revealed (r ≥ 0.98)",
    "revealed_cumulative": "revealed over all rounds",
    "identified": "share told apart",
    "label_accuracy": "labels right",
    "tv_ratio": "total variation, ratio",
    "seconds": "seconds per update",
    "accuracy": "test accuracy",
    "test_loss": "test loss",
    "weight": "weight in aggregation",
    "apart": "share of the plane classified otherwise",
    "update_bytes": "bytes of an update",
    "matching_success": "matched: labels and pooling",
    "matching_success_no_pooling": "matched: labels alone",
    "matching_success_no_labels": "matched: pooling alone",
    "matching_success_plain": "matched: neither",
    "success_mse": "successes by MSE",
    "success_psnr": "successes by PSNR",
    "success_ssim": "successes by SSIM",
}
# Metrics between 0 and 1, whose axes show all of that.
SHARES = {"revealed_fraction", "identified", "label_accuracy", "accuracy", "weight"}
AXES = {
    "local_samples": "private images in the local set, k",
    "checkpoint": "epochs of the victim's training",
    "iterations": "iterations of the attack",
    "share": "share of the attack's steps",
    "threshold": "normalised threshold",
    "round": "round",
}
BASELINES = {
    "random-gradient": "null: a random gradient attacked",
    "random-noise": "null: random noise",
    "dataset-mean": "null: the data set's mean image",
    "unrelated-image": "null: two unrelated images",
    "original": "the private images themselves",
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


def defence(name: str, parameters: Mapping[str, Any] | None = None) -> str:
    """A defence's name as words: gaussian-1e-2 with {scale: 0.01} is "Gaussian noise 0.01"."""
    strength = STRENGTHS.get(name.partition("-")[0])
    if strength and parameters:
        return strength.format_map(parameters)
    return DEFENCES.get(name, "no defence" if name == "none" else name.replace("-", " "))


def training(name: str) -> str:
    """A training's name as words: gaussians-code-fused is "code, fused 0.9", others lose their optimiser."""
    if read := re.fullmatch(r"text-(?:(both|fedavg|fedboosting)-)?(?:(\d)e)?(\d+)b?(.*)", name):
        return _reading(*read.groups(""))
    kind = re.sub(r"^(sgd|gaussians)-(poisoned-)?", "", name)
    return AGGREGATIONS.get(kind, kind.replace("-", " "))


def _reading(rule: str, epochs: str, batch: str, rest: str) -> str:
    """A training that reads words: text-fedavg-3e512b-he is "FedAvg, 3 epochs, batches of 512, he"."""
    rules = {
        "": "one set in one place",
        "both": "both sets in one place",
        "fedavg": "FedAvg",
        "fedboosting": "FedBoosting",
    }
    extra = {"-he": "encrypted", "-he-fused": "encrypted, fused", "-slow": "the stated learning rate"}
    extra["-validation"] = "no training losses"
    parts = [
        rules[rule],
        many(int(epochs), "epoch") if epochs else "",
        f"batches of {batch}",
        extra.get(rest, rest),
    ]
    return ", ".join(filter(None, parts))


def attack(name: str) -> str:
    """An attack's name as words: dlg-adam is "DLG-Adam", agic-beta-5-oracle is "AGIC beta 5, labels
    given"."""
    base = name.removesuffix(ORACLE)
    text = " ".join(ATTACKS.get(part, part) for part in base.split("-")).replace("DLG Adam", "DLG-Adam")
    return f"{text}, labels given" if name.endswith(ORACLE) else text


def called(column: str, value: str, parameters: Mapping[str, Any] | None = None) -> str:
    """The words for a value of any column of a table; `parameters` are those of the part that the value
    names."""
    if not value:
        return ""
    match column:
        case "dataset" | "tested":
            return dataset(value)
        case "victim":
            return victim(value)
        case "attack":
            return attack(value)
        case "training":
            return training(value)
        case "defence":
            return defence(value, parameters)
        case "metric":
            return METRICS.get(value, value.replace("_", " "))
        case "key":
            return KEYS.get(value, value)
        case "local_samples":
            return many(int(float(value)), "image")
        case "client" | "seed":
            return f"{column} {value}"
        case "checkpoint":
            return f"epoch {value}"
        case "pass":
            return f"pass {float(value) + 1:g}"
        case "federation":
            return value.replace("-", " ")
    return value


def missing(cells: Mapping[str, str]) -> str:
    """Why cells are missing: the data sets that are not there by name, other reasons as they are."""
    sets, reasons = {}, {}
    for reason in cells.values():
        first = reason.split()[0]
        if re.match(rf"{re.escape(first)} is not to be had|{re.escape(first)}: ", reason):
            sets[first] = dataset(first.rstrip(":"))
        else:
            reasons[reason] = reason
    absent = f"the data sets {', '.join(sets.values())} are not here" if sets else ""
    return "; ".join(filter(None, [absent, *reasons]))


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


def span(values: Iterable[float]) -> str:
    """Smallest to largest: "20 to 200", or "20" where all are alike."""
    known = sorted({value for value in values if value == value})
    if not known:
        return "0"
    return f"{known[0]:,.7g}" if len(known) == 1 else f"{known[0]:,.7g} to {known[-1]:,.7g}"


def steps(rows: pd.DataFrame) -> str:
    """How long the attacks behind some rows ran: "after 80 iterations", or nothing where the table does not
    say."""
    counts: Any = rows["iterations"].dropna() if "iterations" in rows else []
    return f"after {span(counts)} iterations" if len(counts) else ""


def many(count: int, thing: str) -> str:
    """A count with its noun."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
