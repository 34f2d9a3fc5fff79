"""Cells of a recorded experiment that are measured again, alone: which, from what files, and the results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakbench.base.needs import BACKBONES
from leakbench.base.numerics import numerics
from leakbench.catalogue.cell import capture_of
from leakbench.catalogue.jobs import ScoreSpec, TableSpec
from leakbench.catalogue.resolve import Plan
from leakbench.catalogue.signature import declared_metrics
from leakbench.catalogue.workflow import LPIPS
from leakbench.jobs.record import modules_of
from leakbench.jobs.score import score
from leakbench.results.tables.found import Found
from leakbench.results.tables.of_attacks import of_attacks


def affected(asked: Plan, experiment: str, names: Mapping[str, int]) -> list[str]:
    """Return the path stems of an experiment's cells that follow from files with numerics.

    names: the names of these files.
    """

    def behind(cell: str) -> list[str]:
        dataset, victim, *_, seed = cell.split("/")
        return [f"attack/{cell}", f"capture/{capture_of(cell)}", f"train/{dataset}/{victim}/{seed}"]

    cells = asked.spec(f"table/{experiment}").get("cells", [])
    return [cell for cell in cells if names.keys() & numerics(modules_of(asked, behind(cell)))]


def files_behind(asked: Plan, cells: list[str]) -> list[str]:
    """Return the files from which the scores of cells follow, relative to the checkout."""
    every = (path for capture in _captures(cells) for path in _files(asked, capture, cells).values())
    return list(dict.fromkeys(str(path) for paths in every for path in paths))


def measured(root: Path, asked: Plan, experiment: str, cells: list[str], scores: Path) -> Found:
    """Return the results of cells alone, without pictures.

    root: the checkout.
    asked: the plan of the run.
    experiment: the name of the experiment to which the cells belong.
    cells: their path stems. What `files_behind` names of them is there.
    scores: an empty folder, for the scores of each capture.
    """
    made = []
    for capture in _captures(cells):
        spec, files = asked.spec(f"score/{capture}"), _files(asked, capture, cells)
        out = scores / f"{capture}.parquet"
        own = {cell.split("/")[-2] for cell in cells if capture_of(cell) == capture}
        attacks = {name: entry for name, entry in spec["attacks"].items() if name in own}
        out.parent.mkdir(parents=True, exist_ok=True)
        alone = ScoreSpec.model_validate(spec | {"attacks": attacks, "judges": _judges(attacks)})
        (truth,), (data,), (victim, *judges) = (
            [root / path for path in files[kind]] for kind in ("truth", "data", "networks")
        )
        guesses, costs = ([root / path for path in files[kind]] for kind in ("guesses", "costs"))
        backbones = next((root / path for path in files["backbones"]), None)
        score(guesses, truth, data, victim, alone, out, costs, backbones, judges=judges)
        made.append(out)
    table = asked.spec(f"table/{experiment}")
    bare = {"cells": cells, "experiment": table["experiment"] | {"exhibit": None}}
    return of_attacks(TableSpec.model_validate(table | bare), made, [])


def _captures(cells: list[str]) -> list[str]:
    return list(dict.fromkeys(map(capture_of, cells)))


def _judges(attacks: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for entry in attacks.values() for name in entry["judges"]))


def _files(asked: Plan, capture: str, cells: list[str]) -> dict[str, list[Path]]:
    """Return kind → files behind the scores of one capture's cells; guesses in the order of its spec."""
    home, (dataset, victim, *_, seed) = Path("results") / asked.run, capture.split("/")
    own = {cell.split("/")[-2]: cell for cell in cells if capture_of(cell) == capture}
    attacks = {
        name: entry for name, entry in asked.spec(f"score/{capture}")["attacks"].items() if name in own
    }
    stems = [own[name] for name in attacks]
    metrics = {name for entry in attacks.values() for name in entry["metrics"]}
    weights = any(BACKBONES in declared_metrics()[name].needs for name in metrics)
    return {
        "guesses": [home / f"guesses/{stem}.safetensors" for stem in stems],
        "costs": [home / f"records/attack/{stem}.json" for stem in stems],
        "truth": [home / f"truth/{capture}.safetensors"],
        "data": [Path(f"data/{dataset}.safetensors")],
        "networks": [home / f"victims/{dataset}/{n}/{seed}.safetensors" for n in (victim, *_judges(attacks))],
        "backbones": [Path(f"data/{LPIPS}.safetensors")] if weights else [],
    }
