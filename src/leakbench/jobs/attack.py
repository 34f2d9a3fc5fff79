"""attack: run an attack from an observation alone to guesses, and on noise as a null baseline."""

import errno
import itertools
import os
import shutil
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leakbench import attacks
from leakbench.attacks.exact.membership import certified
from leakbench.attacks.matching.received import noise_images
from leakbench.base.artefacts import creating
from leakbench.base.errors import Altered, Unfit, Unwritable
from leakbench.base.missing import absent, pass_on, unless_unfit
from leakbench.base.processes.blinding import Blinded, Seal, unsealed
from leakbench.base.processes.gpu_lease import leased
from leakbench.base.processes.process import Stopped
from leakbench.base.processes.workers import Work
from leakbench.base.provenance import provenance, recording, resuming
from leakbench.base.seeds import stream
from leakbench.networks.layers import dense_input
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


def attack(
    capture: Path, spec: "AttackSpec", out: Path, generator: Path | None, labels: Path | None,
    record: Path | None, scratch: Path, workers: int = 1, device: str = "cpu", seal: Seal = unsealed,
    place: Path | None = None,
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
    place: where `out` is put in the end, if that is elsewhere. A killed attack resumes what was meant for
    this place.
    """
    with ExitStack() as on, recording(record, "attack") as cost, unless_unfit("attack", [out]):
        reason = absent([path for path in (capture, generator, labels) if path is not None])
        if reason:
            return pass_on(reason, [out])
        device = on.enter_context(leased(device))
        entry, name = spec.attack.entry, spec.attack_name
        made = provenance(spec.plain(), "leakbench.jobs.attack", device=_named(device))
        folder = scratch.resolve() / resuming(made, place or out, capture, generator, labels)
        work = Work(
            scratch=folder,
            workers=workers if device == "cpu" else 1,
            device=device,
        )
        rng = torch.Generator().manual_seed(stream("attack", name, spec.seed))
        observation, _ = read_observation(capture, generator, labels, spec.attack.labels, work)
        folder.mkdir(parents=True, exist_ok=True)
        on.callback(_remove_empty, folder)
        blinding = seal([folder, out.parent], device)
        other = torch.Generator().manual_seed(stream("null", name, spec.seed))
        rounds = min(spec.null_rounds, -(-observation.rounds // NULL_SHARE))
        cost["updates"] = observation.rounds * len(observation.clients)
        # The reconstruction comes in pieces, of which the later ones are made while the file is written.
        with _own_fault(spec.attack.module):
            noise = attacks.seen(observation.randomised(rounds, other), entry)
            observation = attacks.seen(observation, entry)
            own, nulls = attacks.with_null(entry, observation, noise, (rng, other))
            own, nulls = _checked(own, observation), _checked(nulls, noise)
            first, null = next(own), list(nulls)
            if first[1].target != null[0][1].target:
                raise Unfit(f"{OF}target is {first[1].target}, and {null[0][1].target} on noise")
            layout = _layout("", first, observation.rounds) | _layout("null/", null[0], noise.rounds)
        found = first[1]
        aware = spec.attack.adaptive or "defence" in spec.attack.parameters
        knows = observation.in_words() | {
            # A capture names its defence for attackers who adapt. The others act as if there were none.
            **({} if aware else {"defence": "none"}),
            "labels": LABELS.get(spec.attack.labels, "inferred"),
            "auxiliary data": "yes: the generator's" if generator else "none",
            "blinding": blinding,
        }
        facts = {
            "target": found.target,
            "iterations": found.iterations,
            "knows": knows,
            "matching": spec.attack.matching,
        }
        with creating(out, layout, facts | made, digested=place is None) as arrays:
            for prefix, pieces in (("", itertools.chain([first], own)), ("null/", null)):
                for part, piece in _arrays(pieces, spec.attack.module):
                    for name, array in piece.items():
                        arrays[prefix + name][part] = array
        shutil.rmtree(folder, ignore_errors=True)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


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
        traceback.print_exc()
        what = " ".join(f"{type(fault).__name__}: {fault}".split())
        raise Unfit(f"attack: module {module} ended with a fault of its own ({what}; mend it)") from fault


def _passes(fault: BaseException) -> bool:
    """Return whether `fault` is none of an attack's own.

    Unfit is the attack's answer. A signal, a file in `scratch` that was altered or cannot be written, and a
    lack of memory or disk end the job, and a later try may succeed.
    """
    return (
        isinstance(fault, Unfit | Stopped | Altered | Unwritable | MemoryError | torch.OutOfMemoryError)
        or (isinstance(fault, OSError) and fault.errno in LACKING)
        or "allocate memory" in str(fault)
    )


def _checked(pieces: Iterator[attacks.Piece], of: attacks.Observation) -> Iterator[attacks.Piece]:
    """Yield pieces that can be scored, with what follows from the updates about them.

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
        found = certified(seen, found)
        own = {"target": found.target} | _layout("", (rounds, found), of.rounds)
        form = form or own
        if own != form:
            odd = max(name for name, _ in own.items() ^ form.items())
            raise Unfit(f"{OF}{odd} is of another form in later rounds than in the first ones")
        yield rounds, found


def _asked(found: Reconstruction, seen: attacks.Observation) -> tuple[int, ...]:
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


def _arrays(
    pieces: Iterable[attacks.Piece], module: str
) -> Iterator[tuple[slice | EllipsisType, dict[str, np.ndarray]]]:
    """Yield the rounds of each piece of the attack `module`, and name → array of its fields."""
    with _own_fault(module):
        for rounds, found in pieces:
            yield rounds, {name: tensor.numpy() for name, tensor in found.tensors().items()}


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
