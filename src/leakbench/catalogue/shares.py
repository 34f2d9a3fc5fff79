"""How long a scale trains networks, as a share of the training length that the catalogue states."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.catalogue.cell import Cell, Spec
from leakbench.catalogue.load import find, load_kind
from leakbench.catalogue.study import Study


def of_all(
    config: Path, specs: Mapping[str, Spec], cells: Sequence[Cell], studies: Sequence[Study]
) -> dict[str, dict[str, float]]:
    """Return how long a scale trains the networks of cells and studies, as shares of the length without caps.

    config: the folder of the catalogue.
    specs: name → spec, as the scale has it.
    cells: the cells whose victims and generators are compared.
    studies: the training studies that are compared.

    Returns path stem of a cell or study → what is trained → its share, below 1. Stems without a share below 1
    are left out.
    """
    counts = counted(config)
    found = {}
    for cell in cells:
        victim = specs[cell.path("train")]["victim"]
        generator = specs[cell.path("attack")]["attack"]["generator"] or ""
        made = next((specs[name]["generator"] for name in cell.served(generator) if name in specs), None)
        found[cell.stem] = of_cell(config, cell.victim, victim, counts.get(cell.dataset), generator, made)
    for study in studies:
        training = specs[f"study/{study.stem}"]["training"]
        seen = [count for name in (study.dataset, *training["beside"]) if (count := counts.get(name))]
        found[study.stem] = of_study(config, study.training, training, seen)
    return {stem: share for stem, share in found.items() if share}


def counted(config: Path) -> dict[str, int]:
    """Return the number of training images of each data set that has any."""
    datasets = load_kind(config, "datasets")
    return {name: entry.counts["train"] for name, entry in datasets.items() if "train" in entry.counts}


def of_cell(
    config: Path, victim: str, capped: Spec, count: int | None, generator: str, made: Spec | None
) -> dict[str, float]:
    """Return the shares of their passes over images that a cell's victim and generator have at a scale.

    config: the folder of the catalogue.
    victim: the name of the victim.
    capped: the victim's entry as the scale has it.
    count: number of training images of the victim's data set, if known.
    generator: the name of the generator; "" without one.
    made: the generator's entry as the scale has it; None without one.

    Returns `victim` and `generator` → share, each below 1. A network that is trained as long as the catalogue
    says, or not trained, is left out.
    """
    found = {"victim": _passes(capped, _whole(config, "victims", victim), count)}
    if made is not None:
        whole = _whole(config, "generators", generator)
        auxiliary = whole["auxiliary"] or {"start": 0, "stop": 0}
        kept = round((auxiliary["stop"] - auxiliary["start"]) * (1 - whole["validation"]))
        found["generator"] = _passes(made, whole, kept)
    return _below_one(found)


def of_study(config: Path, name: str, training: Spec, counts: Sequence[int]) -> dict[str, float]:
    """Return the shares of its rounds and images that a training has at a scale.

    config: the folder of the catalogue.
    name: the name of the training.
    training: the study's training as the scale has it.
    counts: number of training images of each data set that the study trains on.

    Returns `rounds` and `images` → share, each below 1. Numbers that are as large as the catalogue says are
    left out.
    """
    whole = _whole(config, "trainings", name)
    seen, all_of_them = (
        sum(min(count, each["images"] or count) for count in counts) for each in (training, whole)
    )
    rounds, of_rounds = (each["rounds"] * each["local_epochs"] for each in (training, whole))
    return _below_one({"rounds": rounds / of_rounds, "images": seen / all_of_them})


def _whole(config: Path, kind: str, name: str) -> Spec:
    """Return an entry without any cap."""
    return find(config, kind, name, kind).model_dump(mode="json")


def _passes(capped: Spec, whole: Spec, there: int | None) -> float:
    """Return epochs × images of a capped entry's training, divided by those of the whole entry.

    `there` is the number of images that the data set has, if known.
    """
    if not capped["training"]:
        return 1
    now, then = (_images(entry["training"], there) for entry in (capped, whole))
    return now / then if then else 1


def _images(training: Mapping[str, Any], there: int | None) -> int:
    limits = [count for count in (training["images"], there) if count is not None]
    return int(training["epochs"]) * min(limits, default=1)


def _below_one(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 6) for name, share in shares.items() if share < 1}
