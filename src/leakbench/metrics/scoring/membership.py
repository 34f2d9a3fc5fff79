"""The rows of an attack on candidates: one for each update instead of one for each private image."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from leakbench.metrics import METRICS
from leakbench.metrics.baselines import OTHER_UPDATE
from leakbench.metrics.epsilon import lower_bound
from leakbench.metrics.scoring.groups import elsewhere


def membership_rows(
    tensors: Mapping[str, np.ndarray], secret: Mapping[str, np.ndarray], client: int, names: Sequence[str],
    members_of: Callable[[np.ndarray], np.ndarray] | None = None,
    blind: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return what the metrics say of each update of a client, each null update and `blind` attackers."""
    rows = []
    own, null = (
        tuple(tensors[f"{part}{name}"][:, client] for name in ("span_distance", "usable"))
        for part in ("", "null/")
    )
    answers = {"": own, "random-gradient": null}
    others = elsewhere(secret[f"images/{client}"][: len(own[0])], len(null[0]))
    if others is not None:
        answers[OTHER_UPDATE] = own[0][others], own[1][others]
    for name, (scores, accepted) in (blind or {}).items():
        answers[name] = tuple(
            np.broadcast_to(each, (len(null[0]), each.shape[-1])) for each in (scores, accepted)
        )
    for baseline, (scores, accepted) in answers.items():
        for number, (score, taken) in enumerate(zip(scores, accepted, strict=True)):
            held = secret[f"images/{client}"][number]
            members = members_of(held) if members_of else np.isin(secret["candidates"], held)
            # A distance that is no number is no answer: it counts as the largest possible distance.
            known = np.isfinite(score)
            score = np.where(known, score, np.inf)
            row = {name: METRICS[name].function(score, members, taken) for name in names}
            row |= {name: secret[name][number] for name in ("checkpoint", "pass")}
            row |= {"round": number, "local_samples": len(held), "usable": int(taken.sum())}
            rows.append(row | {"baseline": baseline, "status": "ok" if known.any() else "nothing"})
    return pd.DataFrame(rows).assign(client=client, sample=0, image=-1, iterations=0)


def add_epsilon(
    rows: pd.DataFrame, candidates: int, certified: Mapping[str, Any] | None, given: bool
) -> pd.DataFrame:
    """Return rows whose `epsilon_low`, the place of a member, is the bound that all their places prove."""
    others = candidates - int(rows["local_samples"].max())
    rows = rows.copy()
    for _, part in rows.groupby(["baseline", "checkpoint"]):
        # With given labels nothing is proved: without its sample, a member's rank would be that of no other.
        places = part["epsilon_low"].to_numpy(np.float64)
        rows.loc[part.index, "epsilon_low"] = np.nan if given else lower_bound(places, others, certified)
    return rows
