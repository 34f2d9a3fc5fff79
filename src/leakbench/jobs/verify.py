"""verify: compare the numbers of a finished tree, one by one, with those recorded of an earlier run."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from leakbench.base.artefacts import (
    AS_TEXT,
    Facts,
    read_csv,
    read_json,
    to_json,
    write_json,
    write_listed,
    write_text,
)
from leakbench.base.errors import UserError
from leakbench.base.provenance import machine, versions
from leakbench.base.yamls import validated
from leakbench.catalogue.entry import run_name
from leakbench.catalogue.load import find
from leakbench.papers.reference import Files, hold, kept_digests

# Times are never the same twice, so they are not compared.
TIMES = ("seconds", "seconds_per_round")
STATISTICS = ("mean", "std", "median", "q25", "q75", "ci_low", "ci_high", "n", "failure_rate")
KEYS = ["experiment", "line", "metric", "convention"]
NUMBERS = ["mean", "ci_low", "ci_high", "n"]
# The share of the recorded value by which float32 sums in another order may move a mean. Beyond it the
# recorded interval decides.
TOLERANCE = 1e-3
# How the record of a tree is made.
_AGAIN = "restore it with `git checkout`, or run `leakbench verify --record DEVICE`"
IDENTICAL, WITHIN, DIFFERENT, MISSING, NEW = "identical", "within tolerance", "different", "missing", "new"


class _Tree(BaseModel):
    """What made a recorded tree: of each table a digest, and how many of them a second run gave too."""

    model_config = ConfigDict(allow_inf_nan=False, strict=True)

    device: str
    versions: dict[str, str]
    tables: Annotated[dict[str, str], Field(min_length=1)]
    files: Files
    twice: dict[str, int] = {}


def _recorded(csv: Path, made: Path) -> tuple[pd.DataFrame, Facts]:
    """Return the numbers of a recorded tree and what made them."""
    facts = read_json(made, f"{csv.name}'s record", _AGAIN)
    validated(_Tree, facts, f"{made}: ", "reference/README.md")
    hold(csv, facts["files"], f"{made}: ", _AGAIN)
    known: pd.DataFrame = read_csv(csv, (*KEYS, *NUMBERS), _AGAIN, **AS_TEXT)
    if unknown := set(known["experiment"]) - set(facts["tables"]):
        raise UserError(f"{made}: tables: has no digest of '{min(unknown)}', unlike {csv.name} ({_AGAIN})")
    return known, facts


def _read(table: Path) -> pd.DataFrame:
    columns = ("metric", "convention", "baseline", *NUMBERS)
    rows: pd.DataFrame = read_csv(table, columns, "give a table below results/<scale>/tables", **AS_TEXT)
    return rows[~rows["metric"].isin(TIMES)]


def table_digest(table: Path) -> str:
    """Return the sha256 of a table's text without the lines of times."""
    return hashlib.sha256(_read(table).to_csv(index=False).encode()).hexdigest()


