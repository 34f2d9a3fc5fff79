"""Experiments × scale → cells and their resolved specs, each spec a file that its rule takes as input."""

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leakbench.artefacts import to_json
from leakbench.catalogue import shares
from leakbench.catalogue.budget import decays
from leakbench.catalogue.cell import ANY_VICTIM, Cell, Spec, check_cell
from leakbench.catalogue.digest import write_changed
from leakbench.catalogue.entry import CAPPED, resolved
from leakbench.catalogue.load import file_of, find, load_kind
from leakbench.catalogue.regime import Regime
from leakbench.catalogue.schema import Attack, Dataset, Defence, Experiment, Federation, Scale, Victim
from leakbench.catalogue.shift import run_name
from leakbench.catalogue.signature import module_file
from leakbench.catalogue.study import Study, datasets_of, study_spec
from leakbench.errors import UserError
from leakbench.papers.facts import named
from leakbench.yamls import suggest


@dataclass
class Plan:
    """Everything that one run asks for: `specs` maps a path below results/<run>/specs to its content.

    run: the scale's name, followed by the seed where the run has other seeds than the experiments name.
    """

    run: str
    experiments: dict[str, list[Cell]]
    definitions: dict[str, Experiment]
    specs: dict[str, Spec] = field(default_factory=dict)
    studies: dict[str, list[Study]] = field(default_factory=dict)

    @cached_property
    def cells(self) -> list[Cell]:
        """Return every cell once, sorted."""
        return sorted({cell for cells in self.experiments.values() for cell in cells})

    @property
    def datasets(self) -> list[str]:
        """Return the data sets that some cell or study uses."""
        studied = {
            name
            for each in self.studies.values()
            for s in each
            for name in datasets_of(self.spec(f"study/{s.stem}"))
        }
        return sorted({cell.dataset for cell in self.cells} | studied)

    def spec(self, name: str) -> Spec:
        """Return one spec; the name is a path such as train/mnist/fcnn-relu/0."""
        return self.specs[name]

    def write(self, root: Path) -> None:
        """Write every spec whose content changed."""
        for name, spec in self.specs.items():
            verb, _, rest = name.partition("/")
            # Data sets are the same at every scale, and so is what fetches them.
            specs = (
                root / "data" / "specs" / rest
                if verb == "fetch"
                else root / "results" / self.run / "specs" / name
            )
            path = specs.with_name(f"{specs.name}.json")
            write_changed(path, to_json(spec) + "\n")


def _left_out(scale: Scale, name: str) -> str:
    """Return why a scale leaves out an experiment, or a cell by <experiment>/<stem>; empty if it does not."""
    return next((why for glob, why in scale.left_out.items() if fnmatch.fnmatchcase(name, glob)), "")


def _every(config: Path, kind: str, names: Sequence[str], but: Sequence[str], where: str) -> tuple[str, ...]:
    """Return `names` with `all` among them replaced by every file of a kind, without those of `but`."""
    files = sorted(path.stem for path in (config / kind).glob("*.yaml"))
    known = [path.stem for each in ("defences", "attacks") for path in (config / each).glob("*.yaml")]
    for name in but:
        if name not in known:
            raise UserError(
                f"{where}: but: '{name}' is no file of a defence or attack ({suggest(name, known)})"
            )
    each = [[other for other in files if other not in but] if name == "all" else [name] for name in names]
    return tuple(dict.fromkeys(itertools.chain.from_iterable(each)))


