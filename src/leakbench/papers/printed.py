"""The reader of a work's tables as they are printed: papers/<work>/tables/*.csv.

Every file has a header, a unique `id` in the first column, and a column `source`. All columns but these and
`value`, `std`, `note` are printed words.
"""

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from leakbench.base.errors import UserError

# Column of a table → its value in one row.
Columns = dict[str, Any]
# How a statement compares its number.
Relation = Literal["=", ">", ">=", "<", "<="]
LAYER_CELLS = ("layer", "size", "stride", "padding", "activation")
# Field of a row → the column that every file must have for it.
OWN = {"id": "id", "source": "source", "item": "table"}
NOT_WORDS = {"id", "source", "value", "std", "note"}
NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Printed:
    """A printed value as a number."""

    value: float  # the number, NaN where the text is no single number
    bound: Literal["", ">", "<"] = ""  # ">" or "<" where the print gives a bound, "" otherwise
    rounding: float = 0.0  # by how much the number before rounding may differ


@dataclass(frozen=True)
class Row:
    """One printed number or fact."""

    id: str
    source: str  # the first part of the ids of its work, such as `thesis`
    item: str  # where in the work it is printed, such as a table or a section
    table: str  # the stem of the file in tables/
    metric: str  # the printed metric or property
    published: str
    number: Printed
    words: Mapping[str, str]
    note: str = ""
    std: float = math.nan  # the deviation that is printed beside the number, NaN where there is none
    spread: bool = False  # whether the row is a printed deviation

    @property
    def condition(self) -> str:
        """Return the printed words in one line, without the item and the metric."""
        hidden = {"table", "item", "metric", "property"}
        hidden |= set(LAYER_CELLS) if "layer_index" in self.words else set()
        return "; ".join(f"{key}={word}" for key, word in self.words.items() if word and key not in hidden)


def parse_printed(text: str, metric: str = "") -> Printed:
    """Read a value as it is printed, such as `31.34`, `+2.94`, `1e-4`, `50%` (50), `5x` (5) or `>1`.

    Further forms are `within 0.5` and `approximately 28`. A rising range such as `35 to 50` is its middle
    with half its width as rounding. A slash is a fraction only for a metric whose name says so (`2/3` of
    fully_revealed_fraction). Elsewhere a slash separates the values of a list. A list has no single number
    and gives NaN, like words, comparisons and changes (`0.231 to 0.180`). Metrics ending in `_min` (`_max`)
    are bounds from below (above). The rounding is half a unit in the last printed place, a whole one after
    "approximately".
    """
    bound: Literal["", ">", "<"] = ">" if metric.endswith("_min") else "<" if metric.endswith("_max") else ""
    nothing = Printed(math.nan)
    body = text.strip()
    if ranged := re.fullmatch(rf"({NUMBER}) to ({NUMBER})", body):
        low, high = float(ranged[1]), float(ranged[2])
        return Printed((low + high) / 2, bound, (high - low) / 2) if low < high else nothing
    if "fraction" in metric and (parts := re.fullmatch(r"(\d+)/(\d+)", body)):
        return Printed(int(parts[1]) / int(parts[2]), bound) if int(parts[2]) else nothing
    found = re.fullmatch(rf"(approximately |about |within |[<>]=?\s*)?({NUMBER})\s*(%|x)?", body)
    if not found:
        return nothing
    lead = (found[1] or "").strip()
    if lead[:1] in ("<", ">") and lead:
        bound = ">" if lead[0] == ">" else "<"
    elif lead == "within":
        bound = "<"
    exponent = Decimal(found[2]).as_tuple().exponent
    unit = 10.0**exponent if isinstance(exponent, int) and exponent < 300 else 0.0
    value = float(found[2])
    if math.isinf(value):
        return nothing
    return Printed(value, bound, unit if lead in ("approximately", "about") else unit / 2)


def as_text(value: object) -> str:
    """Return a table's value or a wanted value in one form: "" for nothing, whole numbers without a point."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(value)
    return f"{number:g}"


def read_tables(folder: Path) -> dict[str, list[Row]]:
    """Return stem of a CSV file → its printed rows. A printed deviation is a row of its own, `<id>-std`."""
    return {
        path.stem: [row for line in _records(path) for row in _rows(path, *line)]
        for path in sorted(folder.glob("*.csv"))
    }


def _records(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            reader = csv.reader(handle)
            header = next(reader, [])
            for key in ("id", "source"):
                if key not in header:
                    raise UserError(f"{path}: line 1: {key}: the column is missing (see papers/README.md)")
            if len(set(header)) < len(header):
                twice = next(key for place, key in enumerate(header) if key in header[:place])
                raise UserError(f"{path}: line 1: {twice}: is the name of two columns (rename one)")
            records = []
            for cells in reader:
                if len(cells) != len(header):
                    key = cells[0] if cells else "id"
                    raise UserError(
                        f"{path}: line {reader.line_num}: {key}: {len(cells)} cells for {len(header)} "
                        "columns (quote a cell that contains a comma)"
                    )
                records.append((reader.line_num, dict(zip(header, cells, strict=True))))
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror} (mend the file)") from None
    except (UnicodeDecodeError, csv.Error) as problem:
        raise UserError(f"{path}: not a UTF-8 CSV file ({problem}; mend the file)") from None
    return records


def _rows(path: Path, line: int, record: dict[str, str]) -> list[Row]:
    def needed(key: str) -> str:
        if not record.get(key):
            raise UserError(
                f"{path}: line {line}: {key}: is {'empty' if key in record else 'missing'} (fill it in)"
            )
        return record[key]

    words = {key: word for key, word in record.items() if key not in NOT_WORDS}
    shared: Columns = {key: needed(name) for key, name in OWN.items()}
    shared |= {"table": path.stem, "words": words, "note": record.get("note", "")}
    if "layer_index" in record and not record["layer"].startswith("hyper:"):
        text = "; ".join(f"{key}={record[key]}" for key in LAYER_CELLS if record[key])
        return [Row(**shared, metric="layer", published=text, number=Printed(math.nan))]
    if "layer_index" in record:
        metric = record["layer"].removeprefix("hyper:")
    else:
        metric = needed("property") if "property" in record else needed("metric")
    text, spread = needed("value"), record.get("std", "")
    std = parse_printed(spread).value if spread else math.nan
    rows = [Row(**shared, metric=metric, published=text, number=parse_printed(text, metric), std=std)]
    if spread:
        own = shared | {"id": f"{record['id']}-std", "metric": f"{metric}_std", "published": spread}
        rows.append(Row(**own, number=parse_printed(spread, f"{metric}_std"), spread=True))
    return rows
