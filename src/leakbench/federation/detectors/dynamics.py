"""Loss and gradient that leap away from those of earlier rounds (arXiv:2511.10502, arXiv:2506.20651)."""

import math
from collections.abc import Mapping, Sequence

import torch

from leakbench.base.errors import Unfit
from leakbench.federation.detectors import Received

# Standard deviations, estimated from earlier rounds. With ten of them and normal logarithms, one round in
# 3,000 lies farther than six away.
ALARM = 6.0
# The number of earlier rounds from which a deviation can be estimated.
FEWEST = 5
# The smallest deviation: rounds that agree to a few digits have none to divide by.
LEAST = 1e-3
# The smallest number: a loss or a gradient may be zero, which has no logarithm.
SMALLEST = 1e-30


def dynamics(received: Received) -> float:
    """Return how far a round is from the earlier rounds that the client remembers, in standard deviations.

    The number is that of the farthest of three quantities, and at least 0: the loss, the length of the
    gradient, and the loss after a local step, each compared with its mean. Where the batch is unknown the
    only quantity is the length of what was sent. The abstracts of arXiv:2511.10502 and arXiv:2506.20651 name
    the quantities. The logarithms are ours, since all three are positive and training changes them by
    factors.

    Raises Unfit where fewer than 5 rounds are remembered.
    """
    if len(received.earlier) < FEWEST:
        raise Unfit(f"fewer than {FEWEST} earlier rounds are known")
    return farthest(received.now, received.earlier)


def farthest(now: Mapping[str, float], earlier: Sequence[Mapping[str, float]]) -> float:
    """Return the largest distance of a number of `now` from the earlier numbers of the same name."""
    far = 0.0
    for name, value in now.items():
        if not math.isfinite(value):
            return math.inf
        logs = torch.tensor([each[name] for each in earlier], dtype=torch.float64).clamp_min(SMALLEST).log()
        apart = abs(math.log(max(value, SMALLEST)) - float(logs.mean()))
        far = max(far, apart / max(float(logs.std()), LEAST))
    return far
