"""What Snakemake itself takes: chains of jobs that do nothing, planned and run, with this project's settings
and without.

    python -m bench.scheduler 10000

prints one line; the chains have the workflow's shape, four jobs behind one another and all of them before one
report.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.measure import COLUMNS, seconds

ROOT = Path(__file__).parents[1]
STEPS = 4
# Run in `make bench`; a whole run of ten thousand takes minutes.
JOBS = 400
SNAKEFILE = """
from leakbench.catalogue.jobs import calm
CHAINS, STEPS = {chains}, {steps}
rule all:
    input: "report"
rule report:
    input: expand("{{chain}}/{steps}", chain=range(CHAINS))
    output: "report"
    shell: "touch {{output}}"
rule first:
    output: "{{chain}}/1"
    shell: "touch {{output}}"
{rules}
onstart:
    {start}
"""
RULE = """
rule step{step}:
    input: "{{chain}}/{before}"
    output: "{{chain}}/{step}"
    shell: "touch {{output}}"
"""


def chains(folder: Path, jobs: int, ours: bool) -> list[str]:
    """Write a workflow of about `jobs` jobs; return the command that runs it."""
    rules = "".join(RULE.format(step=step, before=step - 1) for step in range(2, STEPS + 1))
    text = SNAKEFILE.format(
        chains=jobs // STEPS, steps=STEPS, rules=rules, start="calm(workflow)" if ours else "pass"
    )
    (folder / "Snakefile").write_text(text)
    settings = ["--workflow-profile", str(ROOT / "profiles/default")] if ours else []
    return [sys.executable, "-m", "snakemake", "--cores", "2", "--quiet", "all", *settings]


def timed(jobs: int, ours: bool, *options: str) -> float:
    """Return the seconds that Snakemake takes for so many jobs, started from nothing."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*chains(Path(folder), jobs, ours), *options]
        return seconds(lambda: subprocess.run(command, cwd=folder, check=True, capture_output=True))


def rows() -> list[dict[str, Any]]:
    """Return the bench's row."""
    ours, plain = (timed(JOBS, way) / JOBS for way in (True, False))
    line = [
        "scheduler",
        f"{JOBS} jobs that do nothing, two at a time",
        "seconds per job",
        f"{ours:.3e}",
        f"{plain:.3e}",
        "Snakemake's own settings",
        f"{plain / ours:.1f}",
        "",
    ]
    return [dict(zip(COLUMNS, line, strict=True))]


if __name__ == "__main__":
    number = int(sys.argv[1])
    dry, whole = timed(number, True, "--dry-run"), timed(number, True)
    print(f"{number} jobs: dry run {dry:.1f} s, run {whole:.1f} s, {1000 * whole / number:.0f} ms a job")
