"""What AGIC's tables print, under the names that result tables use."""

from pathlib import Path

import pandas as pd

from leakbench.drawing import words

COLUMNS = {"dataset": str, "attack": str, "local_samples": int, "pass": int, "metric": str, "value": float}
METHODS = {
    "DLG-Adam": "dlg-adam",
    "InvG": "invg",
    "AGIC": "agic",
    "AGIC (one-batch)": "agic-one-batch",
    "AGIC (one-batch + layers)": "agic",
    "AGIC pre-reconstruction + matching": "agic-joint-matching",
}
SHAPES = {
    ("None", "None"): "agic-equal",
    ("Decrease", "Convex"): "agic-falling-convex",
    ("Decrease", "Concave"): "agic-falling-concave",
    ("Decrease", "None"): "agic-falling-linear",
    ("Increase", "Convex"): "agic-rising-convex",
    ("Increase", "Concave"): "agic-rising-concave",
    ("Increase", "None"): "agic-rising-linear",
}
# Table -> epochs as printed -> attack, and the pass whose images it shows.
EPOCHS = {
    "table-3": {"1,2": ("agic-joint-assumed", 0)},
    "table-6": {"1": ("agic-one-batch", 0), "2": ("agic-one-batch", 1), "1,2": ("agic-joint", 0)},
}
METRICS = {"psnr": "psnr", "ssim": "ssim", "lpips": "lpips_alex"}
MATCHING = {
    ("no", "no"): "matching_success_plain",
    ("no", "yes"): "matching_success_no_labels",
    ("yes", "no"): "matching_success_no_pooling",
    ("yes", "yes"): "matching_success",
}


def printed(folder: Path, table: str) -> pd.DataFrame:
    """The numbers of one of AGIC's tables (`table-4`), with columns COLUMNS; empty where the folder has none.

    `attack` leaves out what the paper does not tell apart: who gave the labels, and variants for one setting.
    `local_samples` counts all images behind an update. `pass` is the epoch whose images a number
    is about, from 0; what Table V counts is known with the second.
    """
    path = folder / f"agic_{table}.csv"
    rows = []
    source = pd.read_csv(path, dtype=str, keep_default_na=False) if path.is_file() else pd.DataFrame()
    for row in source.to_dict("records"):
        name, epoch = METHODS.get(row["attack"], ""), 0
        if "monotonicity" in row:
            name = SHAPES[row["monotonicity"], row["convexity"]]
        elif row.get("epochs") in EPOCHS.get(table, {}):
            name, epoch = EPOCHS[table][row["epochs"]]
        metric = METRICS.get(row["metric"], "")
        if "label_filter" in row:
            metric, epoch = MATCHING[row["label_filter"], row["pooling"]], 1
        samples = int(row["batch_size"]) * int(row.get("local_steps") or 1)
        rows.append([row["dataset"], name, samples, epoch, metric, float(row["value"])])
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a result table with `dataset` and `attack` named as `printed` names them."""
    base = rows["attack"].str.removesuffix(words.ORACLE).str.replace("-(resnet50|single)$", "", regex=True)
    names = {"dataset": rows["dataset"].map(words.dataset), "attack": base, "pass": rows.get("pass", 0)}
    return rows.assign(**names)
