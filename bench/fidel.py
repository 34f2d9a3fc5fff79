"""Fidel's 200 measurements at k = 30: capture, attack and scoring, batched against one measurement at a time.

The project's way runs in a process of one thread on each core, as the jobs of a pipeline do. The rival takes
one measurement after the other, and correlates all neurons of a measurement with all its samples at once
(numpy.corrcoef). The rival is timed twice: with the libraries' threads on all cores, and in a process of one
thread on each core. Threads slow small products down, so the second comparison is the fair one.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bench.ceiling import Ceiling
from bench.measure import Row, Side, compare
from leakbench import defences
from leakbench.attacks import capabilities
from leakbench.attacks.fidel import fidel
from leakbench.base.processes.process import prepare
from leakbench.federation import play, private_samples
from leakbench.metrics.matching import best
from leakbench.metrics.pearson import THRESHOLD, pearson_matrix
from leakbench.networks import victims
from leakbench.networks.layers import draw_masks
from leakbench.observations.observation import Observation

ROUNDS, K = 200, 30
SHAPE, CLASSES, PARAMETERS = (28, 28, 1), 10, {"activation": "relu", "dropout": 0.5}


def _setting(rounds: int) -> tuple[torch.nn.Module, Tensor, np.ndarray, dict[str, Any]]:
    torch.manual_seed(0)
    model = victims.build("fcnn", SHAPE, CLASSES, PARAMETERS)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (4000, *SHAPE), dtype=np.uint8))
    federation = {
        "clients": [K], "rounds": rounds, "update": "model", "server": "frozen", "local_set": "fresh",
        "passes": 1, "distinct_labels": False,
        "private": {"split": "test", "start": 0, "stop": 4000},
        "local": {"lr": 0.01, "batch_size": None, "epochs": 1},
    }  # fmt: skip
    return model, images, rng.integers(0, CLASSES, 4000), federation


def batched(rounds: int) -> np.ndarray:
    """Return how many samples each of `rounds` measurements reveals, int [rounds].

    The project's own rooms take all measurements together.
    """
    model, images, labels, federation = _setting(rounds)
    truth = private_samples(federation, labels, ("bench",))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    network = {"module": "fcnn", "parameters": PARAMETERS, "shape": SHAPE, "classes": CLASSES}
    sent = {name: value.numpy()[None] for name, value in weights.items()}
    counts = np.empty(rounds, int)

    def sink(part: slice, _: int, update: dict[str, Tensor]) -> None:
        # The pieces are those of the pipeline. A larger piece would not fit into the processor's cache.
        size = capabilities("fidel").rounds_at_once
        assert size
        for start in range(part.start, part.stop, size):
            piece = slice(start, min(start + size, part.stop))
            own, count = slice(start - part.start, piece.stop - part.start), piece.stop - start
            seen = {name: value[own, None].numpy() for name, value in update.items()}
            observation = Observation(network, sent, seen, np.zeros(count, int), [K], "model")
            found = fidel(observation, torch.Generator()).images.numpy().reshape(count, 128, 784)
            pixels = images.numpy()[truth.images[0][piece]].reshape(count, K, -1).astype(np.float32) / 255
            counts[piece] = (best(pearson_matrix(found, pixels))[1] >= THRESHOLD).sum(-1)

    play(model, [weights], images, truth, federation, defences.build("none", {}), 0, sink)
    return counts


def _one_by_one(measurements: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (reconstructions [live neurons, 784], samples [k, 784]) of one measurement after the other.

    Autograd computes the gradients.
    """
    model, images, labels, federation = _setting(measurements)
    truth = private_samples(federation, labels, ("bench",))
    rng = torch.Generator().manual_seed(0)
    for turn in range(measurements):
        index = truth.images[0][turn]
        x = images[index].permute(0, 3, 1, 2).float() / 255
        model.get_submodule("dropout").keep = draw_masks(model, (K,), rng)["dropout.keep"]
        model.zero_grad()
        cross_entropy(model(x), torch.from_numpy(labels[index])).backward()
        slopes = {name: parameter.grad for name, parameter in model.named_parameters()}
        weight, bias = (np.asarray(slopes[f"dense1.{name}"]) for name in ("weight", "bias"))
        rows = [weight[n] / bias[n] for n in range(len(bias)) if bias[n] != 0]
        yield np.stack(rows), x.flatten(1).numpy()


def per_measurement(measurements: int) -> list[int]:
    """Return how many samples each measurement reveals, computed one measurement after the other."""
    counts = []
    for rows, samples in _one_by_one(measurements):
        r = np.corrcoef(rows, samples)[: len(rows), len(rows) :]
        counts.append(int((r.max(0) >= THRESHOLD).sum()))
    return counts


def _alone(threads: int) -> None:
    prepare(threads)
    torch.set_num_threads(threads)


@contextmanager
def _processes(cores: int) -> Iterator[ProcessPoolExecutor]:
    """Yield `cores` processes of one thread each.

    NumPy settles the number of threads of a product when the library is loaded. The processes are therefore
    new ones, and the environment holds the number of threads while they start.
    """
    prepare(1)
    try:
        with ProcessPoolExecutor(cores, get_context("spawn"), _alone, (1,)) as pool:
            yield pool
    finally:
        prepare(cores)


def _shared(pool: ProcessPoolExecutor, cores: int, run: Callable[[int], object], each: int) -> None:
    """Let every process of the pool do `each` measurements."""
    for task in [pool.submit(run, each) for _ in range(cores)]:
        task.result()


def rows(ceiling: Ceiling, small: bool) -> Iterator[Row]:
    """Yield the bench's rows, one for each way in which the rival is timed.

    ceiling: operations a second of all cores together, by kind of work.
    small: whether to take a tiny size, to see that the comparison works.
    """
    many, few = (20, 4) if small else (ROUNDS, 40)
    cores = len(os.sched_getaffinity(0))
    # The forward pass, the gradients of both layers' weights and of the values between the layers, and the
    # correlations.
    layers = SHAPE[0] * SHAPE[1] * 128, 128 * CLASSES
    flop = 2 * K * (2 * sum(layers) + layers[1] + layers[0])
    with _processes(cores) as pool:
        yield from compare(
            "fidel",
            f"capture, attack and score {many} updates of {K} MNIST-sized samples on each of {cores} cores, "
            "fully connected network",
            "seconds per measurement",
            Side("ours", lambda: _shared(pool, cores, batched, many), cores * many, flop),
            [
                Side("one at a time: autograd, numpy.corrcoef per measurement",
                     lambda: per_measurement(few), few, flop),
                Side("the same, a process of one thread on each core",
                     lambda: _shared(pool, cores, per_measurement, few), cores * few, flop),
            ],
            ceiling["product"], small=small,
        )  # fmt: skip
