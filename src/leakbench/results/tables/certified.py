"""The check that measured rates stay below what a defence certifies."""

import pandas as pd

from leakbench.base.cellname import named
from leakbench.base.errors import UserError
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables.lines import BESIDE


def check_bounds(table: pd.DataFrame) -> None:
    """Raise UserError where the whole interval of a measured rate lies above its certified bound."""
    # The defence then adds too little noise, its accountant is wrong, or the measure counts mere chance.
    if CERTIFIED not in set(table["baseline"]):
        return
    condition = [name for name in table if name not in (*BESIDE, "baseline")]
    bound = table[table["baseline"] == CERTIFIED][[*condition, "mean"]]
    own = table[table["baseline"] == ""].merge(bound, on=condition, suffixes=("", "_certified"))
    for row in own[own["ci_low"] > own["mean_certified"]].to_dict("records"):
        raise UserError(
            f"{named(row)}: {row['metric']}: measured {row['mean']:.4g}, interval {row['ci_low']:.4g} to "
            f"{row['ci_high']:.4g} (n = {row['n']}), and the defence certifies at most "
            f"{row['mean_certified']:.4g} (one of the two is wrong: check the defence and its accountant)"
        )
