"""Federations over sixty labels, as the catalogue would have them."""

from typing import Any

import numpy as np

from leakbench.catalogue.schema import Federation

LABELS = np.random.default_rng(0).integers(0, 5, 60)


def federation(**values: Any) -> dict[str, Any]:
    """Return a federation whose private samples are 20 to 49, with `values` for its other keys."""
    base = {"summary": "", "private": {"split": "test", "start": 20, "stop": 50}, "local": {"lr": 0.2}}
    return Federation.model_validate(base | values).model_dump()
