"""How far a run came: in the schedule by which its step size falls, and whether it had settled.

The rule of settling was fixed by argument, before any verdict was seen. A run of N of L iterations still has
log2(L / N) doublings before it, and its last half was one doubling. The shortest runs here are about a
thousandth of the published length, which is ten doublings. Suppose that the last doubling changed the loss by
less than 1 % and the metric by less than a tenth of its tolerance. Ten more doublings at that pace change the
loss by a tenth and the metric by one tolerance at most, within which a number counts as reproduced anyway.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# The shares of a schedule after which the step size falls. A test holds them to those of the optimiser, which
# this room must not import.
FALLS_AT = (3 / 8, 5 / 8, 7 / 8)
# Of a settled trial: the largest share by which its loss falls, and by which its metric moves, of the
# metric's tolerance.
FALL, MOVE = 0.01, 0.1
# The share of trials that must have settled. A few may lie where they go on falling for ever.
TRIALS = 0.9


@dataclass(frozen=True)
class PartialRun:
    """A run of the first iterations of a schedule."""

    ran: int
    full: int  # the iterations over which the step size falls
    # The iterations after the run's end at which the step size falls again. Of a steady decline it is the
    # next one alone.
    ahead: tuple[int, ...] = ()


def schedule_of(attack: Mapping[str, Any], ran: int) -> PartialRun | None:
    """Return how far a run came in the schedule of an attack; None where the step size never falls."""
    decays = [arguments.get("decay") or False for arguments in (attack.get("optimiser") or {}).values()]
    full = int(attack.get("decay_over") or ran)
    falls = [int(full * share) for share in FALLS_AT] if True in decays else []
    if any(0 < decay < 1 for decay in decays):
        falls += [ran] if ran < full else []
    elif not falls:
        return None
    return PartialRun(ran, full, tuple(fall for fall in falls if fall >= ran))


def settled(falls: Sequence[float], moves: Sequence[float] = (), tolerance: float = 0.0) -> bool:
    """Return whether trials had settled, by falls of their losses and, if known, moves of their metric."""

    def most(still: Sequence[bool]) -> bool:
        return sum(still) / len(still) >= TRIALS

    return (
        bool(len(falls))
        and most([fall < FALL for fall in falls])
        and (not len(moves) or most([abs(move) <= MOVE * tolerance for move in moves]))
    )
