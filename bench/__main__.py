"""Run every comparison and write results/bench.csv.

python -m bench                      the whole bench, on an idle machine
python -m bench --only exact grnn    some of its entries; nothing is written
python -m bench --try                every comparison at a tiny size, to see that it works; nothing is written
python -m bench --keep               keep results/bench.csv as bench/bench.csv, and write docs/bench.md
"""

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.measure import COLUMNS, kept
from bench.page import ROOT, keep
from leakbench.base.artefacts import write_text
from leakbench.base.processes.process import prepare
from leakbench.jobs.record import stamp

ENTRIES = (
    "fidel",
    "exact",
    "membership",
    "grnn",
    "encryption",
    "matching",
    "floors",
    "scheduler",
    "commands",
)
SHOWN = [name for name in COLUMNS if name not in ("work", "turns", "load_before", "load_after")]


def main(entries: Sequence[str], small: bool) -> None:
    """Run entries of the bench, print every row, and write the rows of a whole run.

    Rows that were measured on a busy machine are not written. Every side may use all cores.

    entries: the entries to run. Without any, all of them run, and their rows are written.
    small: whether every comparison has a tiny size; then nothing is written.
    """
    cores = len(os.sched_getaffinity(0))
    # Every job calls this before torch is loaded.
    prepare(cores)
    from bench.ceiling import measured

    speed = measured(0.1 if small else 1.0)
    reached = ", ".join(f"{kind} {value / 1e9:.0f} GFLOP/s" for kind, value in speed.items())
    text = f"one core of {cores}: {reached}"
    print(text, flush=True)
    made = stamp(ROOT) | {"ceiling": text}
    ceiling = {kind: cores * value for kind, value in speed.items()}
    rows = []
    for entry in entries or ENTRIES:
        for row in importlib.import_module(f"bench.{entry}").rows(ceiling, small):
            rows.append(row)
            print(pd.DataFrame([row], columns=SHOWN).to_string(index=False), flush=True)
    good = kept(rows)
    if len(good) < len(rows):
        print(f"{len(rows) - len(good)} of {len(rows)} rows were taken on a busy machine and are not written")
    if good and not small and not entries:
        table = pd.DataFrame(good, columns=COLUMNS).assign(**made)
        write_text(Path("results/bench.csv"), table.to_csv(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=ENTRIES, default=[])
    parser.add_argument("--try", dest="small", action="store_true")
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.keep:
        keep()
    else:
        main(given.only, given.small)
