"""audit: measure what the updates of the user's own model give away."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakbench.audit.child import say, supervised
from leakbench.audit.options import check, gigabytes, is_rate, met, seconds_of, split
from leakbench.audit.report import probe, write
from leakbench.base.errors import UserError

# Seconds in addition to the budget, for loading libraries and the user's file, and for the last steps of an
# attack.
BESIDES = 60.0
DEMO_RECORDS, DEMO_STEPS, DEMO_BUDGET = 32, 1, "30s"
# What the user may declare → the least and the largest value that it may have.
DECLARED = {"clients": (1.0, 1e12), "rounds": (1.0, 1e12), "prior": (0.0, 1.0)}
BUDGET = "2m"
FINDING = 1

Tell = Callable[[str], None]


def _command(target: list[str], given: dict[str, Any], fail_if: list[str]) -> str:
    """Return the command with these options on one line; options that are None or False were not given."""
    words = ["leakbench", "audit", *target]
    for name, value in given.items():
        if value is not None and value is not False:
            words += [
                f"--{name}",
                *([] if value is True else [f"{value:g}" if isinstance(value, float) else str(value)]),
            ]
    for condition in fail_if:
        words += ["--fail-if", condition]
    return shlex.join(words)


def audit(
    target: str | None, out: Path, model: str | None, batch: int | None, local_steps: int | None, lr: float,
    budget: str | None, memory: str, show: bool, fail_if: list[str], defence: str | None, demo: bool,
    repeats: bool = False, clients: float | None = None, rounds: float | None = None,
    prior: float | None = None,
) -> int:  # fmt: skip
    """Audit a client's code, recorded rounds or a capture, and write the report.

    The arguments are those of the command line.

    target: what is audited: FILE.py:NAME, a folder of rounds, or a capture.
    out: the folder of the report.
    model: FILE.py:NAME of the network of recorded rounds.
    batch: the number of the client's records, the first of its batch.
    local_steps: the number of steps of a round. With 1 the client sends its gradient.
    lr: the clients' learning rate, above 0.
    budget: wall time, such as 90s or 2m.
    memory: the memory that the user's code and the attacks may use, such as 4g.
    show: whether the report shows private records.
    fail_if: conditions on the findings, such as 'exposed > 0 at A..D'.
    defence: FILE.py:NAME of the user's own defence, a function from update to update.
    demo: whether to audit a small network on bundled pictures.
    repeats: whether clients hold the same records in every recorded round.
    clients: the declared number of clients of the federation.
    rounds: the declared number of rounds that a client takes part in.
    prior: the declared probability that somebody attacks, from 0 to 1.

    Returns 0, or 1 if a condition of `fail_if` holds.
    """
    for condition in fail_if:
        check(condition)
    told = {"clients": clients, "rounds": rounds, "prior": prior}
    declared = {name: value for name, value in told.items() if value is not None}
    for name, value in declared.items():
        least, most = DECLARED[name]
        if not least <= value <= most:
            raise UserError(f"--{name}: {value:g} is no number from {least:g} to {most:g}")
    if not is_rate(lr):
        raise UserError(f"--lr: {lr:g} is no rate (give a number above 0)")
    seconds, limit = seconds_of(budget or (DEMO_BUDGET if demo else BUDGET)), gigabytes(memory)
    if demo == bool(target) or target == "":
        raise UserError("name what is audited, FILE.py:NAME, a folder of rounds or a capture, or --demo")
    name = target or "--demo"
    options = {
        "demo": demo,
        "batch": batch if batch or not demo else DEMO_RECORDS,
        "local_steps": local_steps or (DEMO_STEPS if demo else 5),
        "lr": lr, "budget": seconds, "show": show or demo, "declared": declared, "model": model,
        "defence": defence, "repeats": repeats,
    }  # fmt: skip
    for code in (model, defence):
        if code is not None:
            split(code)

    def work(tell: Tell) -> dict[str, Any]:
        from leakbench.audit.doors import audited

        return audited(name, options, tell)

    if ":" in name:
        split(name)
    elif name.endswith(".py"):
        raise UserError(f"{name}: names no function (write {name}:NAME, such as {name}:client)")
    elif not demo and not os.path.exists(name):
        raise UserError(f"{name}: no such file or folder (own code is FILE.py:NAME)")
    probe(out)
    found = supervised(work, say, name if ":" in name else str(Path(name)), seconds + BESIDES, limit)
    found["audit"]["command"] = _command(
        [name],
        {
            "model": model, "batch": batch, "local-steps": local_steps, "lr": lr, "budget": budget,
            "memory": memory, "show": show, "repeats": repeats, "defence": defence, **told,
        },
        fail_if,
    )  # fmt: skip
    say(f"report: {write(out, found['audit'], found['pictures'])}")
    failed = [condition for condition in fail_if if met(condition, found["audit"])]
    for condition in failed:
        say(f"fails: {condition}")
    return FINDING if failed else 0
