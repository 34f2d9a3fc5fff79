"""Experiments × scale → cells and their resolved specs, each spec a file that its rule takes as input."""

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from leakbench.artefacts import to_json, write_text
from leakbench.catalogue.cell import Cell, Spec, check_cell
from leakbench.catalogue.load import file_of, find, load_kind, suggest
from leakbench.catalogue.schema import KINDS, Attack, Dataset, Experiment, Federation, Scale, Victim
from leakbench.errors import UserError


@dataclass
class Plan:
    """Everything that one scale asks for: `specs` maps a path below results/<scale>/specs to its content."""

    scale: str
    experiments: dict[str, list[Cell]]
    definitions: dict[str, Experiment]
    specs: dict[str, Spec] = field(default_factory=dict)

    @cached_property
    def cells(self) -> list[Cell]:
        """Return every cell once, sorted."""
        return sorted({cell for cells in self.experiments.values() for cell in cells})

    @property
    def datasets(self) -> list[str]:
        """Return the data sets that some cell uses."""
        return sorted({cell.dataset for cell in self.cells})

    def spec(self, name: str) -> Spec:
        """Return one spec; the name is a path such as train/mnist/fcnn-relu/0."""
        return self.specs[name]

    def write(self, root: Path) -> None:
        """Write every spec whose content changed; an unchanged file keeps its time, so nothing reruns for it."""
        for name, spec in self.specs.items():
            verb, _, rest = name.partition("/")
            # Data sets are the same at every scale, and so is what fetches them.
            specs = (
                root / "data" / "specs" / rest
                if verb == "fetch"
                else root / "results" / self.scale / "specs" / name
            )
            path = specs.with_name(f"{specs.name}.json")
            text = to_json(spec) + "\n"
            if not path.is_file() or path.read_text() != text:
                write_text(path, text)


def capped(kind: str, place: str, name: str, value: Spec, scale: Scale, where: str) -> Spec:
    """Return `value` with the scale's caps on `kind` applied: the smaller of value and cap, the cap where there is none.

    A pattern matches the name, or <place>/<name> if it holds a slash. `place`: the data set; of an attack all that it runs
    on, <data set>/<victim>/<federation>/<defence>.
    """
    out = dict(value)
    for pattern, caps in scale.caps.get(kind, {}).items():
        if not fnmatch.fnmatchcase(f"{place}/{name}" if "/" in pattern else name, pattern):
            continue
        for path, cap in caps.items():
            *parents, last = path.split(".")
            inside = out
            for parent in parents:
                if not isinstance(inside.get(parent), dict):
                    raise UserError(
                        f"{where}: caps.{kind}.{pattern}: '{path}' is no key of {kind[:-1]} '{name}' "
                        f"({suggest(parent, inside)})"
                    )
                inside[parent] = dict(inside[parent])
                inside = inside[parent]
            if last in inside and inside[last] is None:
                inside[last] = int(cap)
            if isinstance(inside.get(last), bool) or not isinstance(inside.get(last), int | float):
                numbers = [key for key, number in inside.items() if type(number) in (int, float)]
                raise UserError(
                    f"{where}: caps.{kind}.{pattern}: '{path}' is no number of {kind[:-1]} '{name}' "
                    f"({suggest(last, numbers)})"
                )
            inside[last] = min(inside[last], type(inside[last])(cap))
    return out


def _entry(config: Path, kind: str, place: str, name: str, where: str, scale: Scale, scale_file: str) -> Spec:
    value = capped(
        kind, place, name, find(config, kind, name, where).model_dump(mode="json"), scale, scale_file
    )
    training = value.get("training")
    if training:
        last = training["epochs"]
        training["checkpoints"] = sorted({*(min(c, last) for c in training["checkpoints"]), last})
    try:
        KINDS[kind].model_validate(value)
    except ValidationError as problem:
        error = problem.errors()[0]
        key = ".".join(map(str, error["loc"]))
        raise UserError(
            f"{scale_file}: caps.{kind}: {key} of '{name}': {error['msg']}, got {error['input']!r} (raise the cap)"
        ) from problem
    value.pop("summary", None)
    return value


def _left_out(scale: Scale, name: str) -> str:
    """Return why a scale leaves out an experiment, or a cell by <experiment>/<stem>; empty if it does not."""
    return next((why for glob, why in scale.left_out.items() if fnmatch.fnmatchcase(name, glob)), "")


