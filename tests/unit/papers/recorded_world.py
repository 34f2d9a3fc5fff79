"""What is recorded below reference/, as the scorecard reads it, without any run."""

from functools import cache

from project import ROOT
from worlds import CONFIG, KNOWN

from leakbench.catalogue.shown import described
from leakbench.jobs.scorecard import longest_first
from leakbench.papers import reference
from leakbench.papers.scorecard.evidence import Evidence
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.recorded import joined


@cache
def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, the longest first, of all, and of an empty run."""
    files = [path for seeded in (False, True) for path in reference.files(ROOT, "*", seeded)]
    attacks = described(CONFIG)["attacks"]
    scales = list(longest_first(reference.tables(files), ROOT, KNOWN, attacks).values())

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    return [*scales, joined(scales), Evidence("none", {}, known=KNOWN, fact=nothing, exhibit=nothing)]
