"""What training studies give to draw: decision boundaries in the plane, and words that were read."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts
from leakbench.datasets.words import spelt
from leakbench.results.tables.trained import STUDY

# The rows and facts of each study.
Studied = Sequence[tuple[pd.DataFrame, Facts]]
# Tensors, and descriptions of what they hold.
Exhibited = tuple[dict[str, np.ndarray], list[Facts]]


def _named(rows: pd.DataFrame) -> Facts:
    return {name: rows[name].iloc[0] for name in STUDY} | {"seed": int(rows["seed"].iloc[0])}


def boundaries(studies: Studied) -> Exhibited:
    """Return the tensors of each study in the plane at its last round, and their descriptions."""
    # The tensors are <place>/surface float32 [steps, steps], the probability of the second class from bottom
    # left, and <place>/points/<client or test> float32 [n, 3], (x, y, label). `accuracy` is on all test
    # points; `apart` is the share of the plane that centralised training of the same network and seed
    # classifies differently, None where there is no such training.
    tensors: dict[str, np.ndarray] = {}
    described: list[Facts] = []
    for rows, facts in studies:
        if "boundary" not in facts:
            continue
        own, place = facts["boundary"], len(described)
        tensors[f"{place}/surface"] = np.array(own["surface"], np.float32)
        groups = [*enumerate(own["points"]["clients"]), ("test", own["points"]["test"])]
        tensors |= {f"{place}/points/{name}": np.array(points, np.float32) for name, points in groups}
        names = _named(rows)
        last = rows[(rows["round"] == facts["rounds"]) & (rows["key"] != "client")]
        about = {"extent": own["extent"], "round": facts["rounds"], "clients": len(groups) - 1}
        described.append(names | about | {"accuracy": float(last["test_accuracy"].mean())})
    same = ("dataset", "victim", "defence", "seed")
    surfaces = [tensors[f"{place}/surface"] > 0.5 for place in range(len(described))]
    for about, own in zip(described, surfaces, strict=True):
        alike = [n for n, each in enumerate(described) if all(each[key] == about[key] for key in same)]
        alone = next((n for n in alike if described[n]["clients"] == 1), None)
        about["apart"] = None if alone is None else float((own != surfaces[alone]).mean())
    return tensors, described


def examples(studies: Studied) -> Exhibited:
    """Return pictures words/<test set> uint8 [words, rows, columns], and what each last model read there."""
    tensors: dict[str, np.ndarray] = {}
    described: list[Facts] = []
    for rows, facts in studies:
        names = _named(rows)
        for tested, own in facts.get("examples", {}).items():
            tensors.setdefault(f"words/{tested}", np.array(own["pictures"], np.uint8))
            spelled = {kind: [spelt(codes) for codes in own[kind]] for kind in ("words", "read")}
            described.append(names | spelled | {"tested": tested, "round": facts["rounds"]})
    return tensors, described
