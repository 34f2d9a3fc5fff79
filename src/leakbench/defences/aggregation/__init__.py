"""Rules that weight clients in federated learning, one file each, found by its name.

A file has a function of its name, from a `Report` to weights float64 [clients], and CROSS_VALIDATES: whether
the rule reads how models do on each client's validation images. Snakemake parses this, without torch.
"""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from leakbench.base.errors import UserError
from leakbench.base.parts import dotted, part


class Report(NamedTuple):
    """What the server knows of one round, in the order of the clients whose updates came.

    samples: [clients], the number of images trained on.
    training_loss: [clients], the mean over the last local epoch.
    training_accuracy: [clients], the mean over the last local epoch, in [0, 1].
    validation_loss: [clients, splits], the loss of the model of client i (row) on the validation images of
    client j (column). None where it was not asked for.
    validation_accuracy: [clients, splits], the accuracy in the same order. None where it was not asked for.
    """

    samples: Sequence[int]
    training_loss: np.ndarray
    training_accuracy: np.ndarray
    validation_loss: np.ndarray | None = None
    validation_accuracy: np.ndarray | None = None


Rule = Callable[[Report], np.ndarray]


def cross_validates(module: str) -> bool:
    """Return whether the rule of a file reads the validation of every model by every client."""
    return bool(importlib.import_module(dotted("aggregation", module)).CROSS_VALIDATES)


def build(module: str, parameters: dict[str, Any]) -> Rule:
    return partial(part("aggregation", module), **parameters)


def validated(values: np.ndarray | None) -> np.ndarray:
    """Return `values`, a matrix [clients, splits] of the report."""
    if values is None:
        raise UserError(
            "the aggregation needs every model validated by every client (set the training's hold_out)"
        )
    return values


def fused_shares(clients: int, fusion: float) -> list[list[float]]:
    """Return for each client's model the shares of all models in the mixture that others see (Eqn 4.5).

    Its own share is `fusion`; the others share the rest. This is NOT differential privacy, whatever the
    thesis calls it: who knows N such mixtures and p̂ can solve N equations for N models.
    """
    if clients == 1:
        return [[1.0]]
    other = (1 - fusion) / (clients - 1)
    return [[fusion if i == j else other for j in range(clients)] for i in range(clients)]
