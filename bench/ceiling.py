"""The highest speed that a core of this machine reaches in large products and convolutions."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d
from torch.utils.flop_counter import FlopCounterMode

# Kind of work → operations a second of all the cores that a side may use.
Ceiling = dict[str, float]


def flop_of(run: Callable[[int], object], units: float, small: bool = False) -> float:
    """Return the floating-point operations of the products and convolutions in one unit of work.

    run: does as many iterations as it is given. Work that it does only once, whatever the number of
    iterations, is not counted.
    units: the number of units in one iteration.
    small: whether to run as few iterations as can be.
    """
    few, many = (1, 2) if small else (2, 6)
    return (flop(lambda: run(many)) - flop(lambda: run(few))) / ((many - few) * units)


def flop(run: Callable[[], object]) -> int:
    """Return the floating-point operations of the products and convolutions of `run`."""
    # torch counts the weight gradient of a grouped convolution as if each channel met those of every group.
    counts: dict[Any, Callable[..., int]] = {torch.ops.aten.convolution_backward: _derivatives}
    if hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        counts[torch.ops.mkldnn._linear_pointwise] = _product
    with FlopCounterMode(display=False, custom_mapping=counts) as counter:
        run()
    return counter.get_total_flops()


def _product(x: Sequence[int], weight: Sequence[int], *_: object, **__: object) -> int:
    """Return the operations of a product of x with the transpose of `weight`, both given by their shapes."""
    return 2 * math.prod(x) * weight[0]


def _derivatives(
    slope: Sequence[int], x: Sequence[int], weight: Sequence[int], bias: object, stride: object,
    padding: object, dilation: object, transposed: bool, output_padding: object, groups: int,
    mask: Sequence[bool], *, out_shape: object = None, **_: object,
) -> int:  # fmt: skip
    """Return the operations of a convolution's derivatives with respect to its input and its weights.

    Each derivative takes as many operations as the convolution. The convolution multiplies every weight once
    at each place of its output, or at each place of its input if it is transposed.

    slope: the shape of the gradient with respect to the output.
    x: the shape of the input.
    weight: the shape of the weights.
    transposed: whether the convolution is transposed.
    mask: which derivatives are asked for: with respect to the input, the weights and the bias.
    """
    places = (x if transposed else slope)[2:]
    return 2 * x[0] * math.prod(places) * math.prod(weight) * sum(mask[:2])


def measured(seconds: float = 1.0) -> dict[str, float]:
    """Return the operations a second of one core, by kind of work.

    `product` multiplies two matrices of 1024×1024. `convolution` is the forward pass of a 3×3 convolution of
    64 channels on eight images of 32×32.

    seconds: how long each kind is repeated, about; the fastest repetition counts.
    """
    matrix, images, kernel = (
        torch.randn(*shape) for shape in ((1024, 1024), (8, 64, 32, 32), (64, 64, 3, 3))
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return {
            "product": _best(lambda: matrix @ matrix, seconds),
            "convolution": _best(lambda: conv2d(images, kernel, padding=1), seconds),
        }
    finally:
        torch.set_num_threads(threads)


def _best(run: Callable[[], Tensor], seconds: float) -> float:
    count, shortest, end = flop(run), float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        shortest = min(shortest, time.perf_counter() - start)
    return count / shortest
