"""The small catalogue's plan at its quick scale, and those of the real one, each made once."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from project import ROOT

from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.workflow import Workflow

# What refused.yaml and planned.yaml lay their changes upon.
BASES = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())["bases"]
# A paper.yaml for the small catalogue's experiments.
PAPER = {
    "source": "own", "title": "t", "authors": "a", "year": 2024, "link": "l", "claims": "c",
    "threat_model": "t",
}  # fmt: skip
MATCHING: dict[str, Any] = {
    "module": "gradient-matching", "labels": "counted", "objective": "squares", "unknowns": "dummies",
    "optimiser": "adam",
}  # fmt: skip


def laid(*layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return entries with the keys of later layers laid upon those of earlier ones."""
    names = dict.fromkeys(name for layer in layers for name in layer)
    return {name: {k: v for layer in layers for k, v in layer.get(name, {}).items()} for name in names}


def planned(root: Path) -> Plan:
    return plan(root, "quick")


@cache
def real(scale: str) -> Plan:
    """Return the plan of this repository's catalogue at a scale."""
    return plan(ROOT, scale)


@cache
def real_flow(scale: str) -> Workflow:
    """Return what the rules ask at a scale of this repository's catalogue. Do not change it."""
    return Workflow(ROOT, scale)
