"""The plan of a run: the cells of all experiments at a scale, and the resolved specs that rules take in."""

import fnmatch
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path

from leakbench.base.artefacts import to_json
from leakbench.base.errors import UserError
from leakbench.base.yamls import LARGEST_SEED, suggest
from leakbench.catalogue.budget import LIMITS, Ask, counted, paid, shares_of
from leakbench.catalogue.cell import Cell, Spec, Study
from leakbench.catalogue.entry import FOR_PEOPLE, Sized, Sizes, run_name, sized
from leakbench.catalogue.experiment import Budget
from leakbench.catalogue.job_specs import cell_specs, decays, further, judge_spec, pointless, study_spec
from leakbench.catalogue.jobs import TableSpec
from leakbench.catalogue.load import every, file_of, find, load_kind, stems
from leakbench.catalogue.schema import Experiment
from leakbench.catalogue.shown import described, fact_files, figure_spec
from leakbench.catalogue.signature import declared_metrics
from leakbench.papers.work import read_paper


@dataclass
class Plan:
    run: str  # the scale's name, followed by the seed if the run has other seeds than the experiments name
    experiments: dict[str, list[Cell]]  # experiment → its cells that run
    definitions: dict[str, Experiment]
    # Path below results/<run>/specs, without suffix, such as train/mnist/fcnn-relu/0 → the spec.
    specs: dict[str, Spec] = field(default_factory=dict)
    studies: dict[str, list[Study]] = field(default_factory=dict)  # experiment → its studies that run

    @cached_property
    def cells(self) -> list[Cell]:
        return sorted({cell for cells in self.experiments.values() for cell in cells})

    @property
    def datasets(self) -> list[str]:
        studies = [study for each in self.studies.values() for study in each]
        beside = {name for study in studies for name in further(self.specs[f"study/{study.stem}"])}
        own = {cell.dataset for cell in self.cells} | {study.dataset for study in studies}
        return sorted(own | beside)

    def generator(self, stem: str) -> str:
        """Return the name of the spec of the generator that a cell's attack takes, or ""."""
        name = self.specs[f"attack/{stem}"]["attack"]["generator"]
        return next((path for path in Cell.parse(stem).served(name) if path in self.specs), "")

    def cells_of(self, experiment: str) -> list[Cell]:
        """Return the cells of an experiment. Raises UserError with the nearest name if it is unknown."""
        if experiment not in self.experiments:
            raise UserError(f"no experiment '{experiment}' ({suggest(experiment, self.experiments)})")
        return self.experiments[experiment]

    @property
    def unmeasured(self) -> list[str]:
        return sorted(name for name, cells in self.experiments.items() if not (cells or self.studies[name]))

    def needed(self, experiment: str) -> set[str]:
        """Return the specs of all jobs that an experiment needs, without its tables and figures."""
        return self._behind(experiment, self.experiments[experiment])

    def run_for(self, experiment: str) -> set[str]:
        """Return what `needed` does, and the other attacks on the captures: they are scored together."""
        captures = {cell.capture for cell in self.experiments[experiment]}
        return self._behind(experiment, [cell for cell in self.cells if cell.capture in captures])

    def _behind(self, experiment: str, cells: Sequence[Cell]) -> set[str]:
        names = {f"study/{s.stem}" for s in self.studies[experiment]}
        for cell in cells:
            judges = self.specs[cell.path("score")]["judges"]
            names |= {cell.path("attack"), cell.path("capture"), self.generator(cell.stem)}
            names |= {cell.path("train", name) for name in ("", *judges)}
        return names & self.specs.keys()

    @property
    def texts(self) -> dict[str, str]:
        """Return the file of each spec, relative to the checkout → its text."""
        texts = {}
        for name, spec in self.specs.items():
            verb, _, rest = name.partition("/")
            # Data sets are the same at every scale, and so are the specs that fetch them.
            place = f"data/specs/{rest}" if verb == "fetch" else f"results/{self.run}/specs/{name}"
            # Axes and legends keep the order in which a figure's YAML lists their values.
            text = json.dumps(spec, ensure_ascii=False, indent=1) if verb == "figure" else to_json(spec)
            texts[f"{place}.json"] = text + "\n"
        return texts


