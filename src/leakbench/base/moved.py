"""Where rooms of version 0.1, and what its documents named, lie now. This file goes with version 0.3."""

import sys
from typing import Any

from leakbench.base.parts import PLACES

# Where it lies now → what kept its name, beside the rooms of parts.
_KEPT = {
    "attacks": "exact matching", "base": "artefacts errors parts pixels progress seeds tensors",
    "base.processes": "workers", "metrics": "scoring", "observations": "flower",
    "papers": "scorecard verdicts", "results": "report tables",
}  # fmt: skip
_MOVED = {
    **PLACES, **{name: f"{to}.{name}" for to, names in _KEPT.items() for name in names.split()},
    "auditing": "audit", "verbs": "jobs", "attacks.observation": "observations.observation",
    "attacks.reconstruction": "observations.reconstruction",
    "attacks.threat_model": "observations.threat_model",
    "matching.unknowns": "attacks.matching.parameterisation", "matching.hidden": "networks.per_trial",
    "matching.layers": "attacks.matching.engines.layers", "records": "datasets.columns",
    "victims.layers": "networks.layers",
}  # fmt: skip


# Without importlib's base class, which loads modules that take longer than a job's own start.
class _Moved:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        top, _, rest = name.partition(".")
        if top != "leakbench":
            return
        parts = rest.split(".")
        for kept in range(len(parts), 0, -1):
            if to := _MOVED.get(".".join(parts[:kept])):
                raise ImportError(f"{name} lies in leakbench.{to} now", name=name)


# Behind all others, so that it is asked for modules that nobody finds.
sys.meta_path.append(_Moved())