def plan(
    root: Path, scale_name: str, metrics: Mapping[str, Sequence[str]], local: frozenset[str] = frozenset(),
    seed: int | None = None,
) -> Plan:  # fmt: skip
    """Validate the whole catalogue and resolve every experiment at one scale.

    `metrics` are the names that experiments may ask for, with the victims that each asks as judges; `local`
    the data sets that LEAKBENCH_DATA offers; `seed` is added to every seed that the experiments name, so that
    lists of seeds stay lists of different ones. Raises UserError at the first mistake, naming file and key.
    """
    config = root / "config"
    scale_file = f"{config}/scales/{scale_name}.yaml"
    scale = find(config, "scales", scale_name, "--scale")
    assert isinstance(scale, Scale)
    for kind, globs in scale.caps.items():
        if kind not in CAPPED:
            raise UserError(f"{scale_file}: caps.{kind}: no such kind ({suggest(kind, CAPPED)})")
        for pattern in globs:
            if not fnmatch.filter(load_kind(config, kind), pattern.rpartition("/")[2]):
                raise UserError(
                    f"{scale_file}: caps.{kind}: '{pattern}' matches no {kind[:-1]} (drop or mend it)"
                )
    for pattern in scale.left_out:
        if not fnmatch.filter(load_kind(config, "experiments"), pattern.partition("/")[0]):
            raise UserError(f"{scale_file}: left_out: '{pattern}' matches no experiment (drop or mend it)")
    out = Plan(run_name(scale_name, seed), {}, {})
    wanted: dict[Cell, set[str]] = {}
    for name, experiment in load_kind(config, "experiments").items():
        assert isinstance(experiment, Experiment)
        experiment = experiment.model_copy(update={"seeds": [s + (seed or 0) for s in experiment.seeds]})
        where = str(file_of(config, "experiments", name))
        asked = experiment.metrics or []
        for metric in asked:
            if metric not in metrics:
                raise UserError(f"{where}: metrics: no metric '{metric}' ({suggest(metric, metrics)})")
        cells: list[Cell] = []
        apart: dict[str, str] = {}
        judges = sorted({judge for metric in asked for judge in metrics[metric]})
        reason = _left_out(scale, name)
        for product in experiment.cells or []:
            for names in itertools.product(
                product.dataset,
                product.victim,
                product.federation,
                _every(config, "defences", product.defence, product.but, where),
                _every(config, "attacks", product.attack, product.but, where),
                experiment.seeds,
            ):
                cell = Cell(*names)
                if cell in cells or cell.stem in apart:
                    continue
                told = reason or _left_out(scale, f"{name}/{cell.stem}")
                # What a scale leaves out is checked all the same.
                into = Plan(out.run, {}, {}) if told else out
                _resolve_cell(into, cell, config, where, scale, scale_file)
                for judge in judges:
                    _resolve_judge(into, cell, judge, config, f"{where}: metrics", scale, scale_file)
                if told:
                    apart[cell.stem] = told
                    continue
                cells.append(cell)
                wanted.setdefault(cell, set()).update(asked)
        studies: list[Study] = []
        for products in experiment.trainings or []:
            for chosen in itertools.product(
                products.dataset, products.victim, products.training, products.defence, experiment.seeds
            ):
                study = Study(*chosen)
                if study in studies or study.stem in apart:
                    continue
                spec = study_spec(study, config, where, scale, scale_file)
                if told := reason or _left_out(scale, f"{name}/{study.stem}"):
                    apart[study.stem] = told
                    continue
                studies.append(study)
                out.specs[f"study/{study.stem}"] = spec
        out.studies[name] = studies
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
            "shares": _shares(out, config, cells, studies),
            **({"studies": [study.stem for study in studies]} if experiment.trainings else {}),
        }
        out.specs[f"figure/{name}"] = {
            **{key: getattr(experiment, key) for key in ("item", "title", "shows")},
            "work": Path(where).parents[1].name,
            "scale": scale_name,
            "figure": [part.model_dump(mode="json") for part in experiment.figure],
            "parts": _parts(config, experiment, cells, studies),
        }
    for cell in out.cells:
        spec = out.specs.setdefault(f"score/{cell.capture}", {"attacks": {}, "judges": []})
        judges = sorted({judge for metric in wanted[cell] for judge in metrics[metric]})
        spec["cell"] = {name: value for name, value in vars(cell).items() if name != "attack"}
        spec["judges"] = sorted({*spec["judges"], *judges})
        attack = out.specs[f"attack/{cell.stem}"]["attack"]
        spec["attacks"][cell.attack] = {
            "metrics": sorted(wanted[cell]),
            "judges": judges,
            "matching": attack["matching"],
            "decays": decays(attack["parameters"]),
        }
    for name, dataset in load_kind(config, "datasets").items():
        entry = dataset.model_dump(mode="json", exclude={"summary", "licence", "labels"})
        out.specs[f"fetch/{name}"] = {"name": name, **entry, "local": name in local}
    out.specs["scorecard/catalogue"] = {
        **described(config), "run": {"scale": scale_name}, "files": fact_files(out, root / "papers"),
    }  # fmt: skip
    return out


