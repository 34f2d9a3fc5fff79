"""audit: measure what the updates of the user's own model give away."""

import operator
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from jinja2 import TemplateError

from leakbench.audit.child import amount, is_rate, say, seconds_of, split, supervised
from leakbench.audit.page import probe, write
from leakbench.base.errors import UserError

# Seconds in addition to the budget, for loading libraries and the user's file, and for the last steps of an
# attack.
BESIDES = 60.0
DEMO_RECORDS, DEMO_STEPS, DEMO_BUDGET = 32, 1, "7s"
# What the user may declare → the least and the largest value that it may have.
DECLARED = {"clients": (1.0, 1e12), "rounds": (1.0, 1e12), "prior": (0.0, 1.0)}
BUDGET = "2m"
FINDING, UNMEASURED = 1, 3
# Of a training function, of a network or loss that is no data, and of a defence.
BESIDE = "Measured beside the client's own code, which could have changed what is written here."

_GIGABYTES = {"m": 1 / 1024, "g": 1.0}


def _command(target: list[str], given: Mapping[str, Any], fail_if: list[str]) -> str:
    """Return the command with these options on one line; options that are None or False were not given."""
    words = ["leakbench", "audit", *target]
    for name, value in given.items():
        if value is not None and value is not False:
            words.append(f"--{name}")
        if not isinstance(value, bool | None):
            words.append(f"{value:g}" if isinstance(value, float) else str(value))
    for condition in fail_if:
        words += ["--fail-if", condition]
    return shlex.join(words)


def audit(
    target: str | None = None, demo: bool = False, out: Path = Path("audit"), batch: int | None = None,
    local_steps: int | None = None, lr: float = 0.01, budget: str | None = None, memory: str = "4g",
    show: bool = False, model: str | None = None, repeats: bool = False, defence: str | None = None,
    fail_if: list[str] | None = None, clients: float | None = None, rounds: float | None = None,
    prior: float | None = None, allow_unmeasured: bool = False, returned: str | None = None,
    apart: bool = False,
) -> int:  # fmt: skip
    """Audit a client's code, recorded rounds or a capture, and write the report.

    target: FILE.py:NAME, a function that returns (model, loss, batch) or trains; a folder that
    leakbench.record kept; or a capture.safetensors.
    demo: audit a small network on bundled pictures.
    out: the folder of the report.
    batch: how many records, from the start of the batch, are the client's (default: all; demo: 32).
    local_steps: the number of local steps of the client. With 1 it sends a gradient (default: 5; demo: 1).
    lr: the clients' learning rate, above 0.
    budget: the wall time of the attacks, such as 90s or 2m (default: 2m, and 7s for the demo).
    memory: the memory that your code and the attacks may use together.
    show: show private records in the report.
    model: FILE.py:NAME of the network, for recorded rounds.
    repeats: clients hold the same records in every recorded round.
    defence: FILE.py:NAME of your own defence, a function from an update to an update.
    fail_if: exit with 1 if this condition holds, such as 'exposed > 0 at A..D' (may be repeated).
    clients: the declared number of clients of the federation, for the expected number of exposures.
    rounds: the declared number of rounds that a client takes part in, for the same.
    prior: the declared probability that somebody attacks, from 0 to 1, for the same.

    returned: the file of weights that a client sent back, if the target is the file that it was sent.
    allow_unmeasured: exit with 0 even if `fail_if` is given and no attack gave a result.
    apart: exit with 3 if `fail_if` is given and the client was measured beside its own code.

    Returns 0, or 1 if a condition of `fail_if` holds, or 3 if there is one and no attack gave a result.
    """
    conditions = fail_if or []
    for condition in conditions:
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
    batch_of, steps = (DEMO_RECORDS, DEMO_STEPS) if demo else (None, 5)
    options = {
        "demo": demo, "batch": batch or batch_of, "local_steps": local_steps or steps,
        "budget": seconds, "lr": lr, "show": show or demo, "declared": declared, "model": model,
        "defence": defence, "repeats": repeats, "returned": returned, "memory": limit,
    }  # fmt: skip
    for code in (model, defence):
        if code is not None:
            split(code)

    if ":" in name:
        split(name)
    elif name.endswith(".py"):
        raise UserError(f"{name}: names no function (write {name}:NAME, such as {name}:client)")
    elif not demo and not os.path.exists(name):
        raise UserError(f"{name}: no such file or folder (own code is FILE.py:NAME)")
    if returned is not None and not os.path.isfile(returned):
        raise UserError(f"{returned}: no such file (of weights that a client sent back)")
    probe(out)
    what = name if ":" in name else str(Path(name))
    with TemporaryDirectory() as place:
        handed = Path(place) / "client"
        asked = "leakbench.audit.audit:audited", [name, options | {"handed": "" if demo else str(handed)}]
        found = supervised(*asked, say, what, seconds + BESIDES, limit)
        alone = demo or (":" not in name and model is None) or (not found and handed.is_file())
        if not found and alone:
            # No code of the client runs in the process that measures what was handed over. Modules that the
            # code left where it was called are not found.
            modules = [each for each in sys.path if each not in ("", os.getcwd())]
            found = supervised(*asked, say, what, seconds + BESIDES, limit, modules)
    given = {
        "model": model, "batch": batch, "local-steps": local_steps, "lr": lr, "budget": budget,
        "memory": memory, "show": show, "repeats": repeats, "defence": defence, **told,
        "allow-unmeasured": allow_unmeasured, "apart": apart,
    }  # fmt: skip
    files = [name, *([returned] if returned else [])]
    try:
        value = found["audit"]
        value["command"] = _command(files, given, conditions)
        if not alone:
            value["assumptions"].insert(0, BESIDE)
        if ended := found.get("ended"):
            value["least"] = True
            cut = f"The audit was cut short: {ended}. What is missing was not tried."
            value["assumptions"].insert(0, cut)
        path = write(out, value, found["shown"])
        failed = [condition for condition in conditions if met(condition, value)]
        least, ran = value["least"], value["ran"]
    except (LookupError, TypeError, ValueError, AttributeError, TemplateError) as problem:
        # A process in which the client's code ran may have said anything.
        raise UserError(f"{what}: its process returned no report ({type(problem).__name__})") from problem
    if ended:
        raise UserError(f"{what}: {ended}; {path} has what was known until then")
    say(f"report: {path}")
    for condition in failed:
        say(f"fails: {condition}")
    if not alone:
        say(f"{'fails' if apart and conditions else 'note'}: {BESIDE[0].lower()}{BESIDE[1:]}")
    if failed or not conditions:
        return FINDING if failed else 0
    if least:
        say("note: each number is a lower bound, and more may be found (see the report's assumptions)")
    if apart and not alone:
        return UNMEASURED
    if ran or allow_unmeasured:
        return 0
    say("fails: no attack gave a result, so no condition was measured (--allow-unmeasured)")
    return UNMEASURED


