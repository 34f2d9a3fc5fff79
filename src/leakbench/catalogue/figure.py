"""The spec of an experiment's figure: its drawings, and the entries that the experiment names."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS
from leakbench.catalogue.cell import Spec
from leakbench.catalogue.entry import FOR_PEOPLE
from leakbench.catalogue.every import every
from leakbench.catalogue.load import file_of, find, load_kind
from leakbench.catalogue.schema import Experiment
from leakbench.catalogue.study import Study


def figure_spec(config: Path, experiment: Experiment, studies: Sequence[Study]) -> Spec:
    """Return the spec of an experiment's figure, without the work and the scale that it belongs to.

    config: the folder of the catalogue.
    experiment: the entry of the experiment.
    studies: the training studies of the experiment.
    """
    return {
        **{key: getattr(experiment, key) for key in ("item", "title", "shows")},
        "figure": [part.model_dump(mode="json") for part in experiment.figure],
        "parts": _parts(config, experiment, studies),
    }


def _parts(config: Path, experiment: Experiment, studies: Sequence[Study]) -> dict[str, list[dict[str, Any]]]:
    """Return kind → the entries that an experiment names, with name, title, summary and values at full size.

    The entries stand in the experiment's own order. Further data sets that its studies use come last. A
    figure takes its order and its labels from these entries, and also how long an attack runs when no scale
    shortens it.
    """
    kinds = {"dataset": "datasets", "victim": "victims", "defence": "defences"}
    kinds |= (
        {"training": "trainings"}
        if experiment.trainings
        else {"federation": "federations", "attack": "attacks"}
    )
    regimes = [(study.dataset, find(config, "trainings", study.training, "")) for study in studies]
    further = [name for own, each in regimes for name in (*each.beside.get(own, ()), *each.tested_on)]
    out = {}
    for column, kind in kinds.items():
        entries = load_kind(config, kind)
        # All that `all` stands for, because a recorded table may have more than this scale runs.
        names: dict[str, None] = {}
        for product in experiment.cells or experiment.trainings or []:
            asked = every(config, kind, getattr(product, column), getattr(product, "but", ()))
            names |= dict.fromkeys(asked)
        names |= dict.fromkeys(further if column == "dataset" else [])
        out[column] = [
            {
                "name": name,
                "title": _title(config, kind, name),
                "summary": getattr(entries[name], "summary", ""),
                "parameters": _values(entries[name]),
            }
            for name in names
        ]
    return out


def _values(entry: BaseModel) -> dict[str, Any]:
    """Return the parameters of a part and of the parts that it is composed of.

    An entry without parameters gives all of its values.
    """
    composed = {name: getattr(entry, name) for name in SECTIONS if hasattr(entry, name)}
    if parameters := getattr(entry, "parameters", None):
        return parameters | composed
    return entry.model_dump(
        mode="json",
        exclude=FOR_PEOPLE | {"module", "parameters", "sources", "sha256", "licence"},
        exclude_none=True,
    )


def _title(config: Path, kind: str, name: str) -> str:
    """Return what figures call an entry: its title with the values filled in, or its name.

    Raises UserError if the title has a brace that no key and no parameter fills.
    """
    entry, file = load_kind(config, kind)[name], file_of(config, kind, name)
    variant = name.removeprefix(file.stem).strip("-").replace("-", " ")
    values = entry.model_dump() | getattr(entry, "parameters", {}) | {"variant": variant}
    try:
        title = getattr(entry, "title", "").format_map(values).strip(" ,")
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as problem:
        raise UserError(f"{file}: title: cannot be filled in for '{name}' ({problem!r})") from problem
    return title or name.replace("-", " ")
