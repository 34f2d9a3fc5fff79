"""Fidel's 200 measurements at k = 30: capture, attack and scoring, batched against one measurement at a
time."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.stats import pearsonr
from torch import Tensor
from torch.nn.functional import cross_entropy

from bench.measure import compare
from leakbench import defences, victims
from leakbench.attacks.fidel import fidel
from leakbench.attacks.observation import Observation
from leakbench.federation import play, private_samples
from leakbench.metrics.matching import best
from leakbench.metrics.pearson import THRESHOLD, pearson_matrix
from leakbench.victims.layers import draw_masks

ROUNDS, K = 200, 30
SHAPE, CLASSES, PARAMETERS = (28, 28, 1), 10, {"activation": "relu", "dropout": 0.5}


def _setting() -> tuple[torch.nn.Module, Tensor, np.ndarray, dict[str, Any]]:
    torch.manual_seed(0)
    model = victims.build("fcnn", SHAPE, CLASSES, PARAMETERS)
    rng = np.random.default_rng(0)
    images = torch.from_numpy(rng.integers(0, 256, (4000, *SHAPE), dtype=np.uint8))
    federation = {
        "clients": [K], "rounds": ROUNDS, "update": "model", "server": "frozen", "local_set": "fresh",
        "passes": 1, "distinct_labels": False,
        "private": {"split": "test", "start": 0, "stop": 4000},
        "local": {"lr": 0.01, "batch_size": None, "epochs": 1},
    }  # fmt: skip
    return model, images, rng.integers(0, CLASSES, 4000), federation


def batched() -> np.ndarray:
    """Return how many samples each measurement reveals, all measurements together, by the project's own
    rooms."""
    model, images, labels, federation = _setting()
    truth = private_samples(federation, labels, ("bench",))
    weights = {name: p.detach() for name, p in model.named_parameters()}
    updates = {name: np.empty((ROUNDS, 1, *p.shape), np.float32) for name, p in weights.items()}

    def sink(part: slice, client: int, update: dict[str, Tensor]) -> None:
        for name, value in update.items():
            updates[name][part, client] = value.numpy()

    play(model, [weights], images, truth, federation, defences.build("none", {}), 0, sink)
    network = {"module": "fcnn", "parameters": PARAMETERS, "shape": SHAPE, "classes": CLASSES}
    sent = {name: value.numpy()[None] for name, value in weights.items()}
    found = fidel(Observation(network, sent, updates, np.zeros(ROUNDS, int), [K], "model"), torch.Generator())
    pixels = images.numpy()[truth.images[0]].reshape(ROUNDS, K, -1).astype(np.float32) / 255
    counts = []
    for start in range(0, ROUNDS, 20):
        part = slice(start, start + 20)
        r = pearson_matrix(found.images[part].numpy().reshape(-1, 128, 784), pixels[part])
        counts.append((best(r)[1] >= THRESHOLD).sum(-1))
    return np.concatenate(counts)


def _one_by_one(measurements: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (reconstructions [live neurons, 784], samples [k, 784]) of one measurement after the other, by
    autograd."""
    model, images, labels, federation = _setting()
    truth = private_samples(federation, labels, ("bench",))
    rng = torch.Generator().manual_seed(0)
    for turn in range(measurements):
        index = truth.images[0][turn]
        x = images[index].permute(0, 3, 1, 2).float() / 255
        model.dropout.keep = draw_masks(model, (K,), rng)["dropout.keep"]
        model.zero_grad()
        cross_entropy(model(x), torch.from_numpy(labels[index])).backward()
        weight, bias = model.dense1.weight.grad.numpy(), model.dense1.bias.grad.numpy()
        rows = [weight[n] / bias[n] for n in range(len(bias)) if bias[n] != 0]
        yield np.stack(rows), x.flatten(1).numpy()


def per_pair(measurements: int) -> list[int]:
    """Return the same counts with one call of scipy's pearsonr for every neuron and sample."""
    return [
        sum(any(pearsonr(row, sample).statistic >= THRESHOLD for row in rows) for sample in samples)
        for rows, samples in _one_by_one(measurements)
    ]


def per_measurement(measurements: int) -> list[int]:
    """Return the same counts with one numpy.corrcoef for each measurement."""
    counts = []
    for rows, samples in _one_by_one(measurements):
        r = np.corrcoef(rows, samples)[: len(rows), len(rows) :]
        counts.append(int((r.max(0) >= THRESHOLD).sum()))
    return counts


def rows() -> list[dict[str, Any]]:
    """Return the bench's rows. Both baselines do the same work; the second is as good as one at a time
    gets."""
    work = f"capture, attack and score {ROUNDS} updates of {K} MNIST-sized samples, fully connected network"
    return [
        compare(
            "fidel", work, "seconds per measurement", (batched, ROUNDS), (lambda: per_pair(2), 2),
            "one at a time: autograd, scipy.stats.pearsonr per pair", repeats=3,
        ),
        compare(
            "fidel", work, "seconds per measurement", (batched, ROUNDS), (lambda: per_measurement(40), 40),
            "one at a time: autograd, numpy.corrcoef per measurement",
        ),
    ]  # fmt: skip
