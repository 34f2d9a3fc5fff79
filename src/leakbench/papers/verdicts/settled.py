"""Whether a run that is shorter than the published one had settled, by its loss and by its metric.

The rule was fixed by argument, before any verdict was seen. A run of N of L iterations still has log2(L / N)
doublings before it, and its last half was one doubling. The shortest runs here are about a thousandth of the
published length, which is ten doublings. Suppose that the last doubling changed the loss by less than 1 % and
the metric by less than a tenth of its tolerance. Ten more doublings at that pace change the loss by a tenth
and the metric by one tolerance at most, within which a number counts as reproduced anyway.
"""

from collections.abc import Sequence

import numpy as np

# The largest share by which the loss of a settled trial falls.
FALL = 0.01
# The largest share of the metric's tolerance by which the metric of a settled trial moves.
MOVE = 0.1
# The share of trials that must have settled. A few may lie where they go on falling for ever.
TRIALS = 0.9


def settled(falls: Sequence[float], moves: Sequence[float] = (), tolerance: float = 0.0) -> bool:
    loss = np.asarray(falls, np.float64) < FALL
    metric = np.abs(np.asarray(moves, np.float64)) <= MOVE * tolerance
    return bool(loss.size and loss.mean() >= TRIALS and (not metric.size or metric.mean() >= TRIALS))
