"""Result tables as the page arranges them: lines of the whole federation, and the last point of a curve."""

import numpy as np
import pandas as pd

from leakbench.results.report.results import results


def test_lines_of_the_whole_federation_have_no_client_and_tell_the_last_round() -> None:
    shared = {
        "dataset": "mnist", "victim": "v", "federation": "f", "attack": "a", "checkpoint": 0,
        "convention": "standard", "median": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 3, "failure_rate": 0.0,
    }  # fmt: skip
    lines = [
        {"defence": defence, "client": client, "local_samples": size, "baseline": baseline, "metric": metric}
        | {"mean": mean, "unit": unit, "round": after}
        for defence in ("none", "sign")
        for client, size, baseline, metric, mean, unit, after in [
            (0, 16, "", "label_accuracy", 0.7, "image", np.nan),
            (0, 16, "random-gradient", "label_accuracy", 0.2, "image", np.nan),
            (np.nan, np.nan, "snapshot", "accuracy", 0.3, "model", 1),
            (np.nan, np.nan, "", "accuracy", 0.8, "model", 2),
        ]
    ]
    found = results(pd.DataFrame([shared | line for line in lines]))
    assert found.columns == ["defence", "k"]
    assert [(row.condition, row.metric, row.mean) for row in found.rows] == [
        (["none", "16"], "label_accuracy", "0.7"),
        (["sign", "16"], "label_accuracy", "0.7"),
        (["none", ""], "accuracy", "0.8"),
        (["sign", ""], "accuracy", "0.8"),
    ]
    assert found.nulls == ["a random gradient attacked"]
    assert [row.nulls for row in found.rows] == [["0.2"], ["0.2"], [""], [""]]
