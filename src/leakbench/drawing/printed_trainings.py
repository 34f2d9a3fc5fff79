"""What Tables 5.1 and 5.3 of the thesis print, under the names that result tables use."""

from pathlib import Path

import pandas as pd

# Model as printed → the network under the lock, which has a twin without, and what the released code trains without it.
NETWORKS = {
    "LeNet": ("lenet-dlg-running-norm", "lenet-dlg"),
    "ResNet-20": ("resnet20", "resnet20-padded"),
    "ResNet-32": ("resnet32", "resnet32-padded"),
    "ResNet-18": ("resnet18-unpooled", "resnet18-imagenet"),
    "ResNet-34": ("resnet34-unpooled", "resnet34"),
    "VGG-16": ("vgg16-batch-norm", "vgg16"),
}
LARGE = ("ResNet-18", "ResNet-34", "VGG-16")
DATASETS = {"MNIST": "mnist-32", "CIFAR-10": "cifar10", "CIFAR-100": "cifar100"}
LOCKED = ("w/ KL", "FedKL")
CONDITION = ["dataset", "victim", "training", "defence", "key", "client"]


def training(model: str, kind: str) -> str:
    """The training of a model, centralised or federated: large networks have images of 224×224."""
    return f"sgd-{kind}{'-224' if model in LARGE else ''}"


def printed(folder: Path) -> pd.DataFrame:
    """The printed accuracies in [0, 1], columns CONDITION and `value`; empty where the folder lacks the tables."""
    rows = []
    for table in ("5-1", "5-3"):
        path = folder / f"thesis_table-{table}.csv"
        source = pd.read_csv(path, dtype=str, keep_default_na=False) if path.is_file() else pd.DataFrame()
        for row in source.to_dict("records"):
            if row["metric"] != "test_accuracy_percent" or row.get("training") == "reference":
                continue
            locked = row.get("method", LOCKED[0]) in LOCKED
            client = row.get("client", "")
            rows.append(
                {
                    "dataset": DATASETS[row["dataset"]],
                    "victim": NETWORKS[row["model"]][not locked],
                    "training": training(row["model"], row.get("training", "federated")),
                    "defence": "key-lock" if locked else "none",
                    "key": "random" if client == "random" else "own" if locked else "",
                    "client": float(client) if client.isdigit() else float("nan"),
                    "value": float(row["value"]) / 100,
                }
            )
    # Averages are in both tables.
    return pd.DataFrame(rows, columns=[*CONDITION, "value"]).drop_duplicates(CONDITION)
