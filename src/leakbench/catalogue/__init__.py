"""The catalogue: YAML under config/, validated, resolved into cells. Free of torch, so that parsing is quick."""

from leakbench.catalogue.code import closure, code_digest
from leakbench.catalogue.digest import digest
from leakbench.catalogue.load import find, load_kind, suggest
from leakbench.catalogue.resolve import Cell, Plan, plan

__all__ = ["Cell", "Plan", "closure", "code_digest", "digest", "find", "load_kind", "plan", "suggest"]
