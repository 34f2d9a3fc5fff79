"""What is recorded below reference/, as the scorecard reads it, without any run."""

from project import ROOT

from leakbench import reference
from leakbench.catalogue.load import load_kind
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.quantity import NotMeasured
from leakbench.scorecard.recorded import of_records


def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, and of a run that measured nothing."""
    known = frozenset(load_kind(ROOT / "config", "experiments"))
    scales: dict[str, list[reference.Kept]] = {}
    for kept in reference.tables(reference.files(ROOT, "*")):
        scales.setdefault(kept.scale, []).append(kept)

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    found = [of_records(each, known=known) for each in scales.values()]
    return [*found, Evidence("none", {}, known=known, fact=nothing, exhibit=nothing)]