def plan(
    root: Path, scale_name: str, metrics: Mapping[str, Sequence[str]], local: frozenset[str] = frozenset()
) -> Plan:
    """Validate the whole catalogue and resolve every experiment at one scale.

    `metrics` are the names that experiments may ask for, with the victims that each asks as judges; `local` the data sets that LEAKBENCH_DATA offers.
    Raises UserError at the first mistake, naming file and key.
    """
    config = root / "config"
    scale_file = f"{config}/scales/{scale_name}.yaml"
    scale = find(config, "scales", scale_name, "--scale")
    assert isinstance(scale, Scale)
    for kind, globs in scale.caps.items():
        if kind not in ("victims", "generators", "federations", "attacks"):
            raise UserError(
                f"{scale_file}: caps.{kind}: no such kind ({suggest(kind, ['victims', 'generators', 'federations', 'attacks'])})"
            )
        for pattern in globs:
            if not fnmatch.filter(load_kind(config, kind), pattern.rpartition("/")[2]):
                raise UserError(
                    f"{scale_file}: caps.{kind}: '{pattern}' matches no {kind[:-1]} (drop or mend it)"
                )
    for pattern in scale.left_out:
        if not fnmatch.filter(load_kind(config, "experiments"), pattern.partition("/")[0]):
            raise UserError(f"{scale_file}: left_out: '{pattern}' matches no experiment (drop or mend it)")
    out = Plan(scale_name, {}, {})
    wanted: dict[Cell, set[str]] = {}
    for name, experiment in load_kind(config, "experiments").items():
        assert isinstance(experiment, Experiment)
        where = f"{config}/experiments/{name}.yaml"
        for metric in experiment.metrics:
            if metric not in metrics:
                raise UserError(f"{where}: metrics: no metric '{metric}' ({suggest(metric, metrics)})")
        if not (root / "notebooks" / f"{experiment.notebook}.ipynb").is_file():
            known = [p.stem for p in (root / "notebooks").glob("*.ipynb")]
            raise UserError(
                f"{where}: notebook: no notebooks/{experiment.notebook}.ipynb ({suggest(experiment.notebook, known)})"
            )
        for table in experiment.printed:
            if not (root / "published" / f"{table}.csv").is_file():
                known = [p.stem for p in (root / "published").glob("*.csv")]
                raise UserError(f"{where}: printed: no published/{table}.csv ({suggest(table, known)})")
        cells: list[Cell] = []
        apart: dict[str, str] = {}
        judges = sorted({judge for metric in experiment.metrics for judge in metrics[metric]})
        reason = _left_out(scale, name)
        for product in experiment.cells:
            for names in itertools.product(
                product.dataset,
                product.victim,
                product.federation,
                product.defence,
                product.attack,
                experiment.seeds,
            ):
                cell = Cell(*names)
                if cell in cells or cell.stem in apart:
                    continue
                told = reason or _left_out(scale, f"{name}/{cell.stem}")
                # What a scale leaves out is checked all the same.
                into = Plan(scale_name, {}, {}) if told else out
                _resolve_cell(into, cell, config, where, scale, scale_file)
                for judge in judges:
                    _resolve_judge(into, cell, judge, config, f"{where}: metrics", scale, scale_file)
                if told:
                    apart[cell.stem] = told
                    continue
                cells.append(cell)
                wanted.setdefault(cell, set()).update(experiment.metrics)
        if experiment.client is not None:
            for cell in cells:
                federation = out.specs[f"capture/{cell.capture}"]["federation"]
                if experiment.client >= len(federation["clients"]):
                    raise UserError(
                        f"{where}: client: {experiment.client} is beyond the {len(federation['clients'])} "
                        f"clients of federation '{cell.federation}' (count from 0)"
                    )
        out.experiments[name] = cells
        out.definitions[name] = experiment
        out.specs[f"table/{name}"] = {
            "experiment": {
                k: v
                for k, v in experiment.model_dump(mode="json").items()
                if k in ("seeds", "metrics", "success", "client", "exhibit")
            },
            "cells": [cell.stem for cell in cells],
            "scale": scale_name,
            "left_out": reason,
            "cells_left_out": {} if reason else apart,
        }
        out.specs[f"figure/{name}"] = {
            **{key: getattr(experiment, key) for key in ("source", "item", "title", "shows")}, "scale": scale_name,
        }  # fmt: skip
    out.specs["scorecard/catalogue"] = described(config)
    for cell, metrics_wanted in wanted.items():
        out.specs[f"score/{cell.stem}"] = {
            "cell": cell.__dict__,
            "metrics": sorted(metrics_wanted),
            "judges": sorted({judge for metric in metrics_wanted for judge in metrics[metric]}),
            "matching": out.specs[f"attack/{cell.stem}"]["attack"]["matching"],
        }
    for name, dataset in load_kind(config, "datasets").items():
        entry = dataset.model_dump(mode="json", exclude={"summary", "licence", "sources"})
        out.specs[f"fetch/{name}"] = {"name": name, **entry, "local": name in local}
    return out