def plan(
    root: Path, scale: str, local: frozenset[str] = frozenset(), seed: int | None = None,
    only: Sequence[str] = (),
) -> Plan:  # fmt: skip
    """Validate the whole catalogue and resolve every experiment at one scale."""
    config = root / "config"
    _check_readable(root / "papers")
    at = replace(sized(config, scale), seed=seed or 0)
    known = load_kind(config, "experiments")
    if unknown := next((name for name in only if name not in known), ""):
        raise UserError(f"--config only: no experiment '{unknown}' ({suggest(unknown, known)})")
    _check_patterns(at, known)
    if at.scale.budget:
        at = replace(at, sizes=_bought(at, at.scale.budget))
    at = replace(at, only=frozenset(only))
    out, wanted = Plan(run_name(scale, seed), {}, {}), dict[Cell, set[str]]()
    for name, experiment in known.items():
        _plan(name, experiment, at, out, wanted)
    for cell in out.cells:
        own = {name: value for name, value in vars(cell).items() if name != "attack"}
        spec = out.specs.setdefault(cell.path("score"), {"cell": own, "attacks": {}, "judges": []})
        judges = _judges(wanted[cell])
        attack = out.specs[cell.path("attack")]["attack"]
        spec["judges"] = sorted({*spec["judges"], *judges})
        spec["attacks"][cell.attack] = {
            "metrics": sorted(wanted[cell]), "judges": judges, "matching": attack["matching"],
            "decays": decays(attack),
        }  # fmt: skip
    for name, dataset in load_kind(config, "datasets").items():
        entry = dataset.model_dump(mode="json", exclude=FOR_PEOPLE | {"licence", "labels"})
        out.specs[f"fetch/{name}"] = {"name": name, **entry, "local": name in local}
    tables = {name: TableSpec.model_construct(**out.specs[f"table/{name}"]) for name in out.unmeasured}
    out.specs["scorecard/catalogue"] = described(config) | {
        "run": {"scale": at.name}, "files": fact_files(out.run, out.specs, root / "papers"),
        "left_out": {name: table.reasons for name, table in tables.items()},
    }  # fmt: skip
    return out


def _bought(at: Sized, budget: Budget) -> Sizes:
    """Return what the budget of a scale pays for, of all that experiments ask for at its published size."""
    config, specs, asks = at.config, dict[str, Spec](), list[Ask]()
    experiments = load_kind(config, "experiments")
    for name, experiment in experiments.items():
        for job, own, networks, reason in _asked(name, experiment, at):
            if not reason:
                specs |= own
                asks.append(Ask(name, job, networks))
    read = cache(read_paper)
    papers = {n: paper for n in experiments if (paper := read(file_of(config, "experiments", n).parents[1]))}
    rare = {name for paper in papers.values() for name in paper.stand_ins}
    rare |= {name for name, entry in load_kind(config, "datasets").items() if not entry.fetched}
    sizes = paid(at.name, budget, asks, specs, papers, counted(config), rare, experiments)
    if asks and len(sizes.left_out) == len(asks):
        # The last limit that a cell met is the one to raise: that cell met all others.
        key = max(sizes.short, key=LIMITS.index)
        raise UserError(f"{at.file}: budget.{key}: pays for no cell (raise it)")
    return sizes


def _judges(metrics: Iterable[str]) -> list[str]:
    return sorted({judge for metric in metrics for judge in declared_metrics()[metric].judges})


def _asked(
    name: str, experiment: Experiment, at: Sized
) -> Iterator[tuple[Cell | Study, dict[str, Spec], tuple[str, ...], str]]:
    """Yield each job of an experiment: its specs, the networks among them, and why it is left out, or ""."""
    where, metrics = str(file_of(at.config, "experiments", name)), experiment.metrics or []
    if (raised := max(experiment.seeds) + at.seed) > LARGEST_SEED:
        raise UserError(f"{where}: seeds: raised by {at.seed}, {raised} is beyond {LARGEST_SEED} (lower it)")
    for metric in metrics:
        if metric not in (known := declared_metrics()):
            raise UserError(f"{where}: metrics: no metric '{metric}' ({suggest(metric, known)})")
    judges, whole = _judges(metrics), at.left_out(name)
    for job in dict.fromkeys(_jobs(experiment, at.config, where, at.seed)):
        reason = whole or at.left_out(f"{name}/{job.stem}")
        # A job that is left out is checked too.
        if isinstance(job, Study):
            yield job, {f"study/{job.stem}": study_spec(job, at, where)}, (), reason
            continue
        specs, networks = cell_specs(job, at, where)
        for judge in judges:
            specs |= judge_spec(job, judge, at, f"{where}: metrics", specs)
        networks += tuple(job.path("train", judge) for judge in judges)
        reason = reason or pointless(specs[job.path("attack")], specs[job.path("capture")])
        yield job, specs, networks, reason


