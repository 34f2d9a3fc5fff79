"""What the job makes of an attack in a sealed process: of what it hands over, and of how it ends.

The tensors must be those of a reconstruction of what the attack was given. An end is the attack's own fault,
unless the machine is seen to lack something.
"""

import errno
import json
import os
import resource
import signal
import stat
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakbench.attacks import Piece
from leakbench.attacks.exact.membership import certified
from leakbench.attacks.matching.received import noise_images
from leakbench.base.artefacts import Facts, open_tensors
from leakbench.base.errors import Altered, Unfit, Unwritable
from leakbench.base.processes.blinding import Blinded
from leakbench.base.processes.process import Stopped
from leakbench.base.whole import whole
from leakbench.networks.layers import dense_input
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import OF, Reconstruction

# What a sealed process hands over: its tensors, or why there are none.
TENSORS, _END = "found.safetensors", "end.json"
# The largest file and the longest reason that are taken from it.
_MOST_BYTES, _LONGEST = 1 << 34, 2000
# The errors of the operating system that say what the machine lacks, or that nobody reads the output.
_NO_FILES = (errno.EMFILE, errno.ENFILE)
_LACKING = (
    errno.EAGAIN, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, errno.ENOSPC, errno.EPIPE, *_NO_FILES,
)  # fmt: skip
# A limit on open files below which a lack of them is the machine's.
_FEW_FILES = 256


def read(
    path: Path, observation: Observation, noise: Observation, entry: Mapping[str, Any]
) -> tuple[Reconstruction, Reconstruction]:
    """Return what an attack has handed over of an observation and of noise. Raises Unfit for all else."""
    module = entry["module"]
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1 or state.st_size > _MOST_BYTES:
            raise Unfit(_fault(module, "what it made is no file of its own of a likely size"))
        arrays, facts = open_tensors(path)
    except FileNotFoundError as problem:
        raise Unfit(_fault(module, "it ended without a reconstruction")) from problem
    except Altered as problem:
        raise Unfit(_fault(module, f"its reconstruction is no whole file: {problem.what}")) from problem

    def of(prefix: str, seen: Observation) -> Reconstruction:
        found = _taken(arrays, prefix, facts)
        repeats = seen.knows.local_set_repeats and len(set(seen.origin.tolist())) == 1
        # An attack that knows the defence may have pooled the rounds (`attacks.adaptive.adapted`).
        pooled = bool(entry.get("adaptive") and repeats and len(found.usable) == 1 < seen.rounds)
        seen = seen.part(slice(1)) if pooled else seen
        return next(checked(iter([(..., found)]), seen, not pooled))[1]

    return of("", observation), of("null/", noise)


def _taken(arrays: Mapping[str, np.ndarray], prefix: str, facts: Mapping[str, Any]) -> Reconstruction:
    """Return the reconstruction whose tensors have names that begin with a digit and then `prefix`."""
    known = {each.name for each in fields(Reconstruction)} - {"target", "iterations", "partners"}
    own: Facts = {name: facts.get(name) for name in ("target", "iterations")}
    partners: dict[str, torch.Tensor] = {}
    for name, array in arrays.items():
        if not array.flags.aligned:
            raise Unfit(f"{OF}{name} does not begin where it can be read")
        place = name[1:]
        if place.startswith("null/") == bool(prefix):
            place = place.removeprefix(prefix)
            with warnings.catch_warnings():
                # Nobody writes to the tensor.
                warnings.simplefilter("ignore")
                (own if place in known else partners)[place] = torch.from_numpy(array)
    if not {"images", "usable"} <= own.keys():
        raise Unfit(f"{OF}images or usable is missing")
    return Reconstruction(**own, partners=partners)


def checked(pieces: Iterator[Piece], of: Observation, certify: bool) -> Iterator[Piece]:
    """Yield pieces that can be scored; if asked, with what follows from the updates about them."""
    # A round that an attack leaves out would be missing from every mean. Each piece goes into one file, so
    # all are of one form. Raises Unfit for a piece that does not fit the observation or the first piece.
    form: Facts = {}
    for rounds, found in pieces:
        found.check()
        seen = of if rounds is ... else of.part(rounds)
        given, made = (seen.rounds, len(of.clients)), tuple(found.usable.shape[:2])
        if made != given:
            raise Unfit(f"{OF}{made} rounds and clients of {given} (mark what is unknown as not usable)")
        if rounds is not ... and (found.traced is not None or found.snapshots is not None):
            raise Unfit(f"{OF}traced and snapshots are of all rounds (leave them out, or rounds_at_once)")
        shape, wanted = tuple(found.images.shape[2:]), _asked(found, seen)
        if shape != wanted:
            raise Unfit(f"{OF}images of the target {found.target} are {shape}, and must be {wanted}")
        found = certified(seen, found) if certify else found
        own = {"target": found.target} | layout("", (rounds, found), of.rounds)
        form = form or own
        if own != form:
            odd = max(name for name, _ in own.items() ^ form.items())
            raise Unfit(f"{OF}{odd} is of another form in later rounds than in the first ones")
        yield rounds, found


