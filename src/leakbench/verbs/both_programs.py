"""An attack by the code of an earlier commit and by today's, for a few iterations, on the same machine.

Where both reconstructions have the same bytes, every operation of the two runs gave the same bits. A change
that leaves the bits of a few iterations leaves those of many, since all iterations run the same code.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from leakbench.artefacts import read_tensors, to_json, write_text
from leakbench.catalogue.cell import capture_of
from leakbench.catalogue.code import PACKAGE
from leakbench.catalogue.workflow import Workflow
from leakbench.errors import UserError
from leakbench.process import OWNER

# The number of rounds on which the null baseline runs.
NULL_ROUNDS = 2


def inputs_of(flow: Workflow, cell: str) -> dict[str, str]:
    """Return the files that a cell's attack reads: `capture`, and where it needs them `generator`, `labels`.

    flow: the workflow of the cell's run. The files are relative to its root.
    cell: the path stem of the cell.
    """
    found = {
        "capture": [f"{flow.results}/captures/{capture_of(cell)}.safetensors"],
        "generator": flow.generator(cell),
        "labels": flow.oracle(cell),
    }
    return {name: paths[0] for name, paths in found.items() if paths}


def same_bytes(
    root: Path, spec: dict[str, Any], inputs: dict[str, str], commit: str, iterations: int
) -> bool:
    """Return whether an attack has the same bytes by the code of a commit and by today's.

    root: the checkout.
    spec: the spec of the attack.
    inputs: the files that it reads, as `inputs_of` returns them.
    commit: the commit.
    iterations: the number of iterations at most.

    Raises UserError if an input is missing, or one of the two programs ends with an error.
    """
    paths = {name: root.resolve() / path for name, path in inputs.items()}
    for path in paths.values():
        if not path.is_file():
            raise UserError(f"{path}: missing (run `make verify-recorded`, which makes it first)")
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        _unpack(commit, then / "leakbench")
        short = Path(folder) / "spec.json"
        write_text(short, to_json(_shortened(spec, iterations)))
        found = [_reconstructed(code, short, paths) for code in (then, PACKAGE.parent)]
    return bool(found[0]) and found[0] == found[1]


def _shortened(spec: dict[str, Any], iterations: int) -> dict[str, Any]:
    """Return the spec of an attack with fewer iterations. An attack without iterations stays as it is."""
    parameters = spec["attack"]["parameters"]
    fewer = {"iterations": min(iterations, parameters["iterations"])} if "iterations" in parameters else {}
    attack = spec["attack"] | {"parameters": parameters | fewer}
    return spec | {"attack": attack, "null_rounds": min(spec["null_rounds"], NULL_ROUNDS)}


def _unpack(commit: str, into: Path) -> None:
    """Write the package's files at a commit into a new folder."""
    call = ["git", "-C", str(PACKAGE), "archive", "--format=tar", commit, "."]
    packed = subprocess.run(call, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(into, filter="data")


def _reconstructed(code: Path, spec: Path, inputs: dict[str, Path]) -> dict[str, bytes]:
    """Return name → bytes of the tensors that an attack writes by the package below `code`."""
    environment = {name: value for name, value in os.environ.items() if name != OWNER}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "guesses.safetensors"
        call = [sys.executable, "-m", "leakbench", "attack", "--spec", str(spec), "--out", str(out)]
        for name, path in inputs.items():
            call += [f"--{name}", str(path)]
        done = subprocess.run(
            call, env=environment | {"PYTHONPATH": str(code)}, cwd=folder, capture_output=True, text=True
        )
        if done.returncode:
            last = done.stderr.strip().rpartition("\n")[2]
            raise UserError(f"{spec}: the attack ended with an error by the code below {code} ({last})")
        tensors, _ = read_tensors(out)
    return {name: value.tobytes() for name, value in tensors.items()}