def numbers(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the numbers that tables, all as text, give of their attacks and studies themselves."""
    # There is one row per number, with the columns `KEYS` and `NUMBERS`. Null baselines and intermediate
    # measurements are left to `table_digest`, which sees every byte.
    found = [pd.DataFrame(columns=[*KEYS, *NUMBERS], dtype=str)]
    for experiment, rows in tables.items():
        rows = rows[(rows["baseline"] == "") & ~rows["metric"].isin(TIMES)]
        named = rows.columns.difference([*STATISTICS, *KEYS, "baseline", "scale", "unit"], sort=False)
        lines = [
            "; ".join(f"{name}={value}" for name, value in zip(named, values, strict=True) if value)
            for values in rows[named].itertuples(index=False)
        ]
        found.append(rows.assign(experiment=experiment, line=lines)[[*KEYS, *NUMBERS]])
    return pd.concat(found, ignore_index=True)


def _numbers(tables: Sequence[Path]) -> pd.DataFrame:
    return numbers({path.stem: _read(path) for path in tables})


def _place(path: Path, scale: str) -> tuple[Path, Path]:
    return path / "reference" / f"{scale}.csv", path / "reference" / f"{scale}.json"


def keep(root: Path, scale: str, device: str, twin: Path | None) -> None:
    """Keep the numbers of a finished tree. `twin` is a checkout with a second run's results."""
    tables, said = _tables(root, scale), ""
    digests = {path.stem: table_digest(path) for path in tables}
    facts: Facts = {"device": device, "versions": versions(), "tables": digests}
    if twin is not None:
        again = {path.stem: table_digest(path) for path in _tables(twin, scale)}
        same = len(digests.items() & again.items())
        facts["twice"], said = {"tables": len(digests), "identical": same}, f", {same} identical twice"
    csv, made = _place(root, scale)
    write_text(csv, _numbers(tables).to_csv(index=False))
    write_json(made, facts | {"files": kept_digests(csv)})
    print(f"{csv}: {len(tables)} tables recorded{said}")


def _tables(root: Path, run: str) -> list[Path]:
    found = sorted((root / "results" / run / "tables").glob("*.csv"))
    if not found:
        raise UserError(f"{root}/results/{run}/tables: no tables (run snakemake first)")
    return found


def status(measured: float, known: float, low: float, high: float) -> str:
    """Return in one word how a mean compares with a recorded one and its interval (NaN where it has none)."""
    if measured == known or (np.isnan(measured) and np.isnan(known)):
        return IDENTICAL
    near = abs(measured - known) <= TOLERANCE * abs(known)
    return WITHIN if near or low <= measured <= high else DIFFERENT


def compared(found: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    """Return every number of either side with its status, and `difference`, measured minus recorded."""
    # A table may have several lines with the same keys, for a condition that no column states. The turn
    # distinguishes them.
    for frame in (found, known):
        frame["turn"] = frame.groupby(KEYS).cumcount()
    both = found.merge(known, "outer", [*KEYS, "turn"], suffixes=("", "_recorded"), indicator=True)
    both = both.drop(columns="turn")
    names = ("mean", "mean_recorded", "ci_low_recorded", "ci_high_recorded")
    values = {name: pd.to_numeric(both[name], errors="coerce").to_numpy() for name in names}
    with np.errstate(invalid="ignore"):
        both["difference"] = values["mean"] - values["mean_recorded"]
    words = [status(*map(float, row)) for row in zip(*values.values(), strict=True)]
    side = both.pop("_merge")
    both["status"] = np.select([side == "left_only", side == "right_only"], [NEW, MISSING], words)
    return both


def summary_of(out: Path) -> Path:
    """Return the path of the summary beside the table `out`. Raises UserError where `out` is that path."""
    if out.suffix == ".json":
        raise UserError(f"--out {out}: its summary has this place (name a .csv file)")
    return out.with_suffix(".json")


def verify(
    root: Path, scale: str = "quick", tables: Sequence[Path] | None = None, out: Path | None = None,
    record: str | None = None, twin: Path | None = None, seed: int | None = None,
) -> None:  # fmt: skip
    """Compare tables with what is recorded of them; print a summary and write every number to `out`.

    Recorded numbers are of the seeds that the experiments name, so a run with raised seeds is compared with
    nothing.

    root: the checkout.
    scale: the scale of the run, a file of config/scales.
    tables: the tables that are compared, by default all tables of the run.
    out: the file for the compared numbers, one row each. A file beside it, with the suffix .json, gets the
    counts and says what made the recorded numbers.
    record: the device in words. The tree's numbers are then kept as those of this device.
    twin: with `record`, another checkout that has the results of a second run from scratch.
    seed: the number by which every seed of the run was raised.

    Raises UserError where there are no tables, and for an unknown scale.
    """
    if out is not None:
        summary_of(out)
    # The name becomes part of a path, so only the name of a scale is accepted.
    find(root / "config", "scales", scale, "--scale")
    if record is not None:
        if not record.strip():
            raise UserError("--record: is empty (say in words what the tree ran on)")
        if seed is not None:
            raise UserError(
                f"--seed {seed}: only a run with the experiments' own seeds is recorded (leave it out)"
            )
        return keep(root, scale, record, twin)
    csv, made = _place(root, scale)
    tables = tables or _tables(root, run_name(scale, seed))
    known = pd.DataFrame(columns=[*KEYS, *NUMBERS], dtype=str)
    facts: Facts = {}
    if (csv.exists() or made.exists()) and seed is None:
        known, facts = _recorded(csv, made)
    rows = compared(_numbers(tables), known)
    same = [path.stem for path in tables if facts.get("tables", {}).get(path.stem) == table_digest(path)]
    words = (IDENTICAL, WITHIN, DIFFERENT, MISSING, NEW)
    counts = {word: int((rows["status"] == word).sum()) for word in words}
    summary: Facts = {
        "scale": scale, "numbers": counts, "tables": len(tables), "identical_tables": len(same),
        "recorded": {key: facts[key] for key in ("device", "versions", "twice") if key in facts},
        **({} if seed is None else {"seed": seed}),
    }  # fmt: skip
    if out is not None:
        write_listed(out, rows.to_csv(index=False, float_format="%.6g"))
        write_listed(summary_of(out), to_json(summary) + "\n")
    if seed is not None:
        only = "recorded are only numbers of the experiments' own seeds, so nothing is compared"
        return print(f"every seed is raised by {seed}; {only}")
    if not facts:
        mend = "record a tree by `leakbench verify --record DEVICE`"
        return print(f"nothing is recorded of scale {scale} ({csv}); {mend}")
    print(
        f"{len(same)} of {len(tables)} tables are byte by byte those recorded on {facts['device']}; of "
        f"{len(rows)} numbers " + ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    )
    if not facts["device"].startswith(machine()):
        what = "last bits, and what follows from them, may differ"
        print(f"this machine is another device ({machine()}): {what}")
    apart = rows[rows["status"] == DIFFERENT]
    for row in apart.head(20).itertuples():
        print(f"  {row.experiment}: {row.line}; {row.metric}: {row.mean} (recorded {row.mean_recorded})")
