"""The cost of experiments at their published size, by the cost model."""

from functools import cache
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.catalogue import costs
from leakbench.catalogue.resolve import plan
from leakbench.catalogue.workflow import judges

# The scale that caps nothing.
PUBLISHED = "paper"


@cache
def published_costs(root: Path) -> dict[str, dict[str, float]]:
    """Return experiment → stem of a cell or study → core-seconds at the published size."""
    try:
        whole = plan(root, PUBLISHED, judges())
    except UserError:
        # The scale may not fit a catalogue that was cut down. A run at this scale reports that itself.
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, cells in whole.experiments.items():
        own = found.setdefault(name, {})
        for cell in cells:
            capture = whole.specs[f"capture/{cell.capture}"]
            own[cell.stem] = costs.of_attack(whole.specs[f"attack/{cell.stem}"], capture).seconds()
        for study in whole.studies[name]:
            own[study.stem] = costs.of_study(whole.specs[f"study/{study.stem}"]).seconds()
    return found
