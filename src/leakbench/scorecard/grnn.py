"""Every number and claim of chapter 3 of Ren's thesis that we measure, beside what we measured.

Facts: `attacks` as in `agic`, `iterations` (experiment → fewest steps of its attacks), and `printed` (id → published
number, for doubts that are arithmetic on what is printed). Any may be missing.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from leakbench.scorecard import (
    grnn_claims,
    grnn_doubts,
    grnn_faces,
    grnn_numbers,
    grnn_resolution,
    grnn_success,
)
from leakbench.scorecard.evidence import Absent, Evidence, collect
from leakbench.scorecard.verdict import Finding

ROOMS = (grnn_numbers, grnn_resolution, grnn_success, grnn_faces)
NUMBERS = {key: build for room in ROOMS for key, build in room.NUMBERS.items()}
CLAIMS = {
    key: build
    for room in (grnn_claims, grnn_doubts, *ROOMS)
    for key, build in getattr(room, "CLAIMS", {}).items()
}


def findings(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], absent: Absent | None = None
) -> dict[str, Finding]:
    """A finding for every id of chapter 3 that an experiment measures; the arguments are those of `agic.findings`."""
    return collect(NUMBERS | CLAIMS, Evidence(tables, facts, absent or {}))
