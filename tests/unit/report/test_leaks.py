"""The best known leak: the strongest attack of each defence, by what the attacker knows."""

from typing import Any

import pandas as pd

from leakbench.attacks.threat_model import OBSERVERS
from leakbench.report.leaks import SERVER, Price, best_known, prices

PARTS = {
    "dataset": [{"name": "d", "title": "Digits"}],
    "victim": [{"name": "v", "title": "a network"}],
    "defence": [{"name": "none", "title": "no defence"}, {"name": "noise", "title": "noise"}],
    "attack": [{"name": "plain", "title": "Plain"}, {"name": "clever", "title": "Clever"}],
}


def row(defence: str, attack: str, mean: float, **changes: Any) -> dict[str, Any]:
    return {
        "dataset": "d", "victim": "v", "federation": "f", "defence": defence, "attack": attack,
        "baseline": "", "metric": "pearson", "mean": mean, "ci_low": mean - 0.1,
        "ci_high": mean + 0.1, "n": 10,
        "failure_rate": 0.2, "scale": "quick",
    } | changes  # fmt: skip


def test_the_strongest_attack_of_each_defence_and_attacker() -> None:
    table = pd.DataFrame(
        [
            row("noise", "plain", 0.3),
            row("noise", "clever", 0.8),
            row("none", "plain", 0.9),
            row("none", "plain", 0.95, baseline="random-noise"),
            row("none", "clever", 0.99, n=2),
            row("none", "clever", 40.0, metric="psnr"),
        ]
    )
    knows = {"d/v/f/noise/clever/0": {"defence": "normal noise"}, "d/v/f/noise/plain/0": {"defence": "none"}}
    (found,) = best_known(table, knows, PARTS)
    assert found.title == "Digits, a network"
    # No defence comes first. Two trials, null baselines and other metrics are no leak.
    assert list(found.rows) == ["no defence", "noise"]
    plain, adaptive = (found.rows["noise"][kind] for kind in ("plain", "adaptive"))
    assert plain is not None
    assert adaptive is not None
    assert (plain.attack, plain.mean, plain.n, plain.failed) == ("Plain", 0.3, 10, "20%")
    assert (adaptive.attack, adaptive.mean, adaptive.interval) == ("Clever", 0.8, "[0.7, 0.9]")
    # Who knows the defence can still ignore it.
    assert found.rows["no defence"]["adaptive"] == found.rows["no defence"]["plain"]


def test_a_defence_against_which_only_adaptive_attacks_ran_has_no_plain_leak() -> None:
    knows = {"d/v/f/noise/clever/0": {"defence": "normal noise"}}
    (found,) = best_known(pd.DataFrame([row("noise", "clever", 0.8)]), knows, PARTS)
    assert found.rows["noise"]["plain"] is None
    assert found.rows["noise"]["adaptive"] is not None


def test_only_the_honest_but_curious_server_is_an_attacker() -> None:
    assert OBSERVERS["server"] == SERVER
    knows = {"d/v/f/noise/clever/0": {"threat model": OBSERVERS["colluding"]}}
    assert best_known(pd.DataFrame([row("noise", "clever", 0.8)]), knows, PARTS) == []


def test_the_price_of_a_defence_stands_beside_training_without_one() -> None:
    def accuracy(defence: str, mean: float, **changes: Any) -> dict[str, Any]:
        return row(defence, "plain", mean, metric="accuracy", convention="standard", n=3, **changes)

    rows = [accuracy("none", 0.85), accuracy("noise", 0.62), accuracy("noise", 0.1, baseline="snapshot")]
    table = pd.DataFrame(rows)
    assert prices({"study": table}, PARTS) == {"noise": [Price("study", 0.62, 0.85, 3)]}
    # Without training that lacks the defence, or with two accuracies of one, there is no price.
    assert prices({"study": table[1:]}, PARTS) == {}
    twice = pd.DataFrame([*rows, accuracy("noise", 0.5)])
    assert prices({"study": twice, "empty": pd.DataFrame()}, PARTS) == {}
