"""How fast a core of this machine computes, measured in a second or two: for the cost model alone."""

import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional

from leakbench.catalogue.costs import Work

TURNS = 7


def _seconds(once: Callable[[], object], times: int) -> float:
    """Return the median time of one call, over turns of `times` calls."""
    took = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for _ in range(times):
            once()
        took.append((time.perf_counter() - start) / times)
    return statistics.median(took)


@torch.no_grad()
def measured() -> Work:
    """Return what one core of this machine does in a second: see `costs.REFERENCE`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        images, filters = torch.rand(8, 64, 16, 16), torch.rand(64, 64, 3, 3)
        convolution = 2 * 8 * 64 * 64 * 9 * 16 * 16 / 1e6
        matrix = torch.rand(512, 512)
        product = 2 * 512**3 / 1e6
        small = torch.rand(16)
        return Work(
            convolution / _seconds(lambda: functional.conv2d(images, filters, padding=1), 20),
            product / _seconds(lambda: matrix @ matrix, 20),
            0.001 / _seconds(lambda: small + small, 2000),
        )
    finally:
        torch.set_num_threads(threads)
