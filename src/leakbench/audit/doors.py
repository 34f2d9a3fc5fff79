"""The three inputs of an audit: a client's code, recorded rounds, and a capture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from leakbench.audit import demo
from leakbench.audit.audit import Audit, of_client, of_round
from leakbench.audit.code import loaded
from leakbench.audit.round import Client, Round, client
from leakbench.audit.watch import watched
from leakbench.base.errors import UserError

Tell = Callable[[str], None]


def audited(name: str, options: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """Return the audit of what `name` stands for, or of the demo, and its pictures, as values for JSON.

    name: FILE.py:NAME, a folder of recorded rounds, or an observation file.
    options: those of the command (`verbs.audit`).
    tell: hears each line of the audit.
    """
    if options["demo"]:
        found = _of_code(demo.client, "--demo", options, tell)
    elif ":" in name:
        made = loaded(name)
        if not callable(made):
            raise UserError(f"is {type(made).__name__}, not a function that returns (model, loss, batch)")
        found = _of_code(made, name, options, tell)
    else:
        from leakbench.audit.received import of_capture, of_rounds

        found = (of_rounds if Path(name).is_dir() else of_capture)(Path(name), options, tell)
    return {"audit": found.to_dict(), "pictures": found.pictures}


def _of_code(make: Callable[[], Any], name: str, options: dict[str, Any], tell: Tell) -> Audit:
    own = _client(make, options)
    defence = loaded(options["defence"]) if options["defence"] else None
    more = {"declared": options["declared"], "show": options["show"], "source": name}
    if isinstance(own, Round):
        return of_round(own, options["budget"], tell, **more)
    return of_client(own, options["budget"], tell, defence=defence, **more)


def _client(make: Callable[[], Any], options: dict[str, Any]) -> Client | Round:
    """Return the client of the (model, loss, batch) that a function returns, or the round that it trained."""
    torch.manual_seed(0)
    returned, watch = watched(make)
    several = isinstance(returned, tuple | list) and len(returned) > 0
    # A function that trains may return several values too. Flower's clients return weights, a number of
    # records and metrics.
    if several and (isinstance(returned[0], torch.nn.Module) or not watch.steps):
        return client(returned, options["batch"], options["local_steps"], options["lr"])
    if callable(returned) and not isinstance(returned, torch.nn.Module):
        _, watch = watched(returned)
    return watch.read()
