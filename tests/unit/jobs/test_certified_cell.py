"""A cell under DP-SGD, from the capture to its table: the certified bound, and an attack that comes near."""

import importlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from played import captured, guessed, rows_of

from leakbench.base.errors import UserError
from leakbench.catalogue.cell import Cell
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables.attacked import aggregate
from leakbench.results.tables.of_attacks import check_bounds

ROUNDS, OTHERS = 40, 9
METRICS = ["membership_auc", "tpr_at_fpr_0", "members_accepted", "epsilon_low"]


def scored(
    root: Path, noise: float, labels: str = "not needed", defence: str = "dp-sgd",
    settings: dict[str, Any] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """Return the table of alignment against a client that sends updates of one image each. labels: what the
    attack is said to know of them. settings: those of another defence than DP-SGD with this noise."""
    given = settings or {"noise_multiplier": noise, "clip": 0.01}
    captured(
        root, None, defence={"module": defence, "parameters": given}, clients=(1,), candidates=OTHERS,
        server="frozen", activation="tanh", rounds=ROUNDS, update="model" if settings else "gradient",
    )  # fmt: skip
    tensors = guessed(root, {"module": "alignment", "parameters": {}}, 2)
    rows = rows_of(root, tensors, "candidates", METRICS, labels=labels)
    cell = Cell("made", "victim", "f", "dp-sgd", "alignment", 0)
    rows = rows.assign(**vars(cell), failed=False)
    # Rows of candidates alone have no correlation with an image, and a table that asks for it leaves it out.
    table, _ = aggregate(rows, [*METRICS, "pearson"], "quick")
    return table.set_index(["metric", "baseline"])


def test_the_bound_stands_beside_what_was_measured(tmp_path: Path) -> None:
    table = scored(tmp_path, 0.4)
    own, bound = table.loc[("tpr_at_fpr_0", "")], table.loc[("tpr_at_fpr_0", CERTIFIED)]
    assert own["n"] == ROUNDS
    # The member is one of a list of the private images of all rounds and the others.
    assert 0.3 < bound["mean"] < 0.95
    # The attack finds members through the noise, and never more of them than is certified.
    assert own["mean"] > 3 / OTHERS / 10
    check_bounds(table.reset_index())
    assert ("members_accepted", CERTIFIED) not in table.index
    assert table.loc[("membership_auc", CERTIFIED), "mean"] > table.loc[("membership_auc", ""), "mean"]


def test_an_attack_that_is_given_labels_has_no_bound(tmp_path: Path) -> None:
    table = scored(tmp_path, 0.4, labels="given")
    there = set(table.reset_index()["baseline"])
    assert {"", "random-gradient"} <= there
    assert CERTIFIED not in there


# The noise of Flower's local DP with these settings is 0.2 times its bound, as DP-SGD's is.
FLOWER = {"clipping_norm": 0.01, "sensitivity": 0.01, "epsilon": 24.2, "delta": 1e-5}


@pytest.mark.parametrize(
    ("name", "counts", "given"),
    [("dp_sgd", "certificate", {}), ("flower_local_dp", "of_normal_noise", FLOWER)],
)
def test_too_little_noise_is_found_out(
    name: str, counts: str, given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = importlib.import_module(f"leakbench.defences.{name}")
    honest = getattr(place, counts)
    # A defence that certifies ten times the noise that it adds.
    monkeypatch.setattr(place, counts, lambda noise, *rest: honest(10 * noise, *rest))
    table = scored(tmp_path, 0.2, defence=name.replace("_", "-"), settings=given).reset_index()
    with pytest.raises(UserError, match="the defence certifies at most"):
        check_bounds(table)
    # The lower bound of ε alone finds it out as well.
    with pytest.raises(UserError, match="epsilon_low: measured"):
        check_bounds(table[table["metric"] == "epsilon_low"])


def test_the_proven_epsilon_is_below_the_certified_one(tmp_path: Path) -> None:
    table = scored(tmp_path, 0.2)
    own, bound = table.loc[("epsilon_low", "")], table.loc[("epsilon_low", CERTIFIED)]
    assert 1 < own["mean"] < bound["mean"]
    assert own["ci_low"] == own["mean"]


def test_signs_find_members_behind_a_cut_far_below_the_coordinates(tmp_path: Path) -> None:
    cut = {"gamma": 1e-9, "tau": 0.0, "fraction": 0.5, "noise_var": 0.4}
    captured(
        tmp_path, None, defence={"module": "nvflare-svt", "parameters": cut}, clients=(1,), candidates=OTHERS,
        server="frozen", activation="tanh", rounds=ROUNDS,
    )  # fmt: skip
    found = {}
    for signs in (False, True):
        tensors = guessed(tmp_path, {"module": "alignment", "parameters": {"signs": signs}}, 2)
        rows = rows_of(tmp_path, tensors, "candidates", ["membership_auc"], labels="not needed")
        found[signs] = rows[rows["baseline"] == ""]["membership_auc"].mean()
    assert found[True] > found[False] + 0.1
