"""The small catalogue's plan at its quick scale."""

from pathlib import Path
from typing import Any

from leakbench.catalogue.resolve import Plan, plan

METRICS: dict[str, tuple[str, ...]] = {"mse": (), "pearson": (), "told": ("v-tanh",), "asked": ("v-raw",)}
MATCHING: dict[str, Any] = {
    "module": "gradient-matching",
    "labels": "counted",
    "objective": "squares",
    "unknowns": "dummies",
    "optimiser": "adam",
}


def capping(caps: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a scale with these caps adds to the catalogue."""
    return {"scales/quick": {"caps": caps}}


def planned(root: Path) -> Plan:
    """Return the plan of the catalogue at `root`."""
    return plan(root, "quick", METRICS)
