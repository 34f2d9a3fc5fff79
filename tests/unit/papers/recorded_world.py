"""What is recorded below reference/, as the scorecard reads it, without any run."""

from project import ROOT

from leakbench import reference
from leakbench.catalogue.load import load_kind
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.quantity import NotMeasured
from leakbench.scorecard.recorded import joined, of_records


def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, the longest first, of all, and of an empty run."""
    known = frozenset(load_kind(ROOT / "config", "experiments"))
    order = {name: each.order for name, each in load_kind(ROOT / "config", "scales").items()}
    scales: dict[str, list[reference.Kept]] = {}
    for kept in reference.tables(reference.files(ROOT, "*")):
        scales.setdefault(kept.scale, []).append(kept)

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    longest = sorted(scales, key=lambda scale: -order.get(scale, 0))
    found = [of_records(scales[scale], known=known) for scale in longest]
    return [*found, joined(found), Evidence("none", {}, known=known, fact=nothing, exhibit=nothing)]
