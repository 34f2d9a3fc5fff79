"""The specs of what shows results: figures, and the scorecard with the facts that papers/ refer to."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS
from leakbench.catalogue.cell import Spec, Study
from leakbench.catalogue.entry import FOR_PEOPLE
from leakbench.catalogue.load import every, file_of, find, load_kind
from leakbench.catalogue.schema import Experiment
from leakbench.papers.facts import fact_parts


def figure_spec(config: Path, experiment: Experiment, studies: Sequence[Study]) -> Spec:
    """Return the spec of an experiment's figure, without the work and the scale that it belongs to."""
    return {
        **{key: getattr(experiment, key) for key in ("item", "title", "shows")},
        "figure": [part.model_dump(mode="json") for part in experiment.figure],
        "parts": _parts(config, experiment, studies),
    }


def _parts(config: Path, experiment: Experiment, studies: Sequence[Study]) -> dict[str, list[Spec]]:
    """Return kind → the entries that an experiment names, in its own order, with values at full size."""
    own = ("training",) if experiment.trainings else ("federation", "attack")
    regimes = [(study.dataset, find(config, "trainings", study.training, "")) for study in studies]
    further = [name for data, each in regimes for name in (*each.beside.get(data, ()), *each.tested_on)]
    out = {}
    for column in ("dataset", "victim", "defence", *own):
        kind = f"{column}s"
        entries = load_kind(config, kind)
        # All that `all` stands for, because a recorded table may have more than this scale runs.
        names = dict.fromkeys(
            name
            for product in experiment.cells or experiment.trainings or []
            for name in every(config, kind, getattr(product, column), getattr(product, "but", ()))
        ) | dict.fromkeys(further if column == "dataset" else [])
        out[column] = [
            {"name": name, "title": _title(config, kind, name), "summary": entries[name].summary,
             "parameters": _values(entries[name])}
            for name in names
        ]  # fmt: skip
    return out


def _values(entry: BaseModel) -> Spec:
    """Return the parameters of a part and of those that it is composed of, or else all values of an entry."""
    if parameters := getattr(entry, "parameters", None):
        return parameters | {name: getattr(entry, name) for name in SECTIONS if hasattr(entry, name)}
    apart = FOR_PEOPLE | {"module", "parameters", "sources", "sha256", "licence"}
    return entry.model_dump(mode="json", exclude=apart, exclude_none=True)


def _title(config: Path, kind: str, name: str) -> str:
    """Return what figures call an entry: its title with the values filled in, or its name."""
    entry, file = load_kind(config, kind)[name], file_of(config, kind, name)
    variant = name.removeprefix(file.stem).strip("-").replace("-", " ")
    variant = re.sub("(^| )oracle$", ", labels given", variant)
    values = entry.model_dump() | getattr(entry, "parameters", {}) | {"variant": variant}
    try:
        title = getattr(entry, "title", "").format_map(values).replace(" ,", ",").strip(" ,")
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as problem:
        raise UserError(f"{file}: title: cannot be filled in for '{name}' ({problem!r})") from problem
    return title or name.replace("-", " ")


# Where the file of a fact lies: first word of the fact's path → folder below results/<run>, and suffix.
FACTS = {"run": ("specs/", "json"), "cost": ("records/", "json"), "network": ("", "safetensors")}
NETWORKS = {"victims": "train", "generators": "generator"}


def described(config: Path) -> Spec:
    """Return what the catalogue says of attacks, defences and so on at full size, by kind and name."""

    composed = (*SECTIONS, "labels", "generator")

    def each(kind: str, value: Callable[[Any], Any]) -> Spec:
        found = {name: value(entry) for name, entry in load_kind(config, kind).items()}
        return {name: each for name, each in found.items() if each is not None}

    return {
        "attacks": each("attacks", lambda it: it.parameters | {key: getattr(it, key) for key in composed}),
        "defences": each("defences", lambda it: it.parameters),
        "federations": each("federations", lambda it: {"lr": it.local.lr, "rounds": it.rounds}),
        "networks": each("victims", lambda it: {"module": it.module, "parameters": it.parameters}),
        "images": each("datasets", lambda it: sum(it.counts.values())),
        "splits": each("datasets", lambda it: it.counts if it.labels == "words" else None),
        "settled": each("victims", lambda it: it.training and it.training.settled),
    }


def fact_files(run: str, specs: Iterable[str], papers: Path) -> dict[str, str]:
    """Return file part of a fact's path → the file of a run that holds the fact, for all facts of papers/."""
    files = (path for kind in ("*.yaml", "*.py") for path in sorted(papers.glob(f"*/{kind}")))
    texts = [path.read_text("utf-8") for path in files]
    seeds: dict[str, int] = {}
    for stem, _, seed in (name.rpartition("/") for name in specs):
        if seed.isdigit():
            seeds[stem] = min(int(seed), seeds.get(stem, int(seed)))
    found = {}
    for part in fact_parts(texts):
        first, _, stem = part.partition(".")
        kind, _, rest = stem.partition("/" if first == "network" else ".")
        own = f"{NETWORKS.get(kind, kind)}/{rest}"
        if own in seeds:
            folder, suffix = FACTS[first]
            found[part] = f"results/{run}/{folder}{kind}/{rest}/{seeds[own]}.{suffix}"
    return found
