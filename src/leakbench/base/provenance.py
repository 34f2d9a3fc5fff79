"""What made a file (digests of spec and code, seed, versions, device), and in a record beside it the cost."""

import platform
import reprlib
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import Facts, read_json, write_json
from leakbench.base.code import code_of
from leakbench.base.digest import digest
from leakbench.base.errors import Altered
from leakbench.base.whole import whole

AGAIN = "delete it and run snakemake again"
# No job takes more seconds or has more updates.
_MOST = 1e15
# The instructions among which libraries choose, as Linux names them; no variable chooses (`process.prepare`).
_EXTENSIONS = (
    "sse4_1", "avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512vl", "avx512_vnni", "avx512_bf16",
    "avx512_fp16", "amx_bf16", "amx_int8", "asimd", "asimddp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip
_LIBRARIES = ("torch", "numpy", "scipy", "pandas", "scikit-image")


def read_spec(path: Path) -> dict[str, Any]:
    """Read a resolved spec (JSON). Raises UserError, naming the file, if it is missing or no spec."""
    return read_json(path, "a spec", "run `python -m leakbench plan`")


def spent(path: Path, **least: float) -> tuple[float, ...]:
    """Return numbers of the record that `recording` wrote of a job, in the order of `least`."""
    value = read_json(path, "a record", AGAIN)
    for key, bound in least.items():
        number = value.get(key)
        if isinstance(number, bool) or not isinstance(number, int | float) or not bound <= number <= _MOST:
            told = reprlib.repr(number)
            raise Altered(path, f"{key}: is {told} and must be a number from {bound} on", AGAIN)
    return tuple(value[key] for key in least)


def versions() -> dict[str, str]:
    """Return what a result's last bits may depend on: Python, libraries, and the processor's instructions."""
    own = {name: version(name) for name in _LIBRARIES}
    return {"python": platform.python_version(), **own, "instructions": _instructions()}


@cache
def _instructions() -> str:
    there = f"{_processor('flags')} {_processor('Features')}".split()
    return " ".join(name for name in _EXTENSIONS if name in there) or platform.machine()


def machine() -> str:
    """Return the device of this process in words: cpu and the processor's name."""
    return f"cpu: {_processor('model name') or platform.processor() or platform.machine()}"


def _processor(key: str) -> str:
    """Return what Linux says of the first processor under `key`, or nothing."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith(key):
                return line.partition(":")[2].strip()
    return ""


def provenance(spec: Mapping[str, Any], *modules: str, device: str = "cpu") -> Facts:
    """Return the facts that every output carries. None of them changes from run to run on one machine."""
    made = {"spec": digest(spec), "code": code_of(spec, *modules), "seed": spec.get("seed")}
    return made | {"versions": versions(), "device": device}


def resuming(made: Facts, out: Path, *inputs: Path | None) -> str:
    """Return the name under which a killed job finds what it had done."""
    seen = [whole(path) for path in inputs if path is not None]
    return digest({"made": made, "out": str(out), "seen": seen})[:32]


@contextmanager
def recording(path: Path | None, verb: str) -> Iterator[Facts]:
    """Write to `path` what the block cost: wall seconds, and the peak memory of the largest of its processes.

    `verb` is named in the record. The record is a file of its own, since results must not change with the
    cost. Yields a dict to which the block may add.
    """
    start = time.perf_counter()
    record: Facts = {"verb": verb}
    yield record
    record["seconds"] = round(time.perf_counter() - start, 3)
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    record["peak_memory_mb"] = max(resource.getrusage(of).ru_maxrss for of in processes) // 1024
    record["processor"] = platform.processor() or platform.machine()
    if path is not None:
        write_json(path, record)
