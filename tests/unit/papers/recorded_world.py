"""What is recorded below reference/, as the scorecard reads it, without any run."""

from project import ROOT

from leakbench.catalogue.load import load_kind
from leakbench.catalogue.shown import described
from leakbench.jobs.scorecard import longest_first
from leakbench.papers import reference
from leakbench.papers.scorecard.evidence import Evidence
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.recorded import joined

KNOWN = frozenset(load_kind(ROOT / "config", "experiments"))


def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, the longest first, of all, and of an empty run."""
    scales = list(_by_folder(seeded=False).values())

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    return [*scales, joined(scales), Evidence("none", {}, known=KNOWN, fact=nothing, exhibit=nothing)]


def raised() -> dict[int, Evidence]:
    """Return what was added to every seed → the evidence that the standard scale has of it."""
    return {reference.run_of(name)[1] or 0: each for name, each in _by_folder(seeded=True).items()}


def _by_folder(seeded: bool) -> dict[str, Evidence]:
    records = reference.tables(reference.files(ROOT, "*", seeded))
    return longest_first(records, ROOT, KNOWN, described(ROOT / "config")["attacks"])
