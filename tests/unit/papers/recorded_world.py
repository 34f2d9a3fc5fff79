"""What is recorded below reference/, as the scorecard reads it, without any run."""

from collections.abc import Callable, Mapping
from typing import Any

from project import ROOT

from leakbench import reference
from leakbench.artefacts import open_tensors
from leakbench.catalogue.load import load_kind
from leakbench.scorecard.evidence import Evidence, Lines
from leakbench.scorecard.quantity import NotMeasured


def recorded() -> list[Evidence]:
    """Return the evidence of each recorded scale, and of a run that measured nothing."""
    known = frozenset(load_kind(ROOT / "config", "experiments"))
    scales: dict[str, dict[str, Lines]] = {}
    shares: dict[str, dict[str, Mapping[str, Mapping[str, float]]]] = {}
    for scale, name, frame, kept, record in reference.tables(reference.files(ROOT, "*")):
        scales.setdefault(scale, {})[name] = Lines(name, frame, kept)
        shares.setdefault(scale, {})[name] = record.get("shares", {})

    def nothing(name: str) -> None:
        raise NotMeasured(f"{name} is not recorded")

    def exhibit(scale: str) -> Callable[[str], Any]:
        def read(name: str) -> Any:
            kept = ROOT / "reference" / scale / f"{name}{reference.EXHIBIT}"
            return open_tensors(kept) if kept.is_file() else nothing(name)

        return read

    found = [
        Evidence(scale, lines, shares=shares[scale], known=known, fact=nothing, exhibit=exhibit(scale))
        for scale, lines in scales.items()
    ]
    return [*found, Evidence("none", {}, known=known, fact=nothing, exhibit=nothing)]
