"""attack: run an attack from an observation alone to guesses, and on noise as a null baseline."""

import itertools
import os
import shutil
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import torch

from leakbench import attacks
from leakbench.absence import absent, pass_on, unless_unfit
from leakbench.artefacts import creating
from leakbench.attacks.observation import read_observation
from leakbench.attacks.threat_model import in_words
from leakbench.blinding import Blinded, Seal, unsealed
from leakbench.catalogue.load import attack_of
from leakbench.errors import Unfit, UserError
from leakbench.exact.membership import certified
from leakbench.gpu_lease import leased
from leakbench.parts import parts_of
from leakbench.provenance import provenance, read_spec, recording, resuming
from leakbench.seeds import stream
from leakbench.workers import Work

NULL_SHARE = 4
# Where labels come from, in the words of the tables. Any other value names a rule that infers them.
LABELS = {"none": "not needed", "oracle": "given", "joint": "joint"}


def attack(
    capture: Path, spec: Path, out: Path, generator: Path | None, labels: Path | None, record: Path | None,
    scratch: Path, workers: int = 1, device: str = "cpu", seal: Seal = unsealed,
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
        value = read_spec(spec)
        entry = attack_of(value, str(spec))
        parts = parts_of(value | {"attack": entry})
        made = provenance(value, "leakbench.verbs.attack", *parts, device=_named(device))
        folder = scratch.resolve() / resuming(made, place or out, capture, generator, labels)
        work = Work(
            scratch=folder,
            workers=workers if device == "cpu" else 1,
            device=device,
        )
        rng = torch.Generator().manual_seed(stream("attack", value["attack_name"], value["seed"]))
        observation, _ = read_observation(capture, generator, labels, entry["labels"], work)
        folder.mkdir(parents=True, exist_ok=True)
        on.callback(_remove_empty, folder)
        blinding = seal([folder, out.parent], device)
        other = torch.Generator().manual_seed(stream("null", value["attack_name"], value["seed"]))
        rounds = min(value["null_rounds"], -(-observation.rounds // NULL_SHARE))
        cost["updates"] = observation.rounds * len(observation.clients)
        # The reconstruction comes in pieces, of which the later ones are made while the file is written.
        with _own_fault(entry["module"]):
            noise = attacks.seen(observation.randomised(rounds, other), entry)
            observation = attacks.seen(observation, entry)
            own, nulls = attacks.with_null(entry, observation, noise, (rng, other))
            own, nulls = _checked(own, observation), _checked(nulls, noise)
        first = next(own := _guarded(own, entry["module"]))
        null = list(_guarded(nulls, entry["module"]))
        layout = _layout("", first, observation.rounds) | _layout("null/", null[0], noise.rounds)
        found = first[1]
        aware = entry.get("adaptive") or "defence" in entry["parameters"]
        knows = in_words(observation) | {
            # A capture names its defence for attackers who adapt. The others act as if there were none.
            **({} if aware else {"defence": "none"}),
            "labels": LABELS.get(entry["labels"], "inferred"),
            "auxiliary data": "yes: the generator's" if generator else "none",
            "blinding": blinding,
        }
        facts = {
            "target": found.target,
            "iterations": found.iterations,
            "knows": knows,
            "matching": entry["matching"],
        }
        with creating(out, layout, facts | made, digested=place is None) as arrays:
            for prefix, pieces in (("", itertools.chain([first], own)), ("null/", null)):
                for rounds, piece in pieces:
                    for name, tensor in piece.tensors().items():
                        arrays[prefix + name][rounds] = tensor.numpy()
        shutil.rmtree(folder, ignore_errors=True)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def _own_fault(module: str) -> Iterator[None]:
    """Turn a fault in an attack's own code into Unfit, so that other attacks keep their scores.

    The traceback is in the job's log. A lack of memory or disk is not a fault of the attack, and a later try
    may succeed, so such errors pass.
    """
    try:
        yield
    except (UserError, OSError, MemoryError, torch.OutOfMemoryError) as fault:
        if not isinstance(fault, Blinded):
            raise
        raise Unfit(f"attack: module {module} is no blind attack: {fault}") from fault
    except Exception as fault:
        if "allocate memory" in str(fault):
            raise
        traceback.print_exc()
        what = " ".join(f"{type(fault).__name__}: {fault}".split())
        raise Unfit(f"attack: module {module} ended with a fault of its own ({what}; mend it)") from fault


def _checked(pieces: Iterator[attacks.Piece], of: attacks.Observation) -> Iterator[attacks.Piece]:
    """Yield pieces that cover all rounds and clients, with what follows from the updates about them.

    A round that an attack leaves out would be missing from every mean. Raises Unfit where one is left out.
    """
    for rounds, found in pieces:
        seen = of if rounds is ... else of.part(rounds)
        given, made = (seen.rounds, len(of.clients)), tuple(found.usable.shape[:2])
        if made != given:
            raise Unfit(
                f"attack: its reconstruction: {made} rounds and clients of {given} (mark what is unknown as "
                "not usable)"
            )
        yield rounds, certified(seen, found)


def _guarded(pieces: Iterator[attacks.Piece], module: str) -> Iterator[attacks.Piece]:
    with _own_fault(module):
        yield from pieces


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
    """Return name → (shape, dtype) of the tensors of all `rounds`.

    piece: the first piece, or the whole reconstruction.
    """
    return {
        prefix + name: (
            tuple(tensor.shape) if piece[0] is ... else (rounds, *tensor.shape[1:]),
            str(tensor.dtype).removeprefix("torch."),
        )
        for name, tensor in piece[1].tensors().items()
    }
