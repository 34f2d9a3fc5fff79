"""How far a run came in the schedule by which its step size falls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# The shares of a schedule after which the step size falls. A test holds them to those of the optimiser, which
# this room must not import.
FALLS_AT = (3 / 8, 5 / 8, 7 / 8)


@dataclass(frozen=True)
class Schedule:
    """A run of the first iterations of a schedule."""

    ran: int
    full: int  # the iterations over which the step size falls
    # The iterations after the run's end at which the step size falls again. Of a steady decline it is the
    # next one alone.
    ahead: tuple[int, ...] = ()


def schedule_of(attack: Mapping[str, Any], ran: int) -> Schedule | None:
    """Return how far a run came in the schedule of an attack; None where the step size never falls."""
    decays = [arguments.get("decay") or False for arguments in (attack.get("optimiser") or {}).values()]
    full = int(attack.get("decay_over") or ran)
    falls = [int(full * share) for share in FALLS_AT] if True in decays else []
    if any(0 < decay < 1 for decay in decays):
        falls += [ran] if ran < full else []
    elif not falls:
        return None
    return Schedule(ran, full, tuple(fall for fall in falls if fall >= ran))
