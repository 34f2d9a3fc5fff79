"""The speed of one core of this machine, measured in a second or two for the cost model."""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from leakbench.base.processes.workers import one_thread
from leakbench.catalogue.costs import STEP, STEPPED, Work

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


def _convolved(images: Tensor, filters: Tensor) -> float:
    """Return the millions of operations in a second of a pass forth and back through a convolution."""
    millions = STEP * 2 * filters.numel() * images[:, 0].numel() / 1e6
    images.requires_grad_(), filters.requires_grad_()
    padding = filters.shape[-1] // 2
    return millions / _seconds(
        lambda: functional.conv2d(images, filters, padding=padding).sum().backward(), 10
    )


def measured() -> Work:
    """Return what one core of this machine does in a second, in the form of `costs.REFERENCE`.

    The probes have the size of a job's operations: a pass forth and back through a convolution of LeNet, and
    through one of ResNet20-4, a product of matrices, and a step of SGD on a network whose operations take no
    time compared to the calls.
    """
    with one_thread():
        matrix = torch.rand(512, 512)
        network = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 2))
        optimiser = torch.optim.SGD(network.parameters(), lr=0.01)
        points, labels = torch.rand(10, 2), torch.zeros(10, dtype=torch.int64)

        def step() -> None:
            optimiser.zero_grad()
            functional.cross_entropy(network(points), labels).backward()
            optimiser.step()

        return Work(
            _convolved(torch.rand(64, 12, 16, 16), torch.rand(12, 12, 5, 5)),
            2 * 512**3 / 1e6 / _seconds(lambda: matrix @ matrix, 20),
            3 * STEPPED / _seconds(step, 200),
            _convolved(torch.rand(1, 64, 32, 32), torch.rand(64, 64, 3, 3)),
        )
