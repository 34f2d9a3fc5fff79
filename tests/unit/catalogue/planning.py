"""The small catalogue's plan at its quick scale, and those of the real one, each made once."""

from functools import cache
from pathlib import Path
from typing import Any

from project import ROOT

from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.workflow import Workflow, judges

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


@cache
def real(scale: str) -> Plan:
    """Return the plan of this repository's catalogue at a scale."""
    return plan(ROOT, scale, judges())


@cache
def real_flow(scale: str) -> Workflow:
    """Return what the rules ask at a scale of this repository's catalogue. Do not change it."""
    return Workflow(ROOT, scale)
