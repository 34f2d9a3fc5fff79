"""The best known leak: the strongest attack of each defence, by what the attacker knows."""

from dataclasses import replace
from typing import Any

import pandas as pd

from leakbench.observations.threat_model import OBSERVERS
from leakbench.results.report.leaks import (
    ATTACKERS,
    NOTHING,
    PLAIN_ONLY,
    SERVER,
    STRONGER,
    Price,
    best_known,
    of_images,
    on_any_network,
    prices,
    strongest,
)  # fmt: skip

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
        "failure_rate": 0.2, "scale": "quick", "seeds": "0",
    } | changes  # fmt: skip


def test_the_strongest_attack_of_each_defence_and_attacker() -> None:
    table = pd.DataFrame([
        row("noise", "plain", 0.3), row("noise", "clever", 0.8), row("none", "plain", 0.9),
        row("none", "plain", 0.95, baseline="random-noise"), row("none", "clever", 0.99, n=2),
        row("none", "clever", 40.0, metric="psnr"),
    ])  # fmt: skip
    knows = {"d/v/f/noise/clever/0": {"defence": "normal noise"}, "d/v/f/noise/plain/0": {"defence": "none"}}
    (found,) = best_known(table, knows, PARTS)
    assert found.title == "Digits, a network"
    # No defence comes first. Two trials, null baselines and other metrics are no leak.
    assert list(found.rows) == ["no defence", "noise"]
    plain, adaptive = (found.rows["noise"][kind] for kind in ("plain", "adaptive"))
    assert (plain.attack, plain.mean, plain.n, plain.failed) == ("Plain", 0.3, 10, "20%")
    assert (adaptive.attack, adaptive.mean, adaptive.interval) == ("Clever", 0.8, "[0.7, 0.9]")
    # Who knows the defence can still ignore it.
    without = found.rows["no defence"]
    assert without["adaptive"] == replace(without["plain"], note=NOTHING)


def test_only_kinds_of_attackers_that_were_tried_have_leaks() -> None:
    clever, cell = pd.DataFrame([row("noise", "clever", 0.8)]), "d/v/f/noise/clever/0"
    (found,) = best_known(clever, {cell: {"defence": "normal noise"}}, PARTS)
    assert found.rows["noise"]["plain"] is None
    assert found.rows["noise"]["adaptive"] is not None
    # Only the honest-but-curious server is an attacker.
    assert OBSERVERS["server"] == SERVER
    assert best_known(clever, {cell: {"threat model": OBSERVERS["colluding"]}}, PARTS) == []
    # A defence that no adaptive attacker met says so.
    (found,) = best_known(pd.DataFrame([row("noise", "plain", 0.3), row("none", "plain", 0.9)]), {}, PARTS)
    notes = {title: leaks["adaptive"].note for title, leaks in found.rows.items() if leaks["adaptive"]}
    assert notes == {"noise": PLAIN_ONLY, "no defence": NOTHING}


HELD = {"threat model": SERVER, "candidates": "held, the private images among them"}
CHEATS = {"threat model": "malicious server (robbing-the-fed)"}


def member(defence: str, attack: str, mean: float, **changes: Any) -> dict[str, Any]:
    return row(defence, attack, mean, metric="tpr_at_fpr_0", **changes)


def test_servers_with_candidates_or_written_weights_have_columns_of_their_own() -> None:
    table = pd.DataFrame(
        [
            member("noise", "plain", 0.2),
            member("noise", "clever", 0.7, victim="w", n=12),
            # Of equal leaks the one with more trials.
            member("noise", "clever", 0.7, victim="v"),
            # Four trials and a baseline are no leak.
            member("noise", "plain", 0.99, n=4),
            member("noise", "plain", 0.98, baseline="random-gradient"),
            # Who reconstructs makes no use of candidates.
            row("noise", "plain", 0.3),
            row("none", "clever", 0.94, metric="exact", victim="w"),
            row("none", "plain", 0.6),
            # What an honest server reads in every bit is not in the column of the malicious one.
            row("none", "plain", 1.0, metric="exact"),
            row("other", "plain", 0.5),
        ]
    )
    knows = {
        "d/v/f/noise/plain/0": HELD, "d/w/f/noise/clever/0": HELD, "d/v/f/noise/clever/1": HELD,
        "d/w/f/none/clever/0": CHEATS,
    }  # fmt: skip
    first, further = on_any_network(table, knows, PARTS)
    # No defence, and what more than the first two kinds of attackers met.
    assert list(first) == ["no defence", "noise"]
    assert list(further) == ["other"]
    assert list(first["noise"]) == [*ATTACKERS, *STRONGER]
    means = {title: [leak and leak.mean for leak in leaks.values()] for title, leaks in first.items()}
    assert means == {"no defence": [0.6, 0.6, None, 0.94], "noise": [0.3, 0.3, 0.7, None]}
    candidates, malicious = first["noise"]["candidates"], first["no defence"]["malicious"]
    assert (candidates.attack, candidates.n, malicious.where) == ("Clever", 12, "Digits, w")


