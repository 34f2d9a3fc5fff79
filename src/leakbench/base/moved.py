"""Where rooms of version 0.1, and what its documents named, lie now. This file goes with version 0.3."""

import sys
from typing import Any

_MOVED = {
    "adaptive": "attacks.adaptive",
    "aggregation": "defences.aggregation",
    "auditing": "audit",
    "detectors": "federation.detectors",
    "drawing": "results.figures",
    "encryption": "defences.encryption",
    "epochs": "attacks.matching.epochs",
    "exact": "attacks.exact",
    "generators": "networks.generators",
    "labels": "attacks.label_inference",
    "matching": "attacks.matching",
    "objectives": "attacks.matching.objectives",
    "optimisers": "attacks.matching.optimisers",
    "report": "results.report",
    "scorecard": "papers.scorecard",
    "scoring": "metrics.scoring",
    "servers": "federation.servers",
    "tables": "results.tables",
    "tasks": "networks.tasks",
    "training": "federation.training",
    "unknowns": "attacks.matching.unknowns",
    "verbs": "jobs",
    "verdicts": "papers.verdicts",
    "victims": "networks.victims",
    "artefacts": "base.artefacts",
    "attacks.observation": "observations.observation",
    "attacks.reconstruction": "observations.reconstruction",
    "attacks.threat_model": "observations.threat_model",
    "errors": "base.errors",
    "flower": "observations.flower",
    "matching.unknowns": "attacks.matching.parameterisation",
    "matching.hidden": "networks.per_trial",
    "matching.layers": "attacks.matching.engines.layers",
    "parts": "base.parts",
    "pixels": "base.pixels",
    "progress": "base.progress",
    "records": "datasets.columns",
    "seeds": "base.seeds",
    "tensors": "base.tensors",
    "victims.layers": "networks.layers",
    "workers": "base.processes.workers",
}


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
