"""The metrics: how close a reconstruction is to the private image.

Every image metric compares two batches of images, float [N, C, H, W] in [0, 1], RGB (C = 3) or grey (C = 1),
and returns float64 [N]. A metric file declares its metrics in a tuple `METRICS`. The table below is found by
listing the files of this package, so a metric is added by adding its file. A file imports its library inside
its function, because hundreds of short jobs import this table and few of them use more than one metric.

A metric of the convention "standard" is what the field means by its name. A metric of the convention
"published" repeats, under a name of its own, what the evaluation code of a paper prints under that name. The
two are never compared with each other.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from leakbench.base.errors import UserError
from leakbench.base.yamls import suggest
from leakbench.metrics.metric import Metric


def _declared() -> dict[str, Metric]:
    modules = (
        import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__) if not found.ispkg
    )
    metrics = [metric for module in modules for metric in getattr(module, "METRICS", ())]
    table = {metric.name: metric for metric in metrics}
    if len(table) < len(metrics):
        raise ImportError("two metric files declare the same name")
    return table


METRICS: dict[str, Metric] = _declared()


def measure(
    names: Iterable[str],
    reconstructions: np.ndarray,
    truths: np.ndarray,
    resources: Mapping[str, Any] | None = None,
) -> dict[str, np.ndarray]:
    """Score each reconstruction against its own private image.

    names: the metrics, as `leakbench.known("metrics")` lists them, such as `psnr` and `ssim`.
    reconstructions: float [n, channels, rows, columns] in [0, 1], of 1 or 3 channels.
    truths: the private images, of the same shape and in the same order.
    resources: what some metrics need, by the name in `Metric.needs` (`lpips_backbones`: the tensors of
    data/lpips-backbones.safetensors).

    Returns metric → its scores, float64 [n]. Raises UserError for an unknown name or a resource that is
    missing.
    """
    resources = resources or {}
    scores = {}
    for name in names:
        if name not in METRICS:
            raise UserError(f"metrics: '{name}' is not a metric ({suggest(str(name), METRICS)})")
        metric = METRICS[name]
        missing = [need for need in metric.needs if need not in resources]
        if missing:
            raise UserError(
                f"metrics: '{name}' needs {', '.join(missing)} (fetch it, or leave the metric out)"
            )
        needed = {need: resources[need] for need in metric.needs}
        scores[name] = metric.function(reconstructions, truths, **needed)
    return scores


__all__ = ["METRICS", "Metric", "measure"]