def gigabytes(text: str) -> float:
    """Return the gigabytes of a size such as "4g" or "800m". Raises UserError for any other text."""
    return amount(text, _GIGABYTES, "memory", "a size (write 4g or 800m)")


_FORM = re.compile(
    r"\s*(exposed|recognisable|labelled)\s*(>=|>|<=|<|==)\s*([0-9]{1,18})\s*(?:at\s+([A-D])(?:\.\.([A-D]))?)?\s*"
)
_COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}
_LEVEL = {"recognisable": 1, "exposed": 2, "labelled": 3}


def check(condition: str) -> re.Match[str]:
    """Return the parts of a condition. Raises UserError for one that cannot be read."""
    if match := _FORM.fullmatch(condition):
        return match
    raise UserError(
        f"--fail-if: {condition!r} is no condition (write 'exposed > 0 at A..D', with exposed, "
        "recognisable or labelled, a number, and letters from A to D: E to H are not tried)"
    )


def met(condition: str, audit: Mapping[str, Any]) -> bool:
    """Return whether a condition such as "exposed > 0 at A..D" holds for `Audit.to_dict()`."""
    # The last letter decides: an attacker also has what the attackers before it have, and runs their attacks.
    what, relation, number, first, last = check(condition).groups()
    letters = "ABCD"
    wanted = letters[: letters.index(last or first or "D") + 1]
    own = [found["levels"] for found in audit["found"] if found["attacker"] in wanted]
    best = [max(levels) for levels in zip(*own, strict=True)]
    return bool(_COMPARE[relation](sum(level >= _LEVEL[what] for level in best), int(number)))
