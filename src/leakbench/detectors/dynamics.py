"""Loss and gradient that leap away from those of the rounds before (abstracts of arXiv:2511.10502 and
arXiv:2506.20651)."""

import math
from collections.abc import Mapping, Sequence

import torch

from leakbench.detectors import Received
from leakbench.errors import Unfit

# Standard deviations. Of ten rounds' logarithms, six are passed once in 3,000 rounds where these are normal.
ALARM = 6.0
# Earlier rounds of which a deviation says something.
FEWEST = 5
# Rounds that are alike to a few digits have no deviation to divide by.
LEAST = 1e-3
# A loss or a gradient may be zero, which has no logarithm.
SMALLEST = 1e-30


def dynamics(received: Received) -> float:
    """Return how many standard deviations the loss, the length of the gradient or the loss after a local step
    is from its mean over the rounds that the client remembers; of the three the farthest, at least 0.

    Where the batch is unknown it is the length of what was sent alone. Source: both abstracts name the
    quantities; logarithms, since all three are positive and training moves them by factors, are ours. Raises
    Unfit where fewer than 5 rounds are remembered.
    """
    if len(received.earlier) < FEWEST:
        raise Unfit(f"fewer than {FEWEST} earlier rounds are known")
    return farthest(received.now, received.earlier)


def farthest(now: Mapping[str, float], earlier: Sequence[Mapping[str, float]]) -> float:
    """Return the largest distance of a number of `now` from those of the same name in `earlier`, in standard
    deviations of their logarithms; infinite where one is not finite now.

    now: name → a number that is not negative. earlier: the same of two rounds before or more; all are finite.
    """
    far = 0.0
    for name, value in now.items():
        if not math.isfinite(value):
            return math.inf
        logs = torch.tensor([each[name] for each in earlier], dtype=torch.float64).clamp_min(SMALLEST).log()
        apart = abs(math.log(max(value, SMALLEST)) - float(logs.mean()))
        far = max(far, apart / max(float(logs.std()), LEAST))
    return far
