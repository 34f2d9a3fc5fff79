"""Rules that weight clients in federated learning; one file each, found by its name.

A rule's file holds a function of its own name, from a `Report` to weights float64 [clients], and
CROSS_VALIDATES: whether it reads how each client's model does on each client's validation images. Nothing
here needs torch: Snakemake parses this.
"""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from leakbench.errors import UserError
from leakbench.parts import dotted, part


class Report(NamedTuple):
    """What the server knows of one round, in the order of the clients whose updates came.

    samples: images trained on, [clients]. training_loss, training_accuracy [clients]: means over the last
    local epoch, accuracy in [0, 1]. validation_loss, validation_accuracy [clients, splits]: row i is the
    model of client i, column j what it makes of the validation images of client j; None where they were not
    asked for.
    """

    samples: Sequence[int]
    training_loss: np.ndarray
    training_accuracy: np.ndarray
    validation_loss: np.ndarray | None = None
    validation_accuracy: np.ndarray | None = None


Rule = Callable[[Report], np.ndarray]


def cross_validates(module: str) -> bool:
    """Say whether the rule of a file reads the validation of every model by every client."""
    return bool(importlib.import_module(dotted("aggregation", module)).CROSS_VALIDATES)


def build(module: str, parameters: dict[str, Any]) -> Rule:
    """Build the rule whose file is `module`."""
    return partial(part("aggregation", module), **parameters)


def validated(values: np.ndarray | None) -> np.ndarray:
    """Return a matrix [clients, splits] of the report. Raises UserError where it was not measured."""
    if values is None:
        raise UserError(
            "the aggregation needs every model validated by every client (set the training's hold_out)"
        )
    return values


def fused_shares(clients: int, fusion: float) -> list[list[float]]:
    """Return for each client's model the shares of all in what others get to see: `fusion` of its own, the
    rest alike.

    It adds no noise and clips nothing, and is therefore NOT differential privacy, whatever the thesis calls
    it: who knows N such mixtures and p̂ solves N equations for N models. One client alone is not mixed.
    Source: thesis, Eqn 4.5.
    """
    if clients == 1:
        return [[1.0]]
    other = (1 - fusion) / (clients - 1)
    return [[fusion if i == j else other for j in range(clients)] for i in range(clients)]