def test_the_network_that_leaks_most_counts_and_a_control_is_no_attack() -> None:
    table = pd.DataFrame([
        row("noise", "plain", 0.4), row("noise", "plain", 0.6, victim="w"),
        row("noise", "class-mean", 0.8), row("noise", "clever", 0.5),
    ])  # fmt: skip
    first, further = on_any_network(table, {"d/v/f/noise/clever/0": {"defence": "normal noise"}}, PARTS)
    assert not first
    plain, adaptive = further["noise"]["plain"], further["noise"]["adaptive"]
    assert (plain.mean, plain.where) == (0.6, "Digits, w")
    # The attacker who knows the defence does better without that knowledge here, and it was tried.
    assert (adaptive.mean, adaptive.note) == (0.6, "")
    _, further = on_any_network(table[table["attack"] == "plain"], {}, PARTS)
    assert further["noise"]["adaptive"].note == PLAIN_ONLY
    assert on_any_network(pd.DataFrame(), {}, PARTS) == ({}, {})


def test_the_price_of_a_defence_stands_beside_training_without_one() -> None:
    def accuracy(defence: str, mean: float, **changes: Any) -> dict[str, Any]:
        return row(defence, "plain", mean, metric="accuracy", convention="standard", **{"n": 5} | changes)

    rows = [accuracy("none", 0.85), accuracy("noise", 0.62), accuracy("noise", 0.1, baseline="snapshot")]
    table = pd.DataFrame(rows)
    assert prices({"study": table}, PARTS) == {
        "noise": [Price("study", 0.62, "[0.52, 0.72]", 0.85, "Digits, a network", 5, "quick, seed 0")]
    }
    other = prices({"study": pd.concat([table, table.assign(victim="w")])}, PARTS)
    assert [price.network for price in other["noise"]] == ["Digits, a network", "Digits, w"]
    # Without training that lacks the defence, or with two accuracies of one, there is no price.
    assert prices({"study": table[1:]}, PARTS) == {}
    twice = pd.DataFrame([*rows, accuracy("noise", 0.5)])
    assert prices({"study": twice, "empty": pd.DataFrame()}, PARTS) == {}
    # The accuracy of few trainings is no price.
    assert prices({"study": table.assign(n=4)}, PARTS) == {}


def test_what_reads_features_and_no_image_is_no_leak_of_one() -> None:
    of_features, of_image = row("none", "clever", 1.0), row("none", "plain", 0.7)
    seen = of_image | {"metric": "psnr", "mean": 20.0}
    assert of_images(pd.DataFrame([of_features, of_image, seen]))["attack"].tolist() == ["plain", "plain"]
    # Where no cell has a PSNR, none was asked for.
    assert len(of_images(pd.DataFrame([of_features, of_image]))) == 2
    assert strongest(pd.DataFrame([of_features, of_image, seen]), {})["attack"].tolist() == ["plain"]


def test_of_each_network_and_kind_of_attacker_the_strongest_may_be_shown() -> None:
    knowing = {"d/v/f/noise/clever/0": {"defence": "noise"}}
    rows = [
        row("none", "plain", 0.9), row("none", "clever", 0.8), row("noise", "plain", 0.3),
        row("noise", "clever", 0.6), row("noise", "plain", 0.9, n=4), row("noise", "plain", 0.5, victim="w"),
    ]  # fmt: skip
    found = strongest(pd.DataFrame(rows), knowing)
    assert {(r.victim, r.defence, r.attack, r.mean) for r in found.itertuples()} == {
        ("v", "none", "plain", 0.9), ("v", "noise", "plain", 0.3), ("v", "noise", "clever", 0.6),
        ("w", "noise", "plain", 0.5),
    }  # fmt: skip
