"""What is recorded below reference/, as the scorecard reads it, without any run."""

from collections.abc import Iterable
from pathlib import Path

from project import ROOT

from leakbench.catalogue.load import load_kind
from leakbench.catalogue.shown import described
from leakbench.papers import reference
from leakbench.papers.scorecard.evidence import Evidence
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.recorded import joined, of_records


def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, the longest first, of all, and of an empty run."""
    known = frozenset(load_kind(ROOT / "config", "experiments"))
    order = {name: each.order for name, each in load_kind(ROOT / "config", "scales").items()}
    scales = _by_folder(reference.files(ROOT, "*"))

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    longest = sorted(scales, key=lambda scale: -order.get(scale, 0))
    attacks = described(ROOT / "config")["attacks"]
    found = [of_records(scales[scale], known=known, attacks=attacks) for scale in longest]
    return [*found, joined(found), Evidence("none", {}, known=known, fact=nothing, exhibit=nothing)]


def raised() -> dict[int, Evidence]:
    """Return what was added to every seed → the evidence that the standard scale has of it."""
    found = _by_folder(
        [path for seed in (1, 2) for path in (ROOT / f"reference/standard-seed{seed}").iterdir()]
    )
    attacks = described(ROOT / "config")["attacks"]
    return {
        reference.run_of(folder)[1] or 0: of_records(kept, attacks=attacks) for folder, kept in found.items()
    }


def _by_folder(files: Iterable[Path]) -> dict[str, list[reference.Kept]]:
    folders: dict[str, list[reference.Kept]] = {}
    for kept in reference.tables(files):
        folders.setdefault(kept.scale, []).append(kept)
    return folders
