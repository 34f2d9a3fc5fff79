"""attack: run an attack from an observation alone to guesses, and on noise as a null baseline.

The attack's process is sealed and hands over tensors. This process, which runs no code of an attack, checks
them and writes the guesses with their facts.
"""

import errno
import itertools
import json
import os
import resource
import shutil
import signal
import stat
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leakbench import attacks
from leakbench.attacks.exact.membership import certified
from leakbench.attacks.matching.received import noise_images
from leakbench.base.artefacts import creating, open_tensors
from leakbench.base.errors import Altered, Unfit, Unwritable, UserError
from leakbench.base.missing import absent, pass_on, unless_unfit
from leakbench.base.processes.blinding import Blinded, Seal, apart, unsealed
from leakbench.base.processes.gpu_lease import leased
from leakbench.base.processes.process import Stopped
from leakbench.base.processes.workers import Work
from leakbench.base.provenance import provenance, recording, resuming
from leakbench.base.seeds import stream
from leakbench.base.whole import whole
from leakbench.networks.layers import dense_input
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.observations.reconstruction import OF, Reconstruction

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import AttackSpec

NULL_SHARE = 4
# The errors of the operating system that say what the machine lacks, or that nobody reads the output.
LACKING = (
    errno.EAGAIN, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
    errno.ENOSPC, errno.EPIPE,
)  # fmt: skip
# Where labels come from, in the words of the tables. Any other value names a rule that infers them.
LABELS = {"none": "not needed", "oracle": "given", "joint": "joint"}
# What a sealed process hands over: its tensors, or why there are none.
_TENSORS, _END = "found.safetensors", "end.json"
# The largest file and the longest reason that are taken from it.
_MOST_BYTES, _LONGEST = 1 << 34, 2000
# The signals that end a job from outside; a sealed process can send none.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A limit on open files below which a lack of them is the machine's.
_FEW_FILES = 256


@dataclass(frozen=True)
class _Ready:
    """What is known before the attack's code is loaded.

    made: the facts of provenance.
    folder: the folder from which a killed attack resumes.
    blinding: what enforces the seal, in words.
    """

    made: dict[str, Any]
    folder: Path
    blinding: str = ""


