"""Where modules of version 0.1 lie now: an import by an old path says so. This file goes with version 0.3."""

import sys
from importlib.abc import MetaPathFinder
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
    "absence": "base.missing",
    "arguments": "jobs.arguments",
    "artefacts": "base.artefacts",
    "attacks.observation": "observations.observation",
    "attacks.observation_facts": "observations.facts",
    "attacks.reconstruction": "observations.reconstruction",
    "attacks.threat_model": "observations.threat_model",
    "blinding": "base.processes.blinding",
    "by_name": "jobs.python",
    "catalogue.code": "base.code",
    "catalogue.digest": "base.digest",
    "cells": "base.cellname",
    "certificate": "defences.certification",
    "cli": "jobs.cli",
    "core_time": "base.core_time",
    "entries": "papers.leaderboard",
    "errors": "base.errors",
    "flower": "observations.flower",
    "gpu_lease": "base.processes.gpu_lease",
    "matching.agreement": "attacks.matching.engines.agreement",
    "matching.batch_statistics": "networks.batch_statistics",
    "matching.chain": "attacks.matching.engines.chain",
    "matching.fixed_convolution": "attacks.matching.engines.fixed_convolution",
    "matching.frozen": "attacks.matching.engines.frozen",
    "matching.gradient_products": "attacks.matching.engines.gradient_products",
    "matching.gradients": "attacks.matching.engines.gradients",
    "matching.unknowns": "attacks.matching.parameterisation",
    "matching.hidden": "networks.per_trial",
    "matching.layers": "attacks.matching.engines.layers",
    "matching.own_gradient": "attacks.matching.engines.own_gradient",
    "matching.own_products": "attacks.matching.engines.own_products",
    "matching.plain": "attacks.matching.engines.plain",
    "matching.products": "attacks.matching.engines.products",
    "matching.shared_weights": "attacks.matching.engines.shared_weights",
    "matching.tape": "attacks.matching.engines.tape",
    "matching.upsampling_block": "attacks.matching.engines.upsampling_block",
    "parser": "jobs.parser",
    "parts": "base.parts",
    "pixels": "base.pixels",
    "process": "base.processes.process",
    "progress": "base.progress",
    "provenance": "base.provenance",
    "records": "datasets.columns",
    "reference": "papers.reference",
    "rounds": "observations.rounds",
    "seeds": "base.seeds",
    "speed": "jobs.speed",
    "tensors": "base.tensors",
    "victims.layers": "networks.layers",
    "warm": "base.processes.warm",
    "warm_process": "jobs.warm_process",
    "watching": "federation.watching",
    "whole": "base.whole",
    "workers": "base.processes.workers",
    "yamls": "base.yamls",
}


class _Moved(MetaPathFinder):
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
