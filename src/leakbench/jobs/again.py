"""Cells or studies of a recorded experiment that are measured again, alone: from what, and the results."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakbench.base.artefacts import Facts
from leakbench.base.errors import UserError
from leakbench.base.numerics import numerics
from leakbench.base.parts import BACKBONES
from leakbench.catalogue.cell import PICTURED, Cell
from leakbench.catalogue.jobs import ScoreSpec, TableSpec
from leakbench.catalogue.resolve import Plan
from leakbench.catalogue.signature import declared_metrics
from leakbench.catalogue.workflow import LPIPS
from leakbench.jobs.record import modules_of
from leakbench.jobs.score import score
from leakbench.results.tables.lines import Tabled
from leakbench.results.tables.of_attacks import of_attacks
from leakbench.results.tables.of_studies import of_studies
from leakbench.results.tables.pictures import Files


def affected(asked: Plan, experiment: str, names: Mapping[str, int]) -> list[str]:
    """Return the path stems of an experiment's cells or studies that follow from files with numerics."""

    spec, verbs = asked.specs[f"table/{experiment}"], ("attack", "capture", "train")
    specs = {stem: list(map(Cell.parse(stem).path, verbs)) for stem in spec.get("cells", [])}
    specs |= {stem: [f"study/{stem}"] for stem in spec.get("studies", [])}
    return [stem for stem, own in specs.items() if names.keys() & numerics(modules_of(asked, own))]


def files_behind(asked: Plan, experiment: str, stems: list[str]) -> list[str]:
    """Return the files, relative to the checkout, from which the results of cells or studies follow."""
    every: Iterable[list[Path]] = _of_studies(asked, stems)
    if not asked.studies[experiment]:
        every = (files for capture in _captures(stems) for files in _files(asked, capture, stems).values())
    return list(dict.fromkeys(str(path) for paths in every for path in paths))


def held(root: Path, files: list[str], mend: str) -> None:
    if missing := [root / name for name in files if not (root / name).is_file()]:
        raise UserError(f"{missing[0]}: missing (run `{mend}`, which makes it first)")


def measured(
    root: Path, asked: Plan, experiment: str, stems: list[str], scores: Path, pictures: bool = False
) -> Tabled:
    """Return the results of cells or studies alone. `scores` is an empty folder for those of captures."""
    table = asked.specs[f"table/{experiment}"]
    if asked.studies[experiment]:
        files, costs = ([root / path for path in paths] for paths in _of_studies(asked, stems))
        return of_studies(TableSpec.model_validate(table | {"studies": stems}), files, costs)
    made = [_scores(root, asked, capture, stems, scores) for capture in _captures(stems)]
    bare = {"cells": stems, "experiment": table["experiment"] | ({} if pictures else {"exhibit": None})}
    shown = [_pictured(root, asked.run, Cell.parse(stem)) for stem in stems if pictures]
    return of_attacks(TableSpec.model_validate(table | bare), made, shown)


def _scores(root: Path, asked: Plan, capture: str, stems: list[str], scores: Path) -> Path:
    """Score the cells of one capture, below the folder `scores`, and return the file."""
    spec, files = asked.specs[f"score/{capture}"], _files(asked, capture, stems)
    found = {kind: [root / path for path in paths] for kind, paths in files.items()}
    if "scores" in found:
        return found["scores"][0]
    out, attacks = scores / f"{capture}.parquet", _attacks(asked, capture, stems)
    out.parent.mkdir(parents=True, exist_ok=True)
    alone = ScoreSpec.model_validate(spec | {"attacks": attacks, "judges": _judges(attacks)})
    (truth,), (data,), (victim, *judges) = (found[kind] for kind in ("truth", "data", "networks"))
    backbones = next(iter(found["backbones"]), None)
    score(found["guesses"], truth, data, victim, alone, out, found["costs"], backbones, judges=judges)
    return out


def _of_studies(asked: Plan, stems: list[str]) -> tuple[list[Path], list[Path]]:
    home = Path("results") / asked.run
    return [home / f"studies/{s}.parquet" for s in stems], [home / f"records/study/{s}.json" for s in stems]


def _pictured(root: Path, run: str, cell: Cell) -> Files:
    home = root / "results" / run
    guesses, truth, victim, data = (Path(f"{cell.path(kind)}.safetensors") for kind in PICTURED)
    return Files(home / guesses, home / truth, home / victim, root / data)


def _captures(cells: list[str]) -> list[str]:
    return list(dict.fromkeys(Cell.parse(cell).capture for cell in cells))


def _attacks(asked: Plan, capture: str, stems: list[str]) -> Facts:
    """Return the entries of those attacks on a capture that are among cells, in the order of its spec."""
    own = {cell.attack for cell in map(Cell.parse, stems) if cell.capture == capture}
    attacks = asked.specs[f"score/{capture}"]["attacks"]
    return {name: entry for name, entry in attacks.items() if name in own}


def _judges(attacks: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(name for entry in attacks.values() for name in entry["judges"]))


def _files(asked: Plan, capture: str, stems: list[str]) -> dict[str, list[Path]]:
    """Return kind → files behind the scores of one capture's cells; guesses in the order of its spec."""
    home, cell = Path("results") / asked.run, Cell.parse(capture)
    if not asked.specs[f"capture/{capture}"]["federation"]["keep"]:
        # Guesses on updates that are not kept are deleted once they are scored.
        return {"scores": [home / f"scores/{capture}.parquet"]}
    attacks = _attacks(asked, capture, stems)
    cells = [replace(cell, attack=name) for name in attacks]
    metrics = {name for entry in attacks.values() for name in entry["metrics"]}
    weights = any(BACKBONES in declared_metrics()[name].needs for name in metrics)
    return {
        "guesses": [home / f"{each.path('guesses')}.safetensors" for each in cells],
        "costs": [home / f"{each.path('records/attack')}.json" for each in cells],
        "truth": [home / f"truth/{capture}.safetensors"],
        "data": [Path(f"{cell.path('data')}.safetensors")],
        "networks": [home / f"{cell.path('victims', name)}.safetensors" for name in ("", *_judges(attacks))],
        "backbones": [Path(f"data/{LPIPS}.safetensors")] if weights else [],
    }
