"""How long a scale trains networks, as a share of how long the whole catalogue does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.catalogue.cell import ANY_VICTIM, Cell, Spec
from leakbench.catalogue.load import find, load_kind
from leakbench.catalogue.study import Study


def of_all(
    config: Path, specs: Mapping[str, Spec], cells: Sequence[Cell], studies: Sequence[Study]
) -> dict[str, dict[str, float]]:
    """Return by path stem how long a scale trains what cells and studies need, where that is not as long as
    without caps.

    specs: what the scale makes of them.
    """
    counts = counted(config)
    found = {}
    for cell in cells:
        victim = specs[f"train/{cell.dataset}/{cell.victim}/{cell.seed}"]["victim"]
        generator = specs[f"attack/{cell.stem}"]["attack"]["generator"] or ""
        served = (
            f"generator/{cell.dataset}/{of}/{generator}/{cell.seed}" for of in (cell.victim, ANY_VICTIM)
        )
        made = next((specs[name]["generator"] for name in served if name in specs), None)
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
    """Return the share of its passes over images that a cell's `victim` and its `generator` have at this
    scale, each below 1.

    capped: the victim's entry as the scale has it. count: the training images of its data set, if known.
    generator, made: the name and the entry of the generator; "" and None without one. What runs as long as
    the catalogue says, or is not trained, is left out.
    """
    found = {"victim": _passes(capped, _whole(config, "victims", victim), count)}
    if made is not None:
        whole = _whole(config, "generators", generator)
        auxiliary = whole["auxiliary"] or {"start": 0, "stop": 0}
        kept = round((auxiliary["stop"] - auxiliary["start"]) * (1 - whole["validation"]))
        found["generator"] = _passes(made, whole, kept)
    return _below_one(found)


def of_study(config: Path, name: str, training: Spec, counts: Sequence[int]) -> dict[str, float]:
    """Return the share of its `rounds` and `images` that training `name` has at this scale, each below 1.

    training: the study's training as the scale has it. counts: the training images of each set that it trains
    on. What runs as long as the catalogue says is left out.
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
    """Return epochs × images of a capped entry's training over those of the whole one; `there`: the images
    that there are."""
    if not capped["training"]:
        return 1
    now, then = (_images(entry["training"], there) for entry in (capped, whole))
    return now / then if then else 1


def _images(training: Mapping[str, Any], there: int | None) -> int:
    limits = [count for count in (training["images"], there) if count is not None]
    return int(training["epochs"]) * min(limits, default=1)


def _below_one(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 6) for name, share in shares.items() if share < 1}
