"""Rounding of a sum that the server chose finer or far coarser than the default (Flower's SecAgg+)."""

import math

from leakbench.base.errors import Unfit
from leakbench.federation.detectors import Received

ALARM = 1.0
# The settings that it judges, by Flower's names.
SETTINGS = ("clipping_range", "target_range", "max_weight")
# The step between two levels of Flower's default, times the number of samples that a factor of one stands
# for.
STEP = 2 * 8.0 / (1 << 22) * 1000.0
# A step that is coarser by this factor leaves no training: a weight of a client with a thousand samples is
# off by a thousandth then.
COARSEST = 256.0


def transport(received: Received) -> float:
    """Return how far the settings of SecAgg+ that the server sent are from what a client should accept.

    The number is the largest of three. It is above 1 where a client's weights are rounded more finely than by
    default, where they are rounded 256 times as coarsely or more, and where the client has more samples than
    the settings provide for, so that its weights may be cut off. It is infinite where a setting is no
    positive number. Flower's clients take these settings as the server sends them.

    Raises Unfit where the server sent none.
    """
    if received.transport is None or not set(SETTINGS) <= set(received.transport):
        raise Unfit("no settings of a rounded sum were sent (clipping_range, target_range, max_weight)")
    clipping, levels, most = (float(received.transport[name]) for name in SETTINGS)
    if not all(math.isfinite(value) and value > 0 for value in (clipping, levels, most)):
        return math.inf
    step = 2 * clipping / levels * most
    # The default itself is not beyond the default, whatever the division rounds to.
    return max(STEP / step * (1 - 1e-9), step / STEP / COARSEST, len(received.labels) / most)
