"""attack: run an attack from an observation alone to guesses, and on noise as a null baseline.

The attack's process is sealed and hands over tensors. This process, which runs no code of an attack, checks
them (`leakbench.jobs.judged`) and writes the guesses with their facts.
"""

import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from leakbench import attacks
from leakbench.base.artefacts import Facts, creating, write_tensors
from leakbench.base.errors import Unfit, Unwritable, UserError
from leakbench.base.missing import absent, pass_on, unless_unfit
from leakbench.base.processes.blinding import Seal, apart, unsealed
from leakbench.base.processes.gpu_lease import leased
from leakbench.base.processes.process import Stopped
from leakbench.base.processes.workers import Crew
from leakbench.base.provenance import provenance, recording, resuming
from leakbench.base.seeds import stream
from leakbench.jobs.judged import TENSORS, checked, judge, layout, own_fault, read, tell, words
from leakbench.observations.observation import Observation
from leakbench.observations.reading import read_observation
from leakbench.observations.reconstruction import OF

if TYPE_CHECKING:
    from leakbench.catalogue.jobs import AttackSpec

NULL_SHARE = 4
# Where labels come from, in the words of the tables. Any other value names a rule that infers them.
LABELS = {"none": "not needed", "oracle": "given", "joint": "joint"}
# The signals that end a job from outside; a sealed process can send none.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# The ends before an attack that keep their kind on the way to the other process, the narrower first.
_KINDS = {each.__name__: each for each in (Unwritable, Unfit, UserError, MemoryError, KeyboardInterrupt)}


@dataclass(frozen=True)
class _Ready:
    """What is known before an attack begins: facts, the folder that it resumes from, what seals it."""

    made: Facts
    folder: str
    blinding: str


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
                work = Crew(scratch=folder, workers=workers if held == "cpu" else 1, device=held)
                seen = replace(observation, work=work), replace(noise, work=work.part("null"))
                ready(_Ready(made, str(folder), seal([folder, own], held)))
                with own_fault(spec.attack.module):
                    _hand_over(own / TENSORS, entry, seen, (rng, other))

        module = spec.attack.module
        judged = partial(judge, module=module, observation=observation, device=device)
        with _handed_over(out, run, seal is unsealed, module, judged) as (own, ready):
            found, null = read(own / TENSORS, observation, noise, entry)
            aware = spec.attack.adaptive or "defence" in spec.attack.parameters
            knows = observation.in_words() | {
                # A capture names its defence for attackers who adapt. The others act as if there were none.
                **({} if aware else {"defence": "none"}),
                "labels": LABELS.get(spec.attack.labels, "inferred"),
                "auxiliary data": "yes: the generator's" if generator else "none",
                "blinding": ready.blinding,
            }
            facts = {"target": found.target, "iterations": found.iterations, "knows": knows}
            tensors = {name: tensor.numpy() for name, tensor in found.tensors().items()}
            tensors |= {f"null/{name}": tensor.numpy() for name, tensor in null.tensors().items()}
            write_tensors(out, tensors, facts | {"matching": spec.attack.matching} | ready.made)


@contextmanager
def _handed_over(
    out: Path, run: Callable[[Path, Callable[[_Ready], object]], None], here: bool, module: str,
    judged: Callable[[Path, int, Path], None],
) -> Iterator[tuple[Path, _Ready]]:  # fmt: skip
    """Run an attack and yield the folder to which it has written, and what was known before."""
    # `run` is called with that folder and a function that takes what is known; in this process if `here`,
    # which a test may ask for. `judged` raises what the end of a sealed attack amounts to. Raises Unfit for
    # an end of the attack's own, and any other error for what the machine lacks or a person ends.

    def child(own: Path, send: Callable[[bytes], None]) -> int:
        sent = False

        def ready(known: _Ready | BaseException) -> None:
            nonlocal sent
            sent = True
            send(json.dumps(_said(known)).encode())

        try:
            run(own, ready)
        except BaseException as end:  # noqa: BLE001 - the other process judges it
            tell(own, end, module) if sent else ready(end)
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
                judged(own, code, Path(ready.folder))
            yield own, ready


def _said(known: _Ready | BaseException) -> Mapping[str, Any]:
    """Return what is known before an attack, or why it did not begin, as JSON has it."""
    if isinstance(known, _Ready):
        return asdict(known)
    if isinstance(known, OSError):
        file = None if known.filename is None else str(known.filename)
        return {"os": [known.errno, known.strerror, file]}
    kind = next((name for name, each in _KINDS.items() if isinstance(known, each)), "")
    return {"kind": kind, "text": str(known) if kind else f"attack: {words(known)}"}


def _heard(said: Mapping[str, Any]) -> _Ready | BaseException:
    """Return what `_said` was given, an end of another kind as a UserError."""
    if "folder" in said:
        return _Ready(**said)
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
            os.rmdir(ready.folder)
    shutil.rmtree(ready.folder, ignore_errors=True)


def _killed() -> int:
    """Return how many processes the kernel has killed for want of memory."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/vmstat").read_text("utf-8").partition("oom_kill ")[2].split()[0])
    return 0


def _hand_over(
    path: Path, entry: Mapping[str, Any], given: tuple[Observation, Observation],
    rngs: tuple[torch.Generator, torch.Generator],
) -> None:  # fmt: skip
    """Write the tensors of the attack on the given observation and, under `null/…`, on noise."""
    observation, noise = (attacks.seen(each, entry) for each in given)
    pooled = observation.rounds != given[0].rounds
    # The reconstruction comes in pieces, of which the later ones are made while the file is written.
    own, nulls = attacks.with_null(entry, observation, noise, rngs)
    own, nulls = checked(own, observation, pooled), checked(nulls, noise, pooled)
    first, null = next(own), list(nulls)
    if first[1].target != null[0][1].target:
        raise Unfit(f"{OF}target is {first[1].target}, and {null[0][1].target} on noise")
    every = layout("", first, observation.rounds) | layout("null/", null[0], noise.rounds)
    # The largest numbers come first, so that each begins where it can be read.
    placed = {name: f"{9 - np.dtype(kind).itemsize}{name}" for name, (_, kind) in every.items()}
    facts = {"target": first[1].target, "iterations": first[1].iterations}
    with creating(path, {placed[name]: of for name, of in every.items()}, facts, digested=False) as arrays:
        for prefix, pieces in (("", itertools.chain([first], own)), ("null/", null)):
            for rounds, found in pieces:
                for name, tensor in found.tensors().items():
                    arrays[placed[prefix + name]][rounds] = tensor.numpy()


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