def _asked(found: Reconstruction, seen: Observation) -> tuple[int, ...]:
    """Return the shape [n, …] of the images that are scored of one update."""
    rows, columns, channels = seen.network["shape"]
    n, *shape = found.images.shape[2:]
    if found.target == "candidates":
        n = 0 if seen.candidates is None else len(seen.candidates)
    if found.target == "tokens":
        tokens = seen.network["classes"]
        # An attack may answer for each place of each token.
        n = tokens * (rows * columns - 1) if n > tokens else tokens
    if found.target == "images":
        shape = [channels, rows, columns]
    if found.target == "features":
        shape = [*dense_input(seen.model(), noise_images((channels, rows, columns))).shape[1:]]
    return n, *shape


def layout(prefix: str, piece: Piece, rounds: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return name → (shape, dtype) of the tensors of all `rounds`, from one piece of them."""
    found = {}
    for name, tensor in piece[1].tensors().items():
        shape = tuple(tensor.shape) if piece[0] is ... else (rounds, *tensor.shape[1:])
        found[prefix + name] = shape, str(tensor.dtype).removeprefix("torch.")
    return found


@contextmanager
def own_fault(module: str) -> Iterator[None]:
    """Turn a fault in an attack's own code into Unfit, so that other attacks keep their scores."""
    # The traceback is in the job's log. The spec and the observation have been read, so a mistake in them is
    # not taken for a fault of the attack. A signal and what the machine lacks pass: a later try may succeed.
    try:
        yield
    except (Exception, SystemExit) as fault:
        if isinstance(fault, Blinded):
            raise Unfit(f"attack: module {module} is no blind attack: {fault}") from fault
        if isinstance(fault, Unfit | Stopped) or _lack(fault):
            raise
        with suppress(Exception):
            traceback.print_exc()
        raise Unfit(_fault(module, words(fault))) from fault


def _lack(end: BaseException) -> str:
    """Return what the machine lacks according to an attack's end, or that its work was altered ("bytes")."""
    if isinstance(end, MemoryError | torch.OutOfMemoryError) or "allocate memory" in words(end):
        return "memory"
    if isinstance(end, Altered):
        return "bytes"
    number = end.errno if isinstance(end, OSError) else None
    if number in _NO_FILES:
        return "files"
    return "disk" if number in _LACKING or isinstance(end, Unwritable) else ""


def words(end: BaseException) -> str:
    """Return kind and text of an exception, or its text alone if it is the attack's answer."""
    try:
        text = str(end)
    except BaseException:  # noqa: BLE001 - any code may stand there
        text = "its text cannot be read"
    return text if isinstance(end, Unfit) else " ".join(f"{type(end).__name__}: {text}".split())


def _fault(module: str, what: str) -> str:
    return f"attack: module {module} ended with a fault of its own ({what}; mend it)"


def tell(own: Path, end: BaseException, module: str) -> None:
    """Write how an attack ended, in its process."""
    reason = words(end) if isinstance(end, Unfit) else _fault(module, words(end))
    (own / _END).write_text(json.dumps({"reason": reason, "lacks": _lack(end)}))


def judge(own: Path, code: int, folder: Path, module: str, observation: Observation, device: str) -> None:
    """Raise what the end of a sealed attack amounts to."""
    # Whether memory, disk or files lack, and whether unfinished work was altered, is measured here. All else
    # is the attack's own.
    told: Facts = {}
    with suppress(OSError, ValueError, RecursionError):
        file = os.open(own / _END, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(file, "rb") as stream:
            told = dict(json.loads(stream.read(1 << 16)))
    lacks, reason = told.get("lacks"), str(told.get("reason") or "")[:_LONGEST]
    if lacks == "memory" and (device != "cpu" or _little_memory()):
        raise MemoryError(reason)
    if lacks == "files" and resource.getrlimit(resource.RLIMIT_NOFILE)[0] < _FEW_FILES:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    if lacks == "disk":
        _try_disk(own, observation)
    for path in folder.rglob("*") if lacks == "bytes" else ():
        if path.is_file():
            whole(path)
            open_tensors(path)
    what = f"exit code {code}" if code > 0 else str(signal.strsignal(-code))
    raise Unfit(reason or _fault(module, what))


def _little_memory() -> bool:
    """Return whether a limit on memory is set, or the attack has used a large share of all memory."""
    limits = (resource.getrlimit(of)[0] for of in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    all_there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return any(each != resource.RLIM_INFINITY for each in limits) or used > all_there / 4


def _try_disk(own: Path, observation: Observation) -> None:
    """Raise OSError if the disk cannot hold some times the images of the reconstruction."""
    rows, columns, channels = observation.network["shape"]
    images = observation.rounds * len(observation.clients) * max(observation.clients)
    with (own / "room").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1 << 26, 16 * images * rows * columns * channels))
