"""campaign: measure and record a scale's experiments that have no valid record, until the time is up."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.catalogue import costs
from leakbench.catalogue.budget import counted
from leakbench.catalogue.load import find, load_kind, suggest
from leakbench.jobs.record import outdated, planned, record
from leakbench.papers.entries import entries
from leakbench.papers.reference import read_record
from leakbench.papers.work import read_papers

# The seconds in which a stopped run puts its files in order. Then it is killed, and its jobs with it.
GRACE = 20.0


def campaign(
    root: Path, scale: str = "gpu", minutes: float = 12.0, device: str = "cpu", cores: int = 0,
    only: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Measure and record the experiments of a scale that have no valid record, the most valuable ones first.

    The experiments that the scale's budget names `first` lead, also where another scale recorded them. The
    others follow by the number of printed numbers and claims that read them, for each core-minute that they
    cost. A campaign that ends before an experiment does keeps the cells that are finished, and the next one
    goes on from there.

    root: the checkout.
    scale: the scale, a file of config/scales.
    minutes: the minutes after which nothing runs any more.
    device: what attacks and trainings run on: `cpu`, `cuda` (each job has a GPU of its own) or `cuda:0` (all
    jobs share it).
    cores: the number of jobs at a time, by default the number of cores.
    only: the experiments among which it chooses, by default all.

    Raises UserError where there is no such experiment or no time at all.
    """
    ends = time.monotonic() + 60 * minutes - GRACE
    if ends <= time.monotonic():
        raise UserError(f"campaign: --minutes {minutes:g} is too short (give more than {GRACE / 60:.2g})")
    waiting = in_order(root, scale, only)
    for name in list(waiting):
        if not (left := ends - time.monotonic()) > 0:
            break
        code = _ran(root, [
            f"results/{scale}/tables/{name}.csv", "--cores", str(cores or os.cpu_count() or 1), "--config",
            f"scale={scale}", f"only={name}", f"device={device}", "--quiet", "all",
        ], left)  # fmt: skip
        if code is None:
            break
        if code:
            print(f"campaign: {name}: Snakemake ended with {code} (its lines above say why)", flush=True)
            continue
        record(root, scale, name)
        waiting.remove(name)
        print(f"campaign: {name} is recorded", flush=True)
    print(f"campaign: {len(waiting)} experiments of scale {scale} have no valid record")


def in_order(root: Path, scale: str, only: Sequence[str] | None = None) -> list[str]:
    """Return the experiments of a scale that have cells and no valid record, the most valuable ones first."""
    asked = planned(root, scale)
    for name in only or ():
        if name not in asked.experiments:
            raise UserError(f"--only: no experiment {name!r} ({suggest(name, asked.experiments)})")
    budget = find(root / "config", "scales", scale, "--scale").budget
    first = budget.first if budget else []
    works = costs.works(asked.specs, counted(root / "config"))
    read_by = [entry for work in read_papers(root / "papers") for entry in entries(work)]

    def place(name: str) -> tuple[int, float]:
        cost = sum(works[spec].seconds() for spec in asked.run_for(name) & works.keys())
        worth = sum(entry.reads(name) for entry in read_by)
        return first.index(name) if name in first else len(first), -worth / (cost or 1.0)

    others = [each for each in load_kind(root / "config", "scales") if each != scale]

    def recorded(name: str) -> bool:
        """Whether a record is valid, where the scale does not ask for its own: of any scale."""
        scales = [scale] if name in first or only else [scale, *others]
        tables = ((each, root / "reference" / each / f"{name}.csv") for each in scales)
        there = ((each, table) for each, table in tables if table.is_file())
        return any(not outdated(root, each, name, read_record(table)) for each, table in there)

    there = [name for name in only or asked.experiments if asked.experiments[name] or asked.studies[name]]
    return sorted((name for name in there if not recorded(name)), key=place)


def _ran(root: Path, arguments: Sequence[str], seconds: float) -> int | None:
    """Return how Snakemake ended, or None if it had to be stopped."""
    run = subprocess.Popen([sys.executable, "-m", "snakemake", *arguments], cwd=root, start_new_session=True)
    with suppress(subprocess.TimeoutExpired):
        return run.wait(seconds)
    os.killpg(run.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        run.wait(GRACE)
    with suppress(ProcessLookupError):
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return None
