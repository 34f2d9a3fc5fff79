"""Every number and claim of chapter 3 of Ren's thesis that we measure, beside what we measured.

Facts: `attacks` as in `agic`, and `iterations` (experiment → fewest steps of its attacks). Any may be missing.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from leakbench.scorecard import grnn_faces
from leakbench.scorecard.evidence import Evidence, collect
from leakbench.scorecard.grnn_claims import CLAIMS
from leakbench.scorecard.grnn_numbers import NUMBERS
from leakbench.scorecard.verdict import Finding


def findings(
    tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any], absent: Mapping[str, str] | None = None
) -> dict[str, Finding]:
    """A finding for every id of chapter 3 that an experiment measures; the arguments are those of `agic.findings`."""
    return collect(
        NUMBERS | CLAIMS | grnn_faces.NUMBERS | grnn_faces.CLAIMS, Evidence(tables, facts, absent or {})
    )
