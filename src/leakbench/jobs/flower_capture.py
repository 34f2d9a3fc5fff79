"""capture --from-flower: write an observation of what a Flower server received."""

import sys
from pathlib import Path

import numpy as np

from leakbench.base.artefacts import Facts, write_tensors
from leakbench.base.errors import UserError
from leakbench.base.provenance import read_spec
from leakbench.base.whole import replacing
from leakbench.base.yamls import suggest
from leakbench.observations.facts import told
from leakbench.observations.reading import read_observation
from leakbench.observations.rounds import read_rounds

KEYS = ("network", "local", "mode", "dropout", "knows")


def flower_capture(from_flower: Path, spec: Path, out: Path) -> None:
    """Write the observation of the rounds that `leakbench.record` has kept.

    Clients that are not in every round are left out, with a line on standard error that says why.

    from_flower: the folder of the rounds of a Flower app that `leakbench.record` kept. Beside it only `spec`,
    with the keys network and local, and `out` are given.
    spec: JSON with `network` (the victim that the app trains, as in docs/observation.md), and where they are
    known `local` (how clients train), `mode` (train or eval), `dropout` and `knows`.
    out: the file of the observation.

    Raises UserError if no client is left, for a wrong spec, and if the updates do not fit the network. The
    file at `out` then stays as it was.
    """
    given = _spec(spec)
    rounds = read_rounds(from_flower)
    for why in rounds.left_out.values():
        print(f"leakbench capture: {from_flower}: left out: {why}", file=sys.stderr)
    tensors: dict[str, np.ndarray] = {"origin": np.arange(len(next(iter(rounds.sent.values()))))}
    tensors |= {f"global/{name}": value for name, value in rounds.sent.items()}
    tensors |= {f"updates/{name}": value for name, value in rounds.updates.items()}
    knows = {"shared": "model update of each client, each round", "source": "a Flower app"}
    facts: Facts = given | {
        "clients": rounds.clients,
        "kind": "model",
        "knows": knows | given.get("knows", {}),
    }
    with replacing(out) as temporary:
        write_tensors(temporary, tensors, facts)
        try:
            read_observation(temporary)
        except UserError as problem:
            what = str(problem).removeprefix(str(UserError(temporary))).removeprefix(": ")
            raise UserError(f"{spec}: does not fit the rounds in {from_flower}: {what}") from problem


def _spec(path: Path) -> Facts:
    """Return a hand-written spec. Raises UserError, which names the key that is missing, unknown or wrong."""
    given = read_spec(path)
    if unknown := sorted(set(given) - set(KEYS)):
        raise UserError(f"{path}: {unknown[0]}: is no key of it ({suggest(unknown[0], KEYS)})")
    told(given | {"clients": [1], "kind": "model"}, str(path))
    return given
