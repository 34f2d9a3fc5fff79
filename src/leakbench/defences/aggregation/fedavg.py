"""Federated averaging: each client weighs as much as it has images."""

import numpy as np

from leakbench.defences.aggregation import Report

CROSS_VALIDATES = False


def fedavg(report: Report) -> np.ndarray:
    """Return weights float64 [clients] in proportion to the numbers of images.

    The weights add up to 1 (McMahan et al., algorithm 1).
    """
    samples = np.asarray(report.samples, float)
    return samples / samples.sum()
