"""What stops the attack on LeNet: its convolutions, and what other forms of the same products would take.

Trials have weights of their own where the weights move, so their convolutions are one with a group for each
trial. Twelve channels do not fill a register of sixteen numbers. Padded channels do, and a batch of all
trials can only multiply by weights that all share.
"""

import os
from collections.abc import Iterator

import torch
from torch.nn.functional import conv2d

from bench.ceiling import Ceiling
from bench.measure import Row, Side, compare

TRIALS, KERNEL, UNIT = 32, 5, "seconds per image"
# Layer of LeNet → its channels, the rows of what it reads, and its stride.
LAYERS = {"second": (12, 16, 2), "third": (12, 8, 1)}


def rows(ceiling: Ceiling, small: bool = False) -> Iterator[Row]:
    """Yield a row for each other form of a layer's convolution, by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for name, (channels, side, stride) in LAYERS.items():
        flop = 2 * channels * channels * KERNEL**2 * (side // stride) ** 2
        ours = _side("a group of 12 channels for each trial", channels, side, stride, TRIALS, flop, small)
        rivals = [
            _side("groups padded to 16 channels", 16, side, stride, TRIALS, flop, small),
            _side("one batch, weights shared", channels, side, stride, 1, flop, small),
        ]
        work = f"the {name} convolution of LeNet, {TRIALS} trials, one thread"
        core = ceiling["convolution"] / len(os.sched_getaffinity(0))
        yield from compare(f"floor {name}", work, UNIT, ours, rivals, core, small=small)
    torch.set_num_threads(threads)


def _side(name: str, channels: int, side: int, stride: int, groups: int, flop: int, small: bool) -> Side:
    batch, turns = TRIALS // groups, 1 if small else 200
    x = torch.randn(batch, groups * channels, side, side).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(groups * channels, channels, KERNEL, KERNEL)
    weight = weight.contiguous(memory_format=torch.channels_last)

    def run() -> None:
        for _ in range(turns):
            conv2d(x, weight, None, stride, KERNEL // 2, 1, groups)

    return Side(name, run, TRIALS * turns, flop)