def _parts(
    config: Path, experiment: Experiment, cells: Sequence[Cell], studies: Sequence[Study]
) -> dict[str, list[dict[str, Any]]]:
    """Return what an experiment names of each kind, in its own order: name, summary and the values at full
    size.

    A figure orders and labels by these, and knows from them how long an attack runs when no scale shortens
    it.
    """
    kinds = {"dataset": "datasets", "victim": "victims", "defence": "defences"}
    kinds |= (
        {"training": "trainings"}
        if experiment.trainings
        else {"federation": "federations", "attack": "attacks"}
    )
    out = {}
    for column, kind in kinds.items():
        entries = load_kind(config, kind)
        named = [
            name
            for product in experiment.cells or experiment.trainings or []
            for name in getattr(product, column)
        ]
        met = sorted({getattr(each, column) for each in (*cells, *studies)})
        # `all` stands for files, which cells name.
        names = dict.fromkeys(name for each in named for name in (met if each == "all" else [each]))
        out[column] = [
            {
                "name": name,
                "summary": getattr(entries[name], "summary", ""),
                "parameters": _values(entries[name]),
            }
            for name in names
        ]
    return out


def _values(entry: BaseModel) -> dict[str, Any]:
    """Return the parameters of a part, or all values of what has none of its own."""
    return getattr(entry, "parameters", None) or entry.model_dump(
        mode="json",
        exclude={"summary", "module", "parameters", "sources", "sha256", "licence"},
        exclude_none=True,
    )


# Where a fact's file lies: first word of its path -> folder below results/<run>, and suffix.
FACTS = {"run": ("specs/", "json"), "cost": ("records/", "json"), "network": ("", "safetensors")}
NETWORKS = {"victims": "train", "generators": "generator"}


def fact_files(out: Plan, papers: Path) -> dict[str, str]:
    """Return, for each path to a fact that papers/ names, the file of this run that holds it.

    Of several seeds the least stands for all: what a fact says of a job depends on none.
    """
    texts = [path.read_text() for kind in ("*.yaml", "*.py") for path in sorted(papers.glob(f"*/{kind}"))]
    found = {}
    for part in named(texts):
        first, _, stem = part.partition(".")
        kind, _, rest = stem.partition("/" if first == "network" else ".")
        own = f"{NETWORKS.get(kind, kind)}/{rest}/"
        seeds = sorted(
            int(name[len(own) :]) for name in out.specs if name.startswith(own) and name[len(own) :].isdigit()
        )
        if seeds:
            folder, suffix = FACTS[first]
            found[part] = f"results/{out.run}/{folder}{kind}/{rest}/{seeds[0]}.{suffix}"
    return found


def _shares(
    out: Plan, config: Path, cells: Sequence[Cell], studies: Sequence[Study]
) -> dict[str, dict[str, float]]:
    """Return by path stem how long a scale trains what cells and studies need, where that is not as long as
    without caps."""
    counts = {
        name: entry.counts.get("train")
        for name, entry in load_kind(config, "datasets").items()
        if isinstance(entry, Dataset)
    }
    found = {}
    for cell in cells:
        victim = out.specs[f"train/{cell.dataset}/{cell.victim}/{cell.seed}"]["victim"]
        generator = out.specs[f"attack/{cell.stem}"]["attack"]["generator"] or ""
        served = (
            f"generator/{cell.dataset}/{of}/{generator}/{cell.seed}" for of in (cell.victim, ANY_VICTIM)
        )
        made = next((out.specs[name]["generator"] for name in served if name in out.specs), None)
        found[cell.stem] = shares.of_cell(config, cell.victim, victim, counts[cell.dataset], generator, made)
    for study in studies:
        training = out.specs[f"study/{study.stem}"]["training"]
        seen = [count for name in (study.dataset, *training["beside"]) if (count := counts[name])]
        found[study.stem] = shares.of_study(config, study.training, training, seen)
    return {stem: share for stem, share in found.items() if share}


def _resolve_judge(
    out: Plan, cell: Cell, name: str, config: Path, where: str, scale: Scale, scale_file: str
) -> None:
    """Plan the training of a classifier on the cell's data set, whether or not a cell attacks it."""
    entry = resolved(config, "victims", cell.dataset, name, where, scale, scale_file)
    if entry["training"] is None:
        raise UserError(f"{where}: judge '{name}' is not trained (give config/victims a training for it)")
    beside = out.specs[f"train/{cell.dataset}/{cell.victim}/{cell.seed}"]
    out.specs[f"train/{cell.dataset}/{name}/{cell.seed}"] = {**beside, "victim": entry}


