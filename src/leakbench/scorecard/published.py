"""Reads `published/`: the papers' numbers and claims as one tidy frame.

Every CSV there has a header, a unique `id` first, and `source`. What the other columns mean is told by the
file's kind: numbers have `table`, `metric`, `value`; architectures have `layer_index`; attack properties
have `property`; claims have `claim` and `check`; figures have `figure` and only index the claims, so they
are no rows of the tidy frame.
"""

import csv
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pandas as pd

from leakbench.errors import UserError

COLUMNS = [
    "id", "source", "item", "kind", "condition", "metric", "convention", "published", "value", "bound",
    "tolerance", "note",
]  # fmt: skip
LAYER_CELLS = ("layer", "size", "stride", "padding", "activation")
NOT_CONDITION = {"id", "source", "table", "metric", "value", "std", "note", "property"}

# Metrics with an agreed definition; what is not here is a setting or a fact and has no convention.
METRICS = {
    "psnr", "psnr_mean", "psnr_db", "psnr_difference_db", "psnr_as_printed", "psnr_gain_max",
    "mse", "mse_as_printed", "mse_threshold", "ssim", "lpips", "lpips_vgg", "lpips_alex",
    "success_rate", "visually_recognisable", "matching_success_rate",
    "label_accuracy_percent", "word_accuracy_percent", "test_accuracy_percent", "train_accuracy_percent",
    "gap_to_random", "accuracy_percent", "accuracy_difference_percent", "relative_gain_percent",
    "confidence_percent", "top1_percent", "top3_percent", "top5_percent",
    "fully_revealed_mean", "fully_revealed_mean_min", "fully_revealed_fraction",
}  # fmt: skip

# (item pattern, metric pattern) of thesis and AGIC numbers that are not the standard metric of their name.
NONSTANDARD = [
    # converted affinely, perhaps after the difference of 8-bit images wrapped around
    (r"table-3\.4|table-3\.16|text-3\.3\.2|text-3\.3\.5", r"psnr_.*"),
    (r"table-3\.6|table-3\.9", r"visually_recognisable"),  # judged by eye, without a rule
    (r"table-3\.13", r"label_accuracy_percent_std"),  # a fraction beside a percentage
    (r"fig-3\.5", r"mse_threshold|success_rate"),  # on an axis normalised in an unstated way
    # of wide words of 3 to 25 letters and digits
    (r"table-4\.[13]", r"word_accuracy_percent"),
    (r"text-4\.3\.2\.2", r"accuracy_percent|accuracy_difference_percent"),
    # RMSE on 0..255, the PSNR made of it, and LPIPS of raw 0..255 BGR
    (r"table-5\.6", r"mse_as_printed|psnr_as_printed|lpips_.*"),
    (r"text-5\.3\.3", r"percent|psnr_as_printed|lpips"),
    # correct answers over the nominal size of every batch, the short last one too
    (r"table-5\.[13]", r"test_accuracy_percent|gap_to_random"),
    (r"text-5\.3\.2", r"relative_gain_percent|accuracy_percent"),
    (r"text-abstract|text-V-E", r"psnr_gain_max"),  # a percentage of decibels
]

NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Printed:
    """A printed value as a number: NaN when it is no single number; `tolerance` is the rounding that the
    print allows.
    """

    value: float
    bound: Literal["", ">", "<"] = ""
    tolerance: float = 0.0


def parse_printed(text: str, metric: str = "") -> Printed:
    """Read a value as it is printed: `31.34`, `+2.94`, `1e-4`, `50%` (50), `5x` (5), `>1`, `within 0.5`,
    `approximately 28`.

    A rising range such as `35 to 50` is its middle with half its width as tolerance. A slash is a fraction
    only for a metric whose name says so (`2/3` of fully_revealed_fraction); elsewhere it separates values
    of a list, which like words, comparisons and changes (`0.231 to 0.180`) has no single number and gives
    NaN. Metrics ending in `_min` (`_max`) are bounds from below (above). The tolerance is half a unit in
    the last printed place, a whole one after "approximately".
    """
    bound: Literal["", ">", "<"] = ">" if metric.endswith("_min") else "<" if metric.endswith("_max") else ""
    nothing = Printed(math.nan)
    body = text.strip()
    if ranged := re.fullmatch(rf"({NUMBER}) to ({NUMBER})", body):
        low, high = float(ranged[1]), float(ranged[2])
        return Printed((low + high) / 2, bound, (high - low) / 2) if low < high else nothing
    if "fraction" in metric and (parts := re.fullmatch(r"(\d+)/(\d+)", body)):
        return Printed(int(parts[1]) / int(parts[2]), bound)
    found = re.fullmatch(rf"(approximately |about |within |[<>]=?\s*)?({NUMBER})\s*(%|x)?", body)
    if not found:
        return nothing
    lead = (found[1] or "").strip()
    if lead[:1] in ("<", ">") and lead:
        bound = ">" if lead[0] == ">" else "<"
    elif lead == "within":
        bound = "<"
    exponent = Decimal(found[2]).as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) else 0.0
    return Printed(float(found[2]), bound, unit if lead in ("approximately", "about") else unit / 2)


