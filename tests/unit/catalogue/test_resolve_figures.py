"""What the plan tells a figure: titles, order, drawings, metrics."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from planning import MATCHING, planned

from leakbench.base.errors import UserError
from leakbench.catalogue.run import write


def test_a_figure_knows_the_title_of_each_part(root: Callable[..., Path]) -> None:
    variants = {"tanh": {"parameters": {"activation": "tanh"}}, "raw": {"training": None}}
    titled = {
        "title": "net of {activation}, {variant}",
        "parameters": {"activation": "relu"},
        "variants": variants,
    }
    parts = planned(root({"victims/v": titled})).specs["figure/e"]["parts"]
    assert [part["title"] for part in parts["victim"]] == ["net of relu", "net of tanh, tanh"]
    assert [part["title"] for part in parts["dataset"]] == ["d"]


def test_a_figure_knows_the_parts_in_the_order_of_the_experiment_at_full_size(
    root: Callable[..., Path],
) -> None:
    cells = [{"dataset": ["d"], "victim": ["v-tanh", "v"], "federation": ["f"], "attack": ["b", "a"]}]
    place = root(
        {"experiments/e": {"cells": cells}, "attacks/b": MATCHING | {"parameters": {"iterations": 70}}}
    )
    (place / "config/scales/quick.yaml").write_text(
        "summary: x\nnull_rounds: 2\ncaps: {attacks: {b: {parameters.iterations: 7}}}\n"
    )
    found = planned(place)
    parts = found.specs["figure/e"]["parts"]
    assert [part["name"] for part in parts["victim"]] == ["v-tanh", "v"]
    assert [part["name"] for part in parts["attack"]] == ["b", "a"]
    assert parts["attack"][0]["parameters"]["iterations"] == 70
    assert found.specs["attack/d/v/f/none/b/0"]["attack"]["parameters"]["iterations"] == 7
    assert found.specs["figure/e"]["figure"][0]["y"] == ["attack"]


def test_a_figure_keeps_the_order_in_which_its_values_are_listed(root: Callable[..., Path]) -> None:
    columns = {"noise": {"by": "defence", "none": "0", "*-1e-2": "0.01", "else": "0.1"}}
    place = root()
    experiment = place / "papers/own/experiments/e.yaml"
    figure = {"figure": {"drawing": "dots", "metrics": ["mse"], "columns": columns}}
    experiment.write_text(yaml.safe_dump(yaml.safe_load(experiment.read_text()) | figure, sort_keys=False))
    write(planned(place), place)
    spec = json.loads((place / "results/quick/specs/figure/e.json").read_text())
    assert list(spec["figure"][0]["columns"]["noise"]) == ["by", "none", "*-1e-2", "else"]


def test_several_drawings_stand_below_each_other(root: Callable[..., Path]) -> None:
    figure = [{"drawing": "dots", "metrics": ["mse"]}, {"drawing": "grid", "most": 3}]
    found = planned(root({"experiments/e": {"figure": figure}})).specs["figure/e"]["figure"]
    assert [part["drawing"] for part in found] == ["dots", "grid"]
    assert found[1]["most"] == 3


def test_success_is_asked_of_what_is_scored(root: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="success: 'ssim' is not scored"):
        planned(root({"experiments/e": {"success": ["ssim"]}}))
    found = planned(root({"experiments/e": {"success": ["mse"]}}))
    assert found.specs["table/e"]["experiment"]["success"] == ["mse"]


def test_a_figure_has_a_title_for_all_that_a_longer_run_has(root: Callable[..., Path]) -> None:
    """The recorded table of another scale may stand in the place of this one's."""
    cells = [
        {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["all", "c-x"], "but": ["b"]},
        {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "defence": ["all"], "attack": ["a"]},
    ]
    titled = {"summary": "x", "title": "C {variant}", "variants": {"x": {}, "y": {}}}
    place = root(
        {
            "experiments/e": {"cells": cells},
            "attacks/c": MATCHING | titled,
            "defences/clip": {"summary": "x", "title": "clip to {norm:g}", "parameters": {"norm": 2.0}},
        }
    )
    (place / "config/scales/quick.yaml").write_text("summary: x\nnull_rounds: 2\nleft_out: {e: too dear}\n")
    found = planned(place)
    assert found.experiments["e"] == []
    parts = found.specs["figure/e"]["parts"]
    assert [(part["name"], part["title"]) for part in parts["attack"]] == [
        ("a", "a"), ("c", "C"), ("c-x", "C x"),
    ]  # fmt: skip
    assert [part["title"] for part in parts["defence"]] == ["none", "clip to 2"]


def test_a_map_beside_an_unknown_experiment_is_one_line(root: Callable[..., Path]) -> None:
    figure = {
        "drawing": "squares",
        "metrics": ["mse"],
        "down": "attack",
        "across": "victim",
        "beside": ["ee"],
    }
    with pytest.raises(UserError, match=r"figure.beside: experiment 'ee' is not in .*did you mean 'e'"):
        planned(root({"experiments/e": {"figure": figure}}))
