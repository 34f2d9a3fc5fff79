"""How much of the processor Snakemake itself takes to plan and run chains of jobs that do nothing.

One comparison is between this project's settings and Snakemake's own. In the other one, jobs depend
on a large data set by its digest or directly. The chains have the shape of the workflow: four jobs one after
another, and one report after all chains.

    python -m bench.scheduler 10000

prints one line for about 10,000 jobs.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.ceiling import Ceiling
from bench.measure import Row, Side, compare

ROOT = Path(__file__).parents[1]
STEPS = 4
# The number of jobs in `make bench`. A run of ten thousand jobs would take minutes.
JOBS = 200
# The bytes of the data set, which are more than Snakemake reads with profiles/default.
DATA = 128_000_000
BY_DIGEST, AS_IT_IS = 'ancient("data"), "digest"', '"data"'
SNAKEFILE = """
CHAINS, STEPS = {chains}, {steps}
rule all:
    input: "report"
rule report:
    input: expand("{{chain}}/{steps}", chain=range(CHAINS))
    output: "report"
    shell: "touch {{output}}"
rule first:
    input: {reads}
    output: "{{chain}}/1"
    shell: "touch {{output}}"
{rules}
{start}
"""
# As in workflow/rules/start.smk.
START = """
onstart:
    workflow.scheduler.job_rate_limiter = None
"""
RULE = """
rule step{step}:
    input: "{{chain}}/{before}"
    output: "{{chain}}/{step}"
    shell: "touch {{output}}"
"""


def chains(folder: Path, jobs: int, ours: bool, reads: str = "") -> list[str]:
    """Write a workflow of chains, and return the command that runs it.

    folder: the folder to write to.
    jobs: the number of jobs, about.
    ours: whether Snakemake uses this project's settings instead of its own.
    reads: the inputs of the first job of each chain, as they stand in a rule.
    """
    with (folder / "data").open("wb") as data:
        data.truncate(DATA)
    (folder / "digest").touch()
    rules = "".join(RULE.format(step=step, before=step - 1) for step in range(2, STEPS + 1))
    (folder / "Snakefile").write_text(
        SNAKEFILE.format(
            chains=jobs // STEPS, steps=STEPS, rules=rules, reads=reads, start=START if ours else ""
        )
    )
    settings = ["--workflow-profile", str(ROOT / "profiles/default")] if ours else []
    return [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet", "all", *settings]


def taken(jobs: int, ours: bool, *options: str, reads: str = "") -> float:
    """Return the processor's seconds that Snakemake and its jobs take in a new folder.

    jobs: the number of jobs, about.
    ours: whether Snakemake uses this project's settings instead of its own.
    options: further options of the command.
    reads: the inputs of the first job of each chain, as they stand in a rule.
    """
    with tempfile.TemporaryDirectory() as folder:
        quiet = subprocess.DEVNULL
        command = [*chains(Path(folder), jobs, ours, reads), *options]
        run = subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise subprocess.CalledProcessError(run.returncode, run.args)
    return usage.ru_utime + usage.ru_stime


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield the bench's rows, one for each comparison.

    ceiling: not used.
    small: whether to run only a few jobs, to see that the comparison works.
    """
    jobs = STEPS if small else JOBS
    yield from compare(
        "scheduler", f"{jobs} jobs that do nothing, two at a time", "processor's seconds per job",
        Side("ours", lambda: taken(jobs, True), jobs),
        [Side("Snakemake's own settings", lambda: taken(jobs, False), jobs)],
        small=small,
    )  # fmt: skip
    everything = ("--max-checksum-file-size", "300MB")
    yield from compare(
        "digests", f"{jobs} jobs that do nothing, a quarter read {DATA // 10**6} MB",
        "processor's seconds per job", Side("ours", lambda: taken(jobs, True, reads=BY_DIGEST), jobs),
        [Side("the data as an input", lambda: taken(jobs, True, *everything, reads=AS_IT_IS), jobs)],
        small=small,
    )  # fmt: skip


if __name__ == "__main__":
    number = int(sys.argv[1])
    dry, whole = taken(number, True, "--dry-run"), taken(number, True)
    each = 1000 * whole / number
    print(f"{number} jobs: dry run {dry:.1f} s, run {whole:.1f} s, {each:.0f} ms a job, all of the processor")
