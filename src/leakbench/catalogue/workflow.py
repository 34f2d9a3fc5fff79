"""What the Snakefile asks of the catalogue; every answer is a path or a list of paths."""

import ast
import os
from functools import cache
from pathlib import Path

from leakbench.catalogue.code import PACKAGE, closure
from leakbench.catalogue.resolve import Plan, plan

LPIPS = "lpips-backbones"
_NAMES = ("dataset", "victim", "federation", "defence", "attack", "generator", "experiment")


@cache
def metric_needs() -> dict[str, bool]:
    """Return the names that the metric files declare and whether each needs the LPIPS backbones, read from the source."""
    found: dict[str, bool] = {}
    for path in (PACKAGE / "metrics").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Metric" and node.args:
                name = ast.literal_eval(node.args[0])
                found[name] = any(k.arg == "needs" for k in node.keywords) or len(node.args) > 4
    return found


def local_datasets(root: Path) -> frozenset[str]:
    """Return the data sets that a folder of LEAKBENCH_DATA offers; a change of the answer fetches them again."""
    if not os.environ.get("LEAKBENCH_DATA"):
        return frozenset()
    from leakbench.datasets import available

    search = [Path(part) for part in os.environ["LEAKBENCH_DATA"].split(":") if part]
    names = [path.stem for path in (root / "config" / "datasets").glob("*.yaml")]
    return frozenset(name for name in names if available(name, search))


class Workflow:
    """The plan of one scale, as the rules need it."""

    def __init__(self, root: Path, scale: str) -> None:
        self.root, self.scale = root, scale
        self.plan: Plan = plan(root, scale, frozenset(metric_needs()), local_datasets(root))
        self.plan.write(root)
        self.results = f"results/{scale}"
        self.constraints = dict.fromkeys(_NAMES, "[^/]+") | {"seed": "[0-9]+"}

    def code(self, verb: str, **parts: str) -> list[str]:
        """Return the source files that a verb with these parts depends on, relative to the root if they are below it."""
        modules = [f"leakbench.verbs.{verb}", *(f"leakbench.{room}.{name.replace('-', '_')}" for room, name in parts.items())]
        return [os.path.relpath(path, self.root) if path.is_relative_to(self.root) else str(path) for path in closure(*modules)]

    def module(self, spec: str, part: str) -> str:
        """Return the module of `part` in the spec of that name."""
        return self.plan.spec(spec)[part]["module"]

    def bulky(self, keep: bool) -> str:
        """Return a regular expression of the federations whose updates are kept (or are not)."""
        names = sorted(
            {c.federation for c in self.plan.cells if self.plan.spec(f"capture/{c.capture}")["federation"]["keep"] is keep}
        )
        return "|".join(name.replace(".", r"\.") for name in names) or "(?!)"

    def generator(self, stem: str) -> list[str]:
        """Return the generator's file that the cell `stem` needs, if any."""
        dataset, victim, *_, seed = stem.split("/")
        name = self.plan.spec(f"attack/{stem}")["attack"]["generator"]
        return [f"{self.results}/generators/{dataset}/{victim}/{name}/{seed}.safetensors"] if name else []

    def backbones(self, stem: str) -> list[str]:
        """Return the LPIPS weights if the cell's metrics need them."""
        needs = metric_needs()
        return [f"data/{LPIPS}.safetensors"] if any(needs[m] for m in self.plan.spec(f"score/{stem}")["metrics"]) else []

    def scores(self, experiment: str) -> list[str]:
        """Return the score files of an experiment."""
        return [f"{self.results}/scores/{cell.stem}.parquet" for cell in self.plan.experiments[experiment]]

    def pictured(self, experiment: str) -> list[str]:
        """Return the guesses, truths, victims and data that an experiment's pictures are taken from."""
        if self.plan.definitions[experiment].exhibit is None:
            return []
        paths = []
        for cell in self.plan.experiments[experiment]:
            paths += [
                f"{self.results}/guesses/{cell.stem}.safetensors",
                f"{self.results}/truth/{cell.capture}.safetensors",
                f"{self.results}/victims/{cell.dataset}/{cell.victim}/{cell.seed}.safetensors",
                f"data/{cell.dataset}.safetensors",
            ]
        return sorted(set(paths))

    def networks(self) -> list[str]:
        """Return every trained victim and generator."""
        kinds = {"train": "victims", "generator": "generators"}
        return [
            f"{self.results}/{kinds[name.partition('/')[0]]}/{name.partition('/')[2]}.safetensors"
            for name in sorted(self.plan.specs)
            if name.partition("/")[0] in kinds
        ]

    def each(self, kind: str, suffix: str) -> list[str]:
        """Return one file per experiment, in order of name: tables, exhibits or figures."""
        return [f"{self.results}/{kind}/{name}.{suffix}" for name in sorted(self.plan.experiments)]

    def published(self) -> list[str]:
        """Return the published numbers and claims."""
        return sorted(str(path.relative_to(self.root)) for path in (self.root / "published").glob("*.csv"))

    def drawing(self) -> list[str]:
        """Return the source files that the notebooks draw with."""
        parts = {f"drawing.{path.stem}" for path in (PACKAGE / "drawing").glob("*.py") if path.stem != "__init__"}
        files = {*closure("leakbench.verbs.figure", "leakbench.drawing", *(f"leakbench.{part}" for part in parts))}
        return sorted(os.path.relpath(path, self.root) for path in files)
