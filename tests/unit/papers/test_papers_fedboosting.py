"""papers/fedboosting: statements of chapter 4 name cells that exist and are judged as they say."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import thesis_world as world

from leakbench.papers.scorecard.evidence import Evidence
from leakbench.papers.scorecard.quantity import Measured, NotMeasured

NAME = "fedboosting"
PRINTED = world.as_printed(NAME)


def values(asked: Any) -> float | None:
    """Return what is printed, networks that read their own words, and a server that only a client helps."""
    if found := PRINTED.get(world.key({**asked, "convention": "published"})):
        return found
    if asked["metric"] == "pearson":
        return 0.99 if asked["defence"] in ("none", "encrypted-colluding") else 0.04
    if asked["metric"] == "told_apart":
        return 0.95
    small = "256b" in asked["training"] or asked["training"].endswith("-validation")
    return 0.8 if small and "fedavg" in asked["training"] else 0.9


judged = partial(world.judged, NAME, values)


def test_every_statement_reads_cells_that_an_experiment_has() -> None:
    scale = world.World(values)
    world.verdicts(NAME, scale)
    assert scale.asked
    assert not {world.nowhere(asked) for asked in scale.asked} - {""}


def test_where_our_numbers_are_the_printed_ones_all_tables_are_reproduced() -> None:
    found = judged()
    tables = found[
        found["item"].isin(["table-4.1", "table-4.3"]) & (found["metric"] == "word_accuracy_percent")
    ]
    odd = tables[tables["verdict"] != "reproduced"]
    # Quoted from others, or a training that diverged, whose rounds no table has here.
    assert set(odd["published"]) <= {"81.20", "82.70", "not reported", "diverged"}
    assert len(odd) == 12
    # The thesis' own Table 4.3 refutes what it says of Figure 4.5.
    assert found.loc["thesis.text-4-2-3.1", "measured"] == pytest.approx(3.62)
    assert found.loc["thesis.fig-4-5.close", "verdict"] == "differs"
    assert (found.loc[found["class"] == "arithmetic", "verdict"] == "reproduced").all()


def test_a_network_that_reads_nothing_decides_nothing() -> None:
    found = judged(lambda asked: 0.05 if asked.get("tested") in ("synth90k", "synthtext") else None)
    tables = found[found["item"].isin(["table-4.1", "table-4.3"]) & found["measured"].notna()]
    assert set(tables["verdict"]) == {"inconclusive"}
    assert found.loc["thesis.fig-4-4.fedavg-suffers", "verdict"] == "inconclusive"
    assert "fewer than half" in found.loc["thesis.fig-4-4.fedavg-suffers", "reason"]


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("fig-4-4.fedavg-suffers", {"training": "text-fedavg-3e256b", "value": 0.95}),
        ("fig-4-3.non-iid", {"metric": "told_apart", "value": 0.5}),
        ("text-4-4.conspiracy", {"defence": "encrypted-colluding", "attack": "invg", "value": 0.04}),
        ("text-4-2-3.fusion-protects", {"defence": "fused", "attack": "invg", "value": 0.999}),
        # Who knows the share takes it back out.
        ("text-4-2-3.fusion-protects", {"defence": "fused-known", "attack": "fidel", "value": 0.999}),
    ],
)
def test_a_claim_that_does_not_hold_is_not_reproduced(claim: str, change: dict[str, Any]) -> None:
    value = change.pop("value")
    other = judged(lambda asked: value if change.items() <= asked.items() else None)
    assert judged().loc[f"thesis.{claim}", "verdict"] == "reproduced"
    assert other.loc[f"thesis.{claim}", "verdict"] in ("differs", "inconclusive")


def test_without_synth90k_a_stand_in_decides_claims_about_encryption_and_no_number() -> None:
    found = judged(lambda asked: math.nan if asked.get("dataset") == "synth90k" else None)
    numbers = found[found["item"].isin(["table-4.3", "fig-4.6"])]
    assert set(numbers["verdict"]) == {"not-run"}
    assert found.loc["thesis.fig-4-5.close", "verdict"] == "reproduced"
    # Sets that are drawn here to differ prove nothing.
    assert found.loc["thesis.fig-4-3.non-iid", "verdict"] == "not-run"


def _rounds(accuracies: list[float]) -> list[dict[str, Any]]:
    cell = {
        "dataset": "synth90k",
        "victim": "crnn",
        "training": "text-fedavg-1e256b",
        "defence": "none",
        "client": "",
        "key": "",
    }
    cell |= {"metric": "accuracy", "tested": "iiit5k", "rounds": 100}
    rows = [
        cell | {"baseline": "snapshot", "round": i + 1, "mean": each} for i, each in enumerate(accuracies)
    ]
    learnt = cell | {"training": "text-fedavg-1e800b", "tested": "synth90k", "round": "", "mean": 0.9}
    return [*rows, cell | {"convention": "published", "round": "", "mean": max(accuracies)}, learnt]


@pytest.mark.parametrize(
    ("accuracies", "word"), [([0.3, 0.6, 0.02], "diverged"), ([0.3, 0.6, 0.59], "60.00")]
)
def test_a_training_has_diverged_when_it_lost_what_it_once_read(accuracies: list[float], word: str) -> None:
    lines = {"thesis-table-4-1": world.lines("thesis-table-4-1", _rounds(accuracies))}
    found = world.verdicts(NAME, Evidence("paper", lines, known=frozenset(world.EXPERIMENTS)))
    assert found.loc["thesis.table-4-1.29", "measured"] == word
    assert found.loc["thesis.table-4-1.29", "verdict"] == ("reproduced" if word == "diverged" else "differs")


def _drawn(radii: dict[str, float], extent: list[float]) -> Any:
    x, y = np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-3, 3, 61))
    tensors = {
        f"{i}/surface": 1 / (1 + np.exp(np.hypot(x, y) - radius)) for i, radius in enumerate(radii.values())
    }
    about = [{"training": name, "seed": 0, "apart": 0.0, "extent": extent} for name in radii]
    return SimpleNamespace(exhibit=lambda _: (tensors, {"boundaries": about}))


def test_a_boundary_is_as_long_as_its_circle() -> None:
    radii = {"gaussians-fedavg": 2.0, "gaussians-code": 1.0, "gaussians-equations": 2.0}
    smoother = world.work(NAME).check("smoother", "")
    assert smoother(_drawn(radii, [-3, 3, -3, 3]), {}).value == pytest.approx(2 * math.pi, rel=0.01)
    # A plane twice as wide has ellipses, of half-axes 4 and 2, and 2 and 1, by Ramanujan's sum.
    wide = math.pi * (18 - math.sqrt(14 * 10)) / 2
    assert smoother(_drawn(radii, [-6, 6, -3, 3]), {}).value == pytest.approx(wide, rel=0.01)
    with pytest.raises(NotMeasured, match="no boundary of gaussians-code"):
        smoother(_drawn({"gaussians-fedavg": 2.0, "gaussians-equations": 2.0}, [-3, 3, -3, 3]), {})


def test_example_words_are_counted_and_a_stand_in_is_named() -> None:
    """Nine of ten words are a share of 0.9, whose Wilson interval is 0.596 to 0.982."""
    right = world.work(NAME).check("mostly_right", "")

    def shown(dataset: str, training: str, read: str) -> Any:
        example = {"dataset": dataset, "training": training, "words": [*"abcdefghij"], "read": [*read]}
        own = Measured(0.9, length=0.5, notes=("after 50 of 100 rounds",))
        return SimpleNamespace(
            exhibit=lambda _: ({}, {"examples": [example]}), at=lambda **_: own, why=lambda _: "no words"
        )

    found = right(shown("synth90k", "text-fedboosting-3e512b", "abcdefghix"), {})
    assert (found.value, found.n, found.independent, found.length) == (0.9, 10, 10, 0.5)
    assert (found.low, found.high) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert found.notes == ("after 50 of 100 rounds",)
    stand_in = right(shown("words-plain", "text-fedboosting-1e800b", "abcdefghij"), {})
    assert (stand_in.value, stand_in.high) == (1, 1)
    assert stand_in.notes[-1] == "words-plain stands in for synth90k"
    with pytest.raises(NotMeasured, match="no words"):
        right(shown("synth90k", "another", "abcdefghij"), {})


def test_a_poisoned_client_weighs_less_where_its_weight_is_the_smallest() -> None:
    cell = {
        "dataset": "gaussians",
        "victim": "perceptron",
        "training": "gaussians-poisoned-code",
        "defence": "none",
        "key": "",
    }
    cell |= {"metric": "weight", "baseline": "snapshot"}
    weights = {(0, 1): 0.4, (1, 1): 0.2, (2, 1): 0.4, (0, 2): 0.45, (1, 2): 0.1, (2, 2): 0.45}
    rows = [
        cell | {"client": client, "round": turn, "mean": value} for (client, turn), value in weights.items()
    ]
    lines = {"thesis-poisoned": world.lines("thesis-poisoned", rows)}
    found = world.verdicts(NAME, Evidence("paper", lines, known=frozenset(world.EXPERIMENTS)))
    assert found.loc["thesis.text-4-2-1.poisoned", "measured"] == pytest.approx(0.275)
    assert found.loc["thesis.text-4-2-1.poisoned-by-equations", "verdict"] == "not-run"