def _resolve_judge(
    out: Plan, cell: Cell, name: str, config: Path, where: str, scale: Scale, scale_file: str
) -> None:
    """Plan the training of a classifier on the cell's data set, whether or not a cell attacks it."""
    entry = _entry(config, "victims", cell.dataset, name, where, scale, scale_file)
    if entry["training"] is None:
        raise UserError(f"{where}: judge '{name}' is not trained (give config/victims a training for it)")
    beside = out.specs[f"train/{cell.dataset}/{cell.victim}/{cell.seed}"]
    out.specs[f"train/{cell.dataset}/{name}/{cell.seed}"] = {**beside, "victim": entry}


def described(config: Path) -> Spec:
    """Return what the scorecard compares with a paper's description: attacks and federations at their full size."""
    attacks, federations = (load_kind(config, kind) for kind in ("attacks", "federations"))
    return {
        "attacks": {
            name: {**entry.parameters, "labels": entry.labels, "generator": entry.generator}
            for name, entry in attacks.items()
            if isinstance(entry, Attack)
        },
        "federations": {
            name: {"lr": entry.local.lr, "rounds": entry.rounds}
            for name, entry in federations.items()
            if isinstance(entry, Federation)
        },
        "images": {
            name: sum(entry.counts.values())
            for name, entry in load_kind(config, "datasets").items()
            if isinstance(entry, Dataset)
        },
        "settled": {
            name: entry.training.settled
            for name, entry in load_kind(config, "victims").items()
            if isinstance(entry, Victim) and entry.training and entry.training.settled
        },
    }


def _resolve_cell(out: Plan, cell: Cell, config: Path, where: str, scale: Scale, scale_file: str) -> None:
    dataset = find(config, "datasets", cell.dataset, where)
    assert isinstance(dataset, Dataset)
    if dataset.shape is None or dataset.classes is None:
        raise UserError(
            f"{where}: dataset '{cell.dataset}' holds no images (choose one with shape and classes)"
        )
    entries = {
        kind: _entry(config, f"{kind}s", place, getattr(cell, kind), where, scale, scale_file)
        for kind, place in {
            "victim": cell.dataset,
            "federation": cell.dataset,
            "defence": cell.dataset,
            # How long an attack takes depends on all of these.
            "attack": cell.capture.rpartition("/")[0],
        }.items()
    }
    generator = entries["attack"]["generator"].get(cell.dataset)
    if generator:
        entries["generator"] = _entry(
            config,
            "generators",
            cell.dataset,
            generator,
            f"{file_of(config, 'attacks', cell.attack)}: generator.{cell.dataset}",
            scale,
            scale_file,
        )
        auxiliary = entries["generator"]["auxiliary"]
        entries["generator"]["auxiliary"] = {**auxiliary, "dataset": auxiliary["dataset"] or cell.dataset}
    trained, asked = entries["victim"]["training"], entries["federation"]["checkpoints"]
    if trained and asked != "last":
        uncapped = find(config, "victims", cell.victim, where).model_dump()["training"]["epochs"]
        entries["federation"]["checkpoints"] = sorted(
            {min(c, trained["epochs"]) if c <= uncapped else c for c in asked}
        )
    check_cell(cell, config, where, entries, dataset)
    images = {"name": cell.dataset, "shape": list(dataset.shape), "classes": dataset.classes}
    network = {key: entries["victim"][key] for key in ("module", "parameters")}
    out.specs[f"train/{cell.dataset}/{cell.victim}/{cell.seed}"] = {
        "victim": entries["victim"], "dataset": images, "seed": cell.seed,
    }  # fmt: skip
    if generator:
        out.specs[f"generator/{cell.dataset}/{cell.victim}/{generator}/{cell.seed}"] = {
            "generator": entries["generator"], "victim": network, "dataset": images, "seed": cell.seed,
        }  # fmt: skip
    out.specs[f"capture/{cell.capture}"] = {
        "federation": entries["federation"], "federation_name": cell.federation, "defence": entries["defence"],
        "victim": network, "dataset": images, "seed": cell.seed,
    }  # fmt: skip
    attack = {**entries["attack"], "generator": generator}
    out.specs[f"attack/{cell.stem}"] = {
        "attack": attack, "attack_name": cell.attack, "null_rounds": scale.null_rounds, "seed": cell.seed,
    }  # fmt: skip