def _plan(name: str, experiment: Experiment, at: Sized, out: Plan, wanted: dict[Cell, set[str]]) -> None:
    """Add the jobs, the table and the figure of an experiment to a plan, and its metrics to `wanted`."""
    cells, studies, apart = list[Cell](), list[Study](), dict[str, str]()
    for job, specs, _, reason in _asked(name, experiment, at):
        if reason:
            apart[job.stem] = reason
            continue
        out.specs |= specs
        if isinstance(job, Study):
            studies.append(job)
        else:
            cells.append(job)
            wanted.setdefault(job, set()).update(experiment.metrics or [])
    config, whole = at.config, at.left_out(name)
    where = str(file_of(config, "experiments", name))
    _check_client(experiment.client or 0, cells, out, where)
    out.studies[name], out.experiments[name], out.definitions[name] = studies, cells, experiment
    shown = experiment.model_dump(mode="json", include={"metrics", "success", "client", "exhibit"})
    out.specs[f"table/{name}"] = {
        "experiment": shown | {"seeds": [each + at.seed for each in experiment.seeds]},
        "cells": [cell.stem for cell in cells], "scale": at.name,
        "left_out": whole, "cells_left_out": {} if whole else apart,
        "shares": shares_of(config, out.specs, cells, studies),
        **({"studies": [study.stem for study in studies]} if experiment.trainings else {}),
    }  # fmt: skip
    for part in experiment.figure:
        for other in (part.model_extra or {}).get("beside", ()):
            find(config, "experiments", other, f"{where}: figure.beside")
    beside = {"work": Path(where).parents[1].name, "scale": at.name}
    out.specs[f"figure/{name}"] = figure_spec(config, experiment, studies) | beside


def _jobs(experiment: Experiment, config: Path, where: str, seed: int = 0) -> Iterator[Cell | Study]:
    """Yield the cells or studies that an experiment asks for. One that it names twice is yielded twice."""
    seeds = [each + seed for each in experiment.seeds]
    for cells in experiment.cells or []:
        # A name that no file has would leave nothing out.
        known = (*stems(config, "defences"), *stems(config, "attacks"))
        if unknown := next((name for name in cells.but if name not in known), ""):
            what = f"is no file of a defence or attack ({suggest(unknown, known)})"
            raise UserError(f"{where}: but: '{unknown}' {what}")
        defences = every(config, "defences", cells.defence, cells.but)
        attacks = every(config, "attacks", cells.attack, cells.but)
        names = (cells.dataset, cells.victim, cells.federation, defences, attacks, seeds)
        yield from itertools.starmap(Cell, itertools.product(*names))
    for studies in experiment.trainings or []:
        of = (studies.dataset, studies.victim, studies.training, studies.defence, seeds)
        yield from itertools.starmap(Study, itertools.product(*of))


def _check_readable(papers: Path) -> None:
    """Raise UserError for a folder that may not be listed, as its experiments would be missing silently."""
    for folder in (papers, *papers.glob("*/"), *papers.glob("*/experiments/")):
        if folder.exists() and not os.access(folder, os.R_OK | os.X_OK):
            raise UserError(f"{folder}: may not be read (make the folder readable)")


def _check_patterns(at: Sized, experiments: Mapping[str, Experiment]) -> None:
    """Raise UserError for a pattern of a scale that matches no cell and no study of the catalogue."""
    files = {name: str(file_of(at.config, "experiments", name)) for name in experiments}
    stems = {n: [job.stem for job in _jobs(each, at.config, files[n])] for n, each in experiments.items()}
    # Key of a file, pattern, its part about jobs and reason → experiments. Variants inherit patterns.
    told: dict[tuple[str, str, str, str], list[str]] = {}
    for pattern, why in at.scale.left_out.items():
        of, _, job = pattern.partition("/")
        told[f"{at.file}: left_out", pattern, job or "*", why] = fnmatch.filter(experiments, of)
    for name, experiment in experiments.items():
        for scale in (*experiment.first, *experiment.left_out):
            find(at.config, "scales", scale, f"{files[name]}: first, left_out")
        for scale, out in experiment.left_out.items():
            for job, why in out.items():
                told.setdefault((f"{files[name]}: left_out.{scale}", job, job, why), []).append(name)
    for (key, pattern, job, why), asking in told.items():
        if not why.strip():
            raise UserError(f"{key}: '{pattern}' has no reason (say why, in words for tables)")
        if not any(fnmatch.filter(stems[name], job) for name in asking):
            what = "cell" if asking else "experiment"
            raise UserError(f"{key}: '{pattern}' matches no {what} (drop or mend it)")
    for pattern in at.scale.apart:
        if not any(fnmatch.filter(each, f"{pattern}/*/*") for each in stems.values()):
            raise UserError(f"{at.file}: apart: '{pattern}' matches no cell (drop or mend it)")


def _check_client(client: int, cells: Sequence[Cell], out: Plan, where: str) -> None:
    for cell in cells:
        clients = out.specs[cell.path("capture")]["federation"]["clients"]
        if client >= len(clients):
            raise UserError(
                f"{where}: client: {client} is beyond the {len(clients)} clients of federation "
                f"'{cell.federation}' (count from 0)"
            )
