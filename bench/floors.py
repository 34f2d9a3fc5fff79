"""What stops attacks: their convolutions and steps, and what other forms of the same work would take.

LeNet and GRNN: an iteration is hundreds of calls of torch. What they take however small their tensors are
shows in an attack on one trial.

ResNet20-4: one image goes through 3×3 convolutions of many channels. Winograd's form F(2×2, 3×3) needs 2.25
times fewer multiplications, and moves more numbers (Lavin, Gray 2016).

GRNN: each trial multiplies by its own generator's weights, and RMSprop reads and writes eight numbers for
each of them.
"""

import math
import os
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from bench.ceiling import Ceiling
from bench.grnn import CLASSES, LR, MOMENTUM, SHAPE, batched
from bench.grnn import TRIALS as GENERATORS
from bench.matching import WORK, attacked, setting
from bench.measure import Row, Side, compare
from leakbench.attacks.matching.engines.layers import unfolded
from leakbench.attacks.matching.engines.products import product
from leakbench.attacks.matching.generator_weights import GeneratorWeights
from leakbench.attacks.matching.optimisers.rmsprop import RMSprop

UNIT = "seconds per image"
# Stage of ResNet20-4 → its channels, and the rows of what its convolutions read.
STAGES = {"first": (64, 32), "second": (128, 16), "third": (256, 8)}
# Block of GRNN's generator → the places that it reads, the channels of each, and what they are multiplied to.
BLOCKS = ((16, 128, 1152), (64, 64, 576), (256, 32, 54))
# Winograd's matrices: of a tile of 4×4 pixels, of a kernel of 3×3, and of what becomes 2×2 pixels.
TILE = torch.tensor([[1.0, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
TAPS = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
OUT = torch.tensor([[1.0, 1, 1, 0], [0, 1, -1, -1]])


def rows(ceiling: Ceiling, small: bool = False) -> Iterator[Row]:
    """Yield a row for each other form of a layer's convolution, and for RMSprop's step, by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    cores = len(os.sched_getaffinity(0))
    core = ceiling["convolution"] / cores
    for name, sides in (("LeNet", _attacks(small)), ("GRNN", _generators(small))):
        work = f"an iteration of {name}, one thread"
        yield from compare(f"floor {name} calls", work, "seconds per iteration", *sides, core, small=small)
    yield from _products(ceiling["product"] / cores, small)
    for name, (channels, side) in STAGES.items():
        yield from _stage(name, channels, side, core, small)
    yield from _step(small)
    torch.set_num_threads(threads)


def _attacks(small: bool) -> tuple[Side, list[Side]]:
    def side(trials: int, name: str) -> Side:
        work = WORK["lenet-dlg"] | {"targets": trials, "iterations": iterations}
        model, tensors, _ = setting("lenet-dlg", work, small)
        return Side(name, lambda: attacked("lenet-dlg", work, model, tensors, 1), iterations)

    iterations = 2 if small else 300
    return side(2 if small else 32, "32 trials"), [side(1, "one trial")]


def _generators(small: bool) -> tuple[Side, list[Side]]:
    iterations = 2 if small else 50
    many = Side("8 trials", lambda: batched(2 if small else 8, iterations, 1), iterations)
    return many, [Side("one trial", lambda: batched(1, iterations, 1), iterations)]


def _products(core: float, small: bool) -> Iterator[Row]:
    """Yield the products of eight generators' three blocks: forth, back, and of the weights' gradients."""
    given = []
    for rows, inner, columns in BLOCKS:
        a, b, c = (torch.randn(8, *shape) for shape in ((rows, inner), (inner, columns), (rows, columns)))
        given += [(a, b), (c, b.mT), (a.mT, c)]

    def ours() -> None:
        for a, b in given:
            product(a, b)

    def rival() -> None:
        for a, b in given:
            for left, right in zip(a, b, strict=True):
                torch.ops.mkldnn._linear_pointwise(left, right.T, None, "none", [], "")

    flop = 3 * 8 * sum(2 * math.prod(block) for block in BLOCKS)
    sides = Side("all trials together", ours, 1, flop), Side("one after another, by oneDNN", rival, 1, flop)
    work = "the products of the generators of 8 trials of GRNN, one thread"
    yield from compare(
        "floor products", work, "seconds per iteration", sides[0], [sides[1]], core, small=small
    )


def _stage(name: str, channels: int, side: int, core: float, small: bool) -> Iterator[Row]:
    turns, x = 1 if small else 200, torch.randn(1, channels, side, side)
    weight = torch.randn(channels, channels, 3, 3) / (9 * channels) ** 0.5
    last, kernel = (each.contiguous(memory_format=torch.channels_last) for each in (x, weight))
    taps = (TAPS.kron(TAPS) @ weight.flatten(2).flatten(0, 1).T).view(16, channels, channels)

    conv = nn.Conv2d(channels, channels, 3, 1, 1)

    def ours() -> None:
        for _ in range(turns):
            if unfolded.pays(conv, last):
                unfolded.convolved(conv, last, kernel, None)
            else:
                conv2d(last, kernel, None, 1, 1)

    def rival() -> None:
        for _ in range(turns):
            winograd(x, taps)

    exact = conv2d(x.double(), weight.double(), None, 1, 1)
    error = float((winograd(x, taps) - exact).norm() / exact.norm())
    work = (
        f"a 3×3 convolution of ResNet20-4's {name} stage, one image, one thread; Winograd's error {error:.0e}"
    )
    flop = 2 * 9 * channels**2 * side**2
    sides = Side("the convolution", ours, turns, flop), Side("Winograd, weights ready", rival, turns, flop)
    yield from compare(f"floor {name} stage", work, UNIT, sides[0], [sides[1]], core, small=small)


def winograd(x: Tensor, taps: Tensor) -> Tensor:
    """Return a 3×3 convolution of an image [1, in, rows, columns], with zeros around it, by F(2×2, 3×3).

    taps: the transformed weights [16, out, in].
    """
    tiles = pad(x, (1, 1, 1, 1)).unfold(2, 4, 2).unfold(3, 4, 2)
    (down, across), out = tiles.shape[2:4], taps.shape[1]
    seen = (TILE.kron(TILE) @ tiles.permute(4, 5, 0, 1, 2, 3).reshape(16, -1)).view(16, x.shape[1], -1)
    made = OUT.kron(OUT) @ product(taps, seen).flatten(1)
    return made.view(2, 2, out, down, across).permute(2, 3, 0, 4, 1).reshape(1, out, 2 * down, 2 * across)


def _step(small: bool) -> Iterator[Row]:
    turns, trials = (1, 2) if small else (20, GENERATORS)
    drawn, _ = GeneratorWeights(SHAPE[0], SHAPE[2], 1, CLASSES).draw(torch.Generator(), trials)
    values = list(drawn.values())
    given, squares, momenta = ([torch.rand_like(each) for each in values] for _ in range(3))
    optimiser = RMSprop(LR, MOMENTUM)
    whole = torch.rand(4 * sum(each.numel() for each in values))
    other = torch.empty_like(whole)

    def ours() -> None:
        for _ in range(turns):
            optimiser.move(values, given, squares, momenta)

    def copied() -> None:
        for _ in range(turns):
            other.copy_(whole)

    work = f"RMSprop's step over the generators of {trials} trials of GRNN, one thread"
    sides = Side("the step", ours, turns * trials), Side("copying as many bytes", copied, turns * trials)
    yield from compare("floor rmsprop", work, "seconds per step", sides[0], [sides[1]], 0.0, small=small)