def convention_of(source: str, item: str, metric: str) -> str:
    """ "published" for a number that is not the standard metric of its name, "standard" for one that is,
    "" for facts.
    """
    if source in ("thesis", "agic"):
        for items, metrics in NONSTANDARD:
            if re.fullmatch(items, item) and re.fullmatch(metrics, metric):
                return "published"
    return "standard" if metric in METRICS else ""


def read_published(folder: Path) -> pd.DataFrame:
    """All published numbers, facts and claims, one row each, with the columns COLUMNS.

    `kind` is number, fact or claim; `condition` is readable `key=value; ...` (for a claim: the check that
    decides it); `published` is the text as printed; `value`, `bound` and `tolerance` are what
    `parse_printed` makes of it. A printed standard deviation is a row of its own, with `-std` after the id.
    Rows keep the order of files and lines.

    Raises UserError naming file, line and key for a missing column, an empty or repeated id, or an empty
    statement.
    """
    rows: list[dict[str, object]] = []
    seen: dict[str, str] = {}
    for path in _files(folder):
        for line, record in _records(path):
            where = f"{path.name}: line {line}"
            if record["id"] in seen:
                first = seen[record["id"]]
                raise UserError(
                    f"{where}: id: {record['id']!r} is also in {first} (ids are unique over all files)"
                )
            seen[record["id"]] = where
            if "figure" not in record:
                rows += _tidy(record, where)
    return pd.DataFrame(rows, columns=COLUMNS)


def read_figures(folder: Path) -> pd.DataFrame:
    """The figures that carry no numbers in the text: id, source, figure, kind, shows, axes,
    qualitative_claim.
    """
    return pd.DataFrame([record for _, record in _records(folder / "figures.csv")])


def _files(folder: Path) -> list[Path]:
    paths = sorted(folder.glob("*.csv"))
    if not paths:
        raise UserError(f"{folder}: no CSV files (the published numbers belong there)")
    return paths


def _records(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            reader = csv.reader(handle)
            header = next(reader, [])
            for key in ("id", "source"):
                if key not in header:
                    raise UserError(f"{path.name}: line 1: {key}: the column is missing")
            records = []
            for cells in reader:
                if len(cells) != len(header):
                    key = cells[0] if cells else "id"
                    raise UserError(
                        f"{path.name}: line {reader.line_num}: {key}: {len(cells)} cells for {len(header)} "
                        "columns (quote a cell that contains a comma)"
                    )
                records.append((reader.line_num, dict(zip(header, cells, strict=True))))
    except FileNotFoundError:
        raise UserError(f"{path.name}: not found in {path.parent}") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise UserError(f"{path.name}: not a UTF-8 CSV file ({problem})") from None
    for line, record in records:
        for key in ("id", "source"):
            if not record[key]:
                raise UserError(f"{path.name}: line {line}: {key}: is empty")
    return records


def _tidy(record: dict[str, str], where: str) -> list[dict[str, object]]:
    def needed(key: str) -> str:
        if not record.get(key):
            raise UserError(f"{where}: {key}: is {'empty' if key in record else 'missing'}")
        return record[key]

    shared: dict[str, object] = {
        "id": record["id"],
        "source": record["source"],
        "note": record.get("note", ""),
        "convention": "",
    }
    if "claim" in record:
        claim = {"kind": "claim", "item": needed("item"), "condition": needed("check"), "metric": "claim"}
        return [shared | claim | _value(needed("claim"), "claim")]
    shared["item"] = item = needed("table")
    if "layer_index" in record:
        return [shared | _layer(record, needed("layer"))]
    condition = "; ".join(
        f"{key}={value}" for key, value in record.items() if value and key not in NOT_CONDITION
    )
    metric = needed("property") if "property" in record else needed("metric")
    convention = convention_of(record["source"], item, metric)
    kind = "number" if convention else "fact"
    shared |= {"kind": kind, "condition": condition}
    rows = [shared | {"metric": metric, "convention": convention} | _value(needed("value"), metric)]
    if record.get("std"):
        # Its unit follows its own convention: Table 3.13 prints it as a fraction beside a percentage.
        spread = f"{metric}_std"
        own = {"id": f"{record['id']}-std", "metric": spread}
        own["convention"] = convention_of(record["source"], item, spread) or convention
        rows.append(shared | own | _value(record["std"], spread))
    return rows


def _layer(record: dict[str, str], layer: str) -> dict[str, object]:
    condition = f"network={record['network']}; dataset={record['dataset']}"
    if layer.startswith("hyper:"):
        metric = layer.removeprefix("hyper:")
        return {"kind": "fact", "condition": condition, "metric": metric} | _value(record["value"], metric)
    text = "; ".join(f"{key}={record[key]}" for key in LAYER_CELLS if record[key])
    condition += f"; layer_index={record['layer_index']}"
    return {"kind": "fact", "condition": condition, "metric": "layer"} | _value(text, "layer")


def _value(text: str, metric: str) -> dict[str, object]:
    printed = Printed(math.nan) if metric in ("claim", "layer") else parse_printed(text, metric)
    return {"published": text, "value": printed.value, "bound": printed.bound, "tolerance": printed.tolerance}
