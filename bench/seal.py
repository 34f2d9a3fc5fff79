"""What the seal and the digests cost: processor seconds of real attack jobs with and without them, in turns.

    python -m bench.seal [--pairs 10] [--jobs 5] [--most 0.5]

The bench takes attacks of the quick scale whose updates are here and which took at most `--most` seconds,
evenly from the list of all such attacks. Short attacks are enough, because the cost of the seal hardly
depends on how long an attack runs. As in a run, each job is handed to a fork of a process that has the
libraries loaded, and reads files that the run has read whole before. The output of a job is thrown away. With
the default options the bench takes some 25 processor seconds.
"""

import argparse
import json
import os
import shutil
import socket
import tempfile
from pathlib import Path

import numpy as np

from leakbench.base import artefacts, provenance
from leakbench.base.processes import blinding
from leakbench.base.processes.process import OWNER, folder_of_the_run, prepare
from leakbench.base.processes.warm import follow
from leakbench.base.whole import replacing
from leakbench.catalogue.cell import Cell
from leakbench.catalogue.workflow import Workflow
from leakbench.jobs import warm_process
from leakbench.jobs.cli import run
from leakbench.jobs.warm_process import LIBRARIES, serve_one
from leakbench.metrics.interval import interval


def _bare() -> None:
    """Switch off the seal and the digests in this process. The product has no such switch."""
    blinding.seal, blinding.refuse_attacks = blinding.unsealed, blinding.allow_attacks
    artefacts.whole = provenance.whole = lambda path: ""
    artefacts.sealing = replacing
    warm_process.APART = ""


def spent(argv: list[str], bare: bool) -> float:
    """Return the processor seconds of a job, of its child processes and of the process that waits for it.

    argv: the verb and the arguments of the job.
    bare: whether the job runs without the seal and the digests.

    Raises RuntimeError if the job fails.
    """
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        if bare:
            _bare()
        serve_one(there, run)
    there.close()
    with here:
        code = follow(here, argv)
    _, _, used = os.wait4(child, 0)
    if code:
        raise RuntimeError(f"{' '.join(argv)} ended with {code}")
    return used.ru_utime + used.ru_stime


def commands(flow: Workflow, out: Path, most: float) -> dict[str, list[str]]:
    """Return the command of each attack job whose inputs are here, by the name of its cell.

    flow: the workflow whose results are here.
    out: the folder to which the jobs write.
    most: the number of seconds that a job took at most when it was recorded.
    """
    found = {}
    for stem in sorted(cell.stem for cell in flow.plan.cells):
        inputs = {"capture": [f"{flow.results}/captures/{Cell.parse(stem).capture}.safetensors"]}
        inputs |= {"generator": flow.generator(stem), "labels": flow.oracle(stem)}
        record = Path(flow.results, "records/attack", f"{stem}.json")
        if not record.is_file() or json.loads(record.read_text())["seconds"] > most:
            continue
        if all(Path(file).is_file() for files in inputs.values() for file in files):
            given = [word for name, files in inputs.items() for file in files for word in (f"--{name}", file)]
            spec, places = f"{flow.results}/specs/attack/{stem}.json", ("out", "record")
            kept = [word for name in places for word in (f"--{name}", str(out / name))]
            found[stem] = ["attack", *given, "--spec", spec, *kept]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=5)
    parser.add_argument("--most", type=float, default=0.5)
    given = parser.parse_args()
    prepare(1)
    os.environ[OWNER] = str(os.getpid())
    for library in LIBRARIES:
        __import__(library)
    with tempfile.TemporaryDirectory(prefix="leakbench-seal-", dir=Path.cwd()) as folder:
        jobs = commands(Workflow(Path.cwd(), "quick"), Path(folder), given.most)
        chosen = [sorted(jobs)[place] for place in np.linspace(0, len(jobs) - 1, given.jobs).astype(int)]
        for name in chosen:
            spent(jobs[name], False)
        extra, whole = np.zeros((2, given.pairs, len(chosen)))
        for pair in range(given.pairs):
            for number, name in enumerate(chosen):
                # The first job of a pair finds colder caches, so the order alternates.
                order = (False, True) if pair % 2 else (True, False)
                seconds = {bare: spent(jobs[name], bare) for bare in order}
                whole[pair, number], extra[pair, number] = seconds[False], seconds[False] - seconds[True]
    shutil.rmtree(folder_of_the_run(os.getpid()))
    for name, cost, total in zip(chosen, extra.mean(0), whole.mean(0), strict=True):
        print(f"{name}: {total:.3f} s, of which seal and digests {1000 * cost:.0f} ms")
    of_job = extra.mean(1) * 1000
    low, high = interval(of_job)
    print(
        f"a job: {of_job.mean():.1f} ms [{low:.1f}, {high:.1f}] of {whole.mean():.3f} s, n = {given.pairs} "
        f"pairs of {len(chosen)} jobs; {len(jobs)} attack jobs are here"
    )


if __name__ == "__main__":
    main()
