"""How long the commands take that a person waits for, beside what their libraries take to load.

`snakemake -n` plans the quick scale: `make reproduce` first, so that there is nothing to do.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.ceiling import Ceiling
from bench.measure import Row, Side, compare

ROOT = Path(__file__).parents[1]
UNIT = "seconds per command"
# Stands for a folder that is made for the bench.
OUT = "OUT"
TORCH = "import torch", ["-c", "import torch"]
# Name → arguments of Python, the command in words, and the command beside it.
COMMANDS = {
    "help": (["-m", "leakbench", "--help"], "leakbench --help", TORCH),
    "import": (["-c", "import leakbench"], "import leakbench", TORCH),
    "plan": (["-m", "snakemake", "-n", "--quiet"], "snakemake -n",
             ("snakemake --version", ["-m", "snakemake", "--version"])),
    "audit": (["-m", "leakbench", "audit", "--demo", "--out", OUT], "audit --demo", TORCH),
}  # fmt: skip


def rows(ceiling: Ceiling, small: bool = False) -> Iterator[Row]:
    """Yield a row for each command. A try leaves out the audit, which has tests of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (arguments, said, (rival, beside)) in COMMANDS.items():
            if not (small and name == "audit"):
                ours = Side("leakbench", partial(_run, arguments, folder), 1)
                theirs = Side(rival, partial(_run, beside, folder), 1)
                yield from compare(f"command {name}", said, UNIT, ours, [theirs], small=small)


def _run(arguments: Sequence[str], folder: str) -> None:
    asked = [sys.executable, *(folder if each == OUT else each for each in arguments)]
    subprocess.run(asked, cwd=ROOT, check=True, capture_output=True)
