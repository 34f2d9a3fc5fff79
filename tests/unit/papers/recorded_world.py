"""What is recorded below reference/, as the scorecard reads it, without any run."""

from functools import cache

from project import ROOT
from worlds import KNOWN

from leakbench.jobs.manual import Records
from leakbench.papers.scorecard.evidence import ScaleEvidence
from leakbench.papers.scorecard.quantity import NotMeasured


@cache
def records() -> Records:
    return Records(ROOT)


@cache
def recorded() -> list[ScaleEvidence]:
    """Return the evidence of each recorded scale, the longest first, of all, and of an empty run."""

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    # What is read once for the pages' own scorecard need not be read again.
    return [*records().scales, ScaleEvidence("none", {}, known=KNOWN, fact=nothing, exhibit=nothing)]