def described(config: Path) -> Spec:
    """Return what the scorecard compares with a paper's description: attacks, defences, federations, and how
    many models are trained, at their full size.
    """
    attacks, defences, federations = (
        load_kind(config, kind) for kind in ("attacks", "defences", "federations")
    )
    return {
        "attacks": {
            name: {**entry.parameters, "labels": entry.labels, "generator": entry.generator}
            for name, entry in attacks.items()
            if isinstance(entry, Attack)
        },
        "defences": {
            name: entry.parameters for name, entry in defences.items() if isinstance(entry, Defence)
        },
        "studies": {
            name: sum(
                len(each.dataset) * len(each.victim) * len(each.training) * len(each.defence)
                for each in entry.trainings
                # What is trained without a defence alone has no twin.
                if len(each.defence) > 1
            )
            for name, entry in load_kind(config, "experiments").items()
            if isinstance(entry, Experiment) and entry.trainings
        },
        "federations": {
            name: {"lr": entry.local.lr, "rounds": entry.rounds}
            for name, entry in federations.items()
            if isinstance(entry, Federation)
        },
        "networks": {
            name: {"module": entry.module, "parameters": entry.parameters}
            for name, entry in load_kind(config, "victims").items()
            if isinstance(entry, Victim)
        },
        "images": {
            name: sum(entry.counts.values())
            for name, entry in load_kind(config, "datasets").items()
            if isinstance(entry, Dataset)
        },
        "splits": {
            name: entry.counts
            for name, entry in load_kind(config, "datasets").items()
            if isinstance(entry, Dataset) and entry.labels == "words"
        },
        "points": getattr(load_kind(config, "datasets").get("gaussians"), "parameters", {}).get("samples"),
        "trainings": {
            name: {
                "optimiser": entry.optimiser,
                "lr": entry.lr,
                "fusion": entry.fusion,
                "encryption": entry.encryption.parameters if entry.encryption else None,
            }
            for name, entry in load_kind(config, "trainings").items()
            if isinstance(entry, Regime)
        },
        "key_length": getattr(load_kind(config, "defences").get("key-lock"), "parameters", {}).get(
            "key_length"
        ),
        "settled": {
            name: entry.training.settled
            for name, entry in load_kind(config, "victims").items()
            if isinstance(entry, Victim) and entry.training and entry.training.settled
        },
    }


def _resolve_cell(out: Plan, cell: Cell, config: Path, where: str, scale: Scale, scale_file: str) -> None:
    dataset = find(config, "datasets", cell.dataset, where)
    assert isinstance(dataset, Dataset)
    if dataset.shape is None or dataset.classes is None or dataset.labels != "classes":
        raise UserError(
            f"{where}: dataset '{cell.dataset}' holds no images of classes (choose one with shape and "
            "classes, not of words)"
        )
    entries = {
        kind: resolved(config, f"{kind}s", place, getattr(cell, kind), where, scale, scale_file)
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
        entries["generator"] = resolved(
            config,
            "generators",
            cell.dataset,
            generator,
            f"{file_of(config, 'attacks', cell.attack)}: generator.{cell.dataset}",
            scale,
            scale_file,
        )
        auxiliary, weights = (entries["generator"][key] for key in ("auxiliary", "weights"))
        if auxiliary:
            entries["generator"]["auxiliary"] = {**auxiliary, "dataset": auxiliary["dataset"] or cell.dataset}
        if weights:
            find(config, "datasets", weights, f"{file_of(config, 'generators', generator)}: weights")
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
        spec = {"generator": entries["generator"], "dataset": images, "seed": cell.seed}
        served = ANY_VICTIM
        if entries["generator"]["reads"] == "features":
            spec, served = spec | {"victim": network}, cell.victim
        out.specs[f"generator/{cell.dataset}/{served}/{generator}/{cell.seed}"] = spec
    out.specs[f"capture/{cell.capture}"] = {
        "federation": entries["federation"], "federation_name": cell.federation,
        "defence": entries["defence"], "victim": network, "dataset": images, "seed": cell.seed,
    }  # fmt: skip
    attack = {**entries["attack"], "generator": generator}
    known = entries["defence"]["module"]
    adapts = attack["parameters"].get("adapts") and module_file("adaptive", known).is_file()
    out.specs[f"attack/{cell.stem}"] = {
        "attack": attack, "attack_name": cell.attack, "null_rounds": scale.null_rounds, "seed": cell.seed,
        **({"adaptation": {"module": known}} if adapts else {}),
    }  # fmt: skip
