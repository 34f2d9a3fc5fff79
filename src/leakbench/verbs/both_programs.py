"""A short sample of an experiment, run by an earlier commit's code and by today's on the same machine.

For attacks, both programs train the sample's networks for an epoch, play its capture, run its attacks for a
few iterations, score them and make the table. For a training study, both programs train a few rounds and make
the table. If every file has the same contents, every operation of the two runs gave the same bits. A change
that does not change the bits of a few iterations does not change those of many iterations either, since all
iterations run the same code.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from leakbench.catalogue.code import PACKAGE
from leakbench.catalogue.program import unpack
from leakbench.catalogue.workflow import Workflow
from leakbench.errors import UserError
from leakbench.process import OWNER
from leakbench.verbs.sampled import Run, inputs_of, made_of
from leakbench.warm import socket_of

# The seconds that a program is given to load its libraries. After them each job loads the libraries itself.
LOADS = 60.0


def differing(
    flow: Workflow, experiment: str, samples: Sequence[Sequence[str]], commit: str, iterations: int
) -> list[str]:
    """Return what has other contents by the code of a commit than by today's, of the first sample with such.

    flow: the workflow of the samples' run.
    experiment: the experiment whose table is made.
    samples: the path stems of each sample, as in `inputs_of`.
    commit: the commit.
    iterations: the number of iterations of an attack at most.

    Raises UserError if an input is missing, or one of the two programs ends with an error.
    """
    for name in (name for sample in samples for name in inputs_of(flow, experiment, sample)):
        if not (flow.root / name).is_file():
            raise UserError(f"{flow.root / name}: missing (run `make verify-recorded`, which makes it first)")
    with tempfile.TemporaryDirectory() as folder, _program(PACKAGE.parent) as today:
        then = Path(folder) / "then"
        unpack(commit, then / "leakbench")
        with _program(then) as earlier:
            same: set[str] = set()
            for sample in samples:
                # What a sample made may be large, so it goes before the next one is made.
                with tempfile.TemporaryDirectory(dir=folder) as own:
                    now, before = (
                        made_of(Run(program, Path(own) / name, iterations), flow, experiment, sample, same)
                        for name, program in (("now", today), ("before", earlier))
                    )
                if apart := [name for name in now if before.get(name) != now[name]]:
                    return apart
                same |= now.keys()
    return []


@contextmanager
def _program(code: Path) -> Iterator[dict[str, str]]:
    """Yield the environment in which the package below `code` runs.

    Its jobs belong to one run, so that they fork from a warm process of this program (`leakbench.warm`). The
    owner of the run is a process that ends when its input is closed, so at the latest with this one.
    """
    waits = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(waits, stdin=subprocess.PIPE) as owner:
        program = os.environ | {"PYTHONPATH": str(code), OWNER: str(owner.pid)}
        # Any command starts the warm process. Jobs that do not wait for it load the libraries once more each.
        subprocess.run(
            [sys.executable, "-m", "leakbench", "table", "--help"], env=program, capture_output=True
        )
        end = time.monotonic() + LOADS
        while not socket_of(owner.pid).exists() and time.monotonic() < end:
            time.sleep(0.05)
        yield program
