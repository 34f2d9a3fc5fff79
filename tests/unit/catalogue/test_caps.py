"""A scale's caps: where they hold, and that they only ever lower a value."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning import MATCHING, capping, planned

from leakbench.catalogue.entry import capped
from leakbench.catalogue.schema import Scale
from tests.unit.catalogue.conftest import ENTRIES

VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 99) | st.floats(0, 99), min_size=3)


@pytest.mark.parametrize(
    ("pattern", "rounds"), [("f", 5), ("*", 5), ("d/f", 5), ("d/*", 5), ("other/f", 200), ("e/*", 200)]
)
def test_a_cap_holds_where_its_pattern_matches(pattern: str, rounds: int, root: Callable[..., Path]) -> None:
    more = dict.fromkeys(("datasets/other", "datasets/e"), ENTRIES["datasets/d"])
    found = planned(root(more | capping({"federations": {pattern: {"rounds": 5}}})))
    assert found.specs["capture/d/v/f/none/0"]["federation"]["rounds"] == rounds


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("m", 5),
        ("d/v/f/none/m", 5),
        ("*/f/*", 5),
        ("*/v/*/m", 5),
        ("d/*", 5),
        ("*/other/*", 10000),
        ("d/f/m", 10000),
    ],
)
def test_a_cap_on_an_attack_may_tell_apart_what_it_runs_on(
    pattern: str, steps: int, root: Callable[..., Path]
) -> None:
    cells = {"cells": [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["m"]}]}
    attack = {"summary": "x", **MATCHING}
    caps = {"attacks": {pattern: {"parameters.iterations": 5}}}
    found = planned(root({"attacks/m": attack, "experiments/e": cells} | capping(caps)))
    assert found.specs["attack/d/v/f/none/m/0"]["attack"]["parameters"]["iterations"] == steps


def test_the_lowest_of_several_caps_holds(root: Callable[..., Path]) -> None:
    found = planned(root(capping({"federations": {"*": {"rounds": 3}, "f": {"rounds": 50}}})))
    assert found.specs["capture/d/v/f/none/0"]["federation"]["rounds"] == 3


def test_capped_epochs_take_their_checkpoints_along(root: Callable[..., Path]) -> None:
    found = planned(root(capping({"victims": {"v*": {"training.epochs": 7}}, "federations": {}})))
    training = found.specs["train/d/v/0"]["victim"]["training"]
    assert (training["epochs"], training["checkpoints"]) == (7, [0, 5, 7])


def test_a_cap_holds_where_there_was_none(root: Callable[..., Path]) -> None:
    found = planned(root(capping({"victims": {"v": {"training.images": 9}}})))
    assert found.specs["train/d/v/0"]["victim"]["training"]["images"] == 9
    assert found.specs["train/d/v-tanh/0"]["victim"]["training"]["images"] is None


@given(VALUES, VALUES)
def test_capping_never_raises_a_value_nor_changes_its_kind(
    value: dict[str, Any], caps: dict[str, float]
) -> None:
    before = dict(value)
    scale = Scale(summary="x", caps={"attacks": {"*": caps}}, null_rounds=1)
    out = capped("attacks", "d", "n", value, scale, "here")
    assert value == before
    for key, number in out.items():
        assert number <= value[key]
        assert type(number) is type(value[key])
        assert number <= caps[key]