def attack(
    capture: Path, spec: "AttackSpec", out: Path, generator: Path | None, labels: Path | None,
    record: Path | None, scratch: Path, workers: int = 1, device: str = "cpu", seal: Seal = unsealed,
) -> None:  # fmt: skip
    """Write the tensors of the reconstruction, and under `null/…` those of the attack on randomised updates.

    capture: the observation.
    spec: the spec of the job.
    out: the file of the guesses.
    generator: the file of the attacker's generator, if the attack uses one.
    labels: the oracle's file, for an attack that is given labels.
    record: the file that gets what the job cost.
    scratch: the folder from which a killed attack resumes.
    workers: the number of processes that share the attack's work. The result is the same for any number.
    device: torch's name of the processor or GPU on which gradients are matched. `cuda` without a number is a
    GPU that no other job of this machine has leased.
    seal: a function that is called before any code of the attack is loaded. It closes all files except the
    attack's own.
    """
    with recording(record, "attack") as cost, unless_unfit("attack", [out]):
        reason = absent([path for path in (capture, generator, labels) if path is not None])
        if reason:
            return pass_on(reason, [out])
        entry, name = spec.attack.entry, spec.attack_name
        observation, _ = read_observation(capture, generator, labels, spec.attack.labels)
        rng = torch.Generator().manual_seed(stream("attack", name, spec.seed))
        other = torch.Generator().manual_seed(stream("null", name, spec.seed))
        rounds = min(spec.null_rounds, -(-observation.rounds // NULL_SHARE))
        noise = observation.randomised(rounds, other)
        cost["updates"] = observation.rounds * len(observation.clients)

        def run(own: Path, ready: Callable[[_Ready], object]) -> None:
            """Run the attack; with a seal, in a process of its own."""
            with leased(device) as held:
                made = provenance(spec.plain(), "leakbench.jobs.attack", device=_named(held))
                folder = scratch.resolve() / resuming(made, out, capture, generator, labels)
                folder.mkdir(parents=True, exist_ok=True)
                work = Work(scratch=folder, workers=workers if held == "cpu" else 1, device=held)
                seen = replace(observation, work=work), replace(noise, work=work.part("null"))
                ready(_Ready(made, folder, seal([folder, own], held)))
                with _own_fault(spec.attack.module):
                    _hand_over(own / _TENSORS, entry, seen, (rng, other))

        with _handed_over(out, run, seal is unsealed, spec.attack.module, observation, device) as (
            own,
            ready,
        ):
            found, null = _read(own / _TENSORS, observation, noise, entry)
            aware = spec.attack.adaptive or "defence" in spec.attack.parameters
            knows = observation.in_words() | {
                # A capture names its defence for attackers who adapt. The others act as if there were none.
                **({} if aware else {"defence": "none"}),
                "labels": LABELS.get(spec.attack.labels, "inferred"),
                "auxiliary data": "yes: the generator's" if generator else "none",
                "blinding": ready.blinding,
            }
            facts = {
                "target": found.target,
                "iterations": found.iterations,
                "knows": knows,
                "matching": spec.attack.matching,
            }
            tensors = {
                prefix + name: tensor.numpy()
                for prefix, each in (("", found), ("null/", null))
                for name, tensor in each.tensors().items()
            }
            layout = {name: (each.shape, each.dtype.name) for name, each in tensors.items()}
            with creating(out, layout, facts | ready.made) as arrays:
                for name, each in tensors.items():
                    arrays[name][...] = each


@contextmanager
def _handed_over(
    out: Path, run: Callable[[Path, Callable[[_Ready], object]], None], here: bool, module: str,
    observation: Observation, device: str,
) -> Iterator[tuple[Path, _Ready]]:  # fmt: skip
    """Run an attack and yield the folder to which it has written, and what was known before.

    out: the output of the job.
    run: called with the folder and with a function that takes what is known; runs the attack.
    here: whether the attack runs in this process, which a test may ask for.
    module: the attack's module.
    observation: what the attack sees.
    device: the device on which the attack computes.

    Raises Unfit for an end of the attack's own, and any other error for what the machine lacks or a person
    ends.
    """

    def child(own: Path, send: Callable[[bytes], None]) -> int:
        sent: list[object] = []

        def ready(known: _Ready | BaseException) -> None:
            sent.append(known)
            send(json.dumps(_said(known)).encode())

        try:
            run(own, ready)
        except BaseException as end:  # noqa: BLE001 - the other process judges it
            if not sent:
                ready(end)
            else:
                (own / _END).write_text(json.dumps(_why(end, module)))
            return 1
        return 0

    if here:
        known: list[_Ready] = []
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".") as folder, ExitStack() as on:
            run(Path(folder), lambda told: known.append(on.enter_context(_removed(told))))
            yield Path(folder), known[0]
        return
    before = _killed()
    with apart(out, child) as (own, sent, code):
        # No code of the attack had been loaded when this was sent.
        ready = _heard(json.loads(sent)) if sent else SystemExit(1)
        if -code in _FROM_OUTSIDE:
            if _killed() > before:
                raise MemoryError("the kernel has ended the attack")
            raise Stopped(128 - code)
        if isinstance(ready, BaseException):
            raise ready
        with _removed(ready):
            if code:
                _judge(own, code, module, ready.folder, observation, device)
            yield own, ready


# The ends before an attack that keep their kind on the way to the other process, the narrower first.
_KINDS = {each.__name__: each for each in (Unwritable, Unfit, UserError, MemoryError, KeyboardInterrupt)}


def _said(known: _Ready | BaseException) -> Mapping[str, Any]:
    """Return what is known before an attack, or why it did not begin, as JSON has it."""
    if isinstance(known, _Ready):
        return {"made": known.made, "folder": str(known.folder), "blinding": known.blinding}
    if isinstance(known, OSError):
        file = None if known.filename is None else str(known.filename)
        return {"os": [known.errno, known.strerror, file]}
    kind = next((name for name, each in _KINDS.items() if isinstance(known, each)), "")
    return {"kind": kind, "text": str(known) if kind else f"attack: {_words(known)}"}


def _heard(said: Mapping[str, Any]) -> _Ready | BaseException:
    """Return what `_said` was given, an end of another kind as a UserError."""
    if "folder" in said:
        return _Ready(said["made"], Path(said["folder"]), said["blinding"])
    return OSError(*said["os"]) if "os" in said else _KINDS.get(said["kind"], UserError)(said["text"])


@contextmanager
def _removed(ready: _Ready) -> Iterator[_Ready]:
    """Remove the folder of unfinished work after a result, which may be that there is none."""
    try:
        yield ready
    except Unfit:
        shutil.rmtree(ready.folder, ignore_errors=True)
        raise
    finally:
        with suppress(OSError):
            ready.folder.rmdir()
    shutil.rmtree(ready.folder, ignore_errors=True)


def _why(end: BaseException, module: str) -> dict[str, str]:
    """Return in words how an attack ended, and what the machine lacks according to the attack."""
    words = _words(end)
    lacks = ""
    if isinstance(end, MemoryError | torch.OutOfMemoryError) or "allocate memory" in words:
        lacks = "memory"
    elif isinstance(end, Altered):
        lacks = "bytes"
    elif isinstance(end, Unwritable) or getattr(end, "errno", None) in LACKING:
        lacks = "files" if getattr(end, "errno", None) in (errno.EMFILE, errno.ENFILE) else "disk"
    return {"reason": words if isinstance(end, Unfit) else _fault(module, words), "lacks": lacks}


def _words(end: BaseException) -> str:
    """Return kind and text of an exception, or its text alone if it is the attack's answer."""
    try:
        text = str(end)
    except BaseException:  # noqa: BLE001 - any code may stand there
        text = "its text cannot be read"
    return text if isinstance(end, Unfit) else " ".join(f"{type(end).__name__}: {text}".split())


def _fault(module: str, words: str) -> str:
    return f"attack: module {module} ended with a fault of its own ({words}; mend it)"


def _judge(own: Path, code: int, module: str, folder: Path, observation: Observation, device: str) -> None:
    """Raise what the end of a sealed attack amounts to.

    Whether memory, disk or files lack, and whether unfinished work was altered, is measured here. All else is
    the attack's own.
    """
    told: dict[str, Any] = {}
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


def _killed() -> int:
    """Return how many processes the kernel has killed for want of memory."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/vmstat").read_text("utf-8").partition("oom_kill ")[2].split()[0])
    return 0


def _try_disk(own: Path, observation: Observation) -> None:
    """Raise OSError if the disk cannot hold some times the images of the reconstruction."""
    rows, columns, channels = observation.network["shape"]
    images = observation.rounds * len(observation.clients) * max(observation.clients)
    with (own / "room").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1 << 26, 16 * images * rows * columns * channels))


def _hand_over(
    path: Path, entry: Mapping[str, Any], given: tuple[Observation, Observation],
    rngs: tuple[torch.Generator, torch.Generator],
) -> None:  # fmt: skip
    """Write the tensors of the attack on an observation and, under `null/…`, on noise.

    path: the file.
    entry: the attack's entry of the catalogue.
    given: the observation and the null observation.
    rngs: the generators for both.
    """
    observation, noise = (attacks.seen(each, entry) for each in given)
    pooled = observation.rounds != given[0].rounds
    # The reconstruction comes in pieces, of which the later ones are made while the file is written.
    own, nulls = attacks.with_null(entry, observation, noise, rngs)
    own, nulls = _checked(own, observation, pooled), _checked(nulls, noise, pooled)
    first, null = next(own), list(nulls)
    if first[1].target != null[0][1].target:
        raise Unfit(f"{OF}target is {first[1].target}, and {null[0][1].target} on noise")
    layout = _layout("", first, observation.rounds) | _layout("null/", null[0], noise.rounds)
    # The largest numbers come first, so that each begins where it can be read.
    placed = {name: f"{9 - np.dtype(kind).itemsize}{name}" for name, (_, kind) in layout.items()}
    facts = {"target": first[1].target, "iterations": first[1].iterations}
    with creating(
        path, {placed[name]: each for name, each in layout.items()}, facts, digested=False
    ) as arrays:
        for prefix, pieces in (("", itertools.chain([first], own)), ("null/", null)):
            for rounds, found in pieces:
                for name, tensor in found.tensors().items():
                    arrays[placed[prefix + name]][rounds] = tensor.numpy()


def _read(
    path: Path, observation: Observation, noise: Observation, entry: Mapping[str, Any]
) -> tuple[Reconstruction, Reconstruction]:
    """Return what an attack has handed over of an observation and of noise, if it can be scored.

    Raises Unfit, which says what is wrong.
    """
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
    made = []
    for prefix, of in (("", observation), ("null/", noise)):
        found = _taken(arrays, prefix, facts)
        repeats = of.knows.local_set_repeats and len(set(of.origin.tolist())) == 1
        # An attack that knows the defence may have pooled the rounds (`attacks.adaptive.adapted`).
        pooled = bool(entry.get("adaptive") and repeats and len(found.usable) == 1 < of.rounds)
        of = of.part(slice(1)) if pooled else of
        made += [each for _, each in _checked(iter([(..., found)]), of, not pooled)]
    return made[0], made[1]


def _taken(arrays: Mapping[str, np.ndarray], prefix: str, facts: Mapping[str, Any]) -> Reconstruction:
    """Return the reconstruction whose tensors have names that begin with a digit and then `prefix`."""
    known = {each.name for each in fields(Reconstruction)} - {"target", "iterations", "partners"}
    own: dict[str, Any] = {}
    partners: dict[str, Any] = {}
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
    own |= {name: facts.get(name) for name in ("target", "iterations")}
    return Reconstruction(**own, partners=partners)


@contextmanager
def _own_fault(module: str) -> Iterator[None]:
    """Turn a fault in an attack's own code into Unfit, so that other attacks keep their scores.

    The traceback is in the job's log. The spec and the observation have been read, so a mistake in them is
    not taken for a fault of the attack.
    """
    try:
        yield
    except (Exception, SystemExit) as fault:
        if isinstance(fault, Blinded):
            raise Unfit(f"attack: module {module} is no blind attack: {fault}") from fault
        if _passes(fault):
            raise
        with suppress(Exception):
            traceback.print_exc()
        raise Unfit(_fault(module, _words(fault))) from fault


def _passes(fault: BaseException) -> bool:
    """Return whether `fault` is none of an attack's own.

    Unfit is the attack's answer. A signal, a file in `scratch` that was altered or cannot be written, and a
    lack of memory or disk end the job, and a later try may succeed.
    """
    return (
        isinstance(fault, Unfit | Stopped | Altered | Unwritable | MemoryError | torch.OutOfMemoryError)
        or (isinstance(fault, OSError) and fault.errno in LACKING)
        or "allocate memory" in _words(fault)
    )


def _checked(pieces: Iterator[attacks.Piece], of: Observation, certify: bool) -> Iterator[attacks.Piece]:
    """Yield pieces that can be scored; if asked, with what follows from the updates about them.

    A round that an attack leaves out would be missing from every mean. Each piece goes into one file, so all
    are of one form. Raises Unfit for a piece that does not fit the observation or the first piece.
    """
    form: dict[str, Any] = {}
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
        own = {"target": found.target} | _layout("", (rounds, found), of.rounds)
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
        n = seen.network["classes"]
    if found.target == "images":
        shape = [channels, rows, columns]
    if found.target == "features":
        shape = [*dense_input(seen.model(), noise_images((channels, rows, columns))).shape[1:]]
    return n, *shape


def _named(device: str) -> str:
    """Return the name by which results refer to a device, and make a GPU repeat its results."""
    if device == "cpu":
        return device
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.allow_tf32 = False
    # The driver opens its files and sockets now, before the seal.
    torch.zeros(1, device=device)
    return torch.cuda.get_device_name(device)


def _layout(prefix: str, piece: attacks.Piece, rounds: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return name → (shape, dtype) of the tensors of all `rounds`, from one piece of them."""
    return {
        prefix + name: (
            tuple(tensor.shape) if piece[0] is ... else (rounds, *tensor.shape[1:]),
            str(tensor.dtype).removeprefix("torch."),
        )
        for name, tensor in piece[1].tensors().items()
    }
