"""What the reproduced results of a scorecard are worth, counted."""

from collections.abc import Collection, Mapping

import pandas as pd

# Kind of a reproduced result -> what it means; the first kind is the one that says something of an attack.
KINDS = {
    "success": "neither a null baseline nor a number that the paper prints for a rival would give it",
    "failure": "the paper prints a failure, and the attack fails here too, as any broken attack would",
    "as-rival": "the paper prints a number within the tolerance for another method too",
    "as-null": "a null baseline gives the number too, or the statement is true by construction",
}
CORE, OTHERS = "core", "others"


def kinds(card: pd.DataFrame, core: Collection[str]) -> Mapping[str, dict[str, int]]:
    """Return the number of reproduced results of each kind, of the core works and of the others."""
    rows = card[(card["class"] == "result") & (card["verdict"] == "reproduced")]
    own = rows["work"].isin(list(core))
    return {
        of: {kind: int((part["kind"] == kind).sum()) for kind in KINDS}
        for of, part in ((CORE, rows[own]), (OTHERS, rows[~own]))
    }
