"""The sections of an attack's YAML: their three forms, what a variant changes, and every mistake in one
line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakbench.catalogue.load import attack_of, load_kind
from leakbench.catalogue.schema import Attack
from leakbench.catalogue.sections import FLAT, named, varied
from leakbench.errors import UserError

MATCHING: dict[str, Any] = {
    "module": "gradient-matching",
    "objective": ["cosine"],
    "unknowns": "dummies",
    "optimiser": "adam",
}


def loaded(root: Path, name: str) -> Attack:
    load_kind.cache_clear()
    entry = load_kind(root / "config", "attacks")[name]
    assert isinstance(entry, Attack)
    return entry


@pytest.mark.parametrize(
    "value",
    [
        ["cosine", {"total-variation": {"weight": 0.1}}],
        {"cosine": {}, "total-variation": {"weight": 0.1}},
        {"cosine": None, "total-variation": {"weight": 0.1}},
    ],
)
def test_a_section_has_three_forms(value: Any) -> None:
    assert named(value) == {"cosine": {}, "total-variation": {"weight": 0.1}}
    assert named("cosine") == {"cosine": {}}


def test_a_variant_changes_adds_and_leaves_out_parts() -> None:
    base = ["cosine", {"total-variation": {"weight": 0.1, "squared": True}}]
    assert varied(base, {"total-variation": {"weight": 0.2}}, "objective") == {
        "cosine": {},
        "total-variation": {"weight": 0.2, "squared": True},
    }
    assert varied(base, {"total-variation": None}, "objective") == {"cosine": {}}
    assert set(varied(base, {"norm": {}}, "objective")) == {"cosine", "total-variation", "norm"}
    assert varied(base, ["norm"], "objective") == ["norm"]
    # A section of one part: the same part keeps its other arguments, another one replaces it.
    adam = {"adam": {"lr": 0.1, "decay": True}}
    assert varied(adam, {"adam": {"lr": 1.0}}, "optimiser") == {"adam": {"lr": 1.0, "decay": True}}
    assert varied(adam, {"rmsprop": {}}, "optimiser") == {"rmsprop": {}}


def test_defaults_are_filled_in_and_variants_resolved(root: Callable[..., Path]) -> None:
    entry = MATCHING | {"variants": {"slow": {"optimiser": {"adam": {"lr": 0.5}}}}}
    where = root({"attacks/m": {"summary": "x"} | entry})
    assert loaded(where, "m").optimiser == {"adam": {"lr": 0.1, "signed": False, "decay": False}}
    assert loaded(where, "m-slow").optimiser["adam"]["lr"] == 0.5
    assert loaded(where, "m-slow").objective == {"cosine": {}}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such term": ({"objective": ["cosin"]}, "objective: 'cosin' is no part of src/leakbench/objectives"),
    "no such argument": (
        {"objective": ["cosine", {"total-variation": {"wait": 1}}]}, "objective.total-variation."
    ),
    "a bad value": ({"optimiser": {"adam": {"lr": -1}}}, "optimiser.adam.lr: "),
    "a share of nothing": (
        {"objective": ["cosine", {"partial-gradient": {"share": 0}}]}, "objective.partial-gradient.share: "
    ),
    "a penalty without a reach": (
        {"objective": ["cosine", {"slope-penalty": {"weight": 1, "reach": 0}}]},
        "objective.slope-penalty.reach: ",
    ),
    "a rate that rises": ({"optimiser": {"adam": {"decay": 1.5}}}, "optimiser.adam.decay"),
    "no such reading": ({"parameters": {"updates": "full"}}, "parameters.updates: "),
    "no such precision": ({"parameters": {"precision": "float16"}}, "parameters.precision: "),
    "no distance": ({"objective": {"total-variation": {"weight": 1}}}, "needs a distance of gradients"),
    "weights twice": (
        {"objective": ["cosine", "layer-weights", {"layer-weights": {}}]}, "'layer-weights' is given twice"
    ),
    "two optimisers": ({"optimiser": ["adam", "rmsprop"]}, "names adam, rmsprop, and one part is needed"),
    "a section is missing": ({"unknowns": {}}, "module gradient-matching needs this section"),
    "a section that does not fit": ({"module": "fidel"}, "module fidel takes no such section"),
    "no such rule": ({"labels": "inferred"}, "labels: 'inferred' is neither none, oracle, joint nor a rule"),
    "no such module": ({"module": "joint-matching"}, "module: no file joint_matching.py"),
    "neither form": ({"objective": 3}, "objective: "),
    "arguments that are none": ({"objective": {"cosine": 3}}, "objective: "),
}  # fmt: skip


@pytest.mark.parametrize("case", sorted(MISTAKES))
def test_a_mistake_in_a_section_is_one_line(case: str, root: Callable[..., Path]) -> None:
    changes, says = MISTAKES[case]
    where = root({"attacks/m": {"summary": "x"} | MATCHING | changes})
    with pytest.raises(UserError) as problem:
        loaded(where, "m")
    assert says in str(problem.value)
    assert "config/attacks/m.yaml" in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("key", sorted(FLAT))
def test_the_flat_form_is_shown_the_new_one(key: str, root: Callable[..., Path]) -> None:
    where = root({"attacks/m": {"summary": "x"} | MATCHING | {"parameters": {key: 1}}})
    with pytest.raises(UserError, match="the parts of an attack have sections of their own") as problem:
        loaded(where, "m")
    assert f"parameters.{key}" in str(problem.value)
    assert FLAT[key] in str(problem.value)


def test_a_mistake_in_a_variant_names_it(root: Callable[..., Path]) -> None:
    bad = MATCHING | {"variants": {"bad": {"objective": {"cosine": 3}}}}
    where = root({"attacks/m": {"summary": "x"} | bad})
    with pytest.raises(UserError, match=r"variants\.bad") as problem:
        loaded(where, "m")
    assert "\n" not in str(problem.value)


SPEC: dict[str, Any] = {"attack_name": "m", "null_rounds": 1, "seed": 0}


def test_a_spec_written_by_hand_has_its_defaults() -> None:
    entry = attack_of(SPEC | {"attack": {"module": "fidel"}}, "spec.json")
    assert entry["parameters"] == {"combine": False, "neurons": None}
    assert (entry["generator"], entry["labels"], entry["objective"]) == (None, "none", {})


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"attack": {"module": "fidel"}, "seed": 0}, "is missing"),
        (SPEC | {"attack": []}, "attack: is no mapping"),
        (SPEC | {"attack": {"module": "fidel", "generator": {"mnist": "x"}}}, "attack: is no mapping"),
        (SPEC | {"attack": {"module": "nothing"}}, "no file nothing.py"),
        (SPEC | {"attack": {"module": "../verbs/new"}}, "module"),
        (SPEC | {"attack": {"module": "fidel", "parameters": {"neurons": "many"}}}, "neurons"),
        (SPEC | {"attack": MATCHING | {"objective": {"cosine": {"no": 1}}}}, "objective.cosine."),
    ],
)
def test_a_spec_with_a_wrong_name_or_type_is_one_line(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as problem:
        attack_of(spec, "spec.json")
    assert says in str(problem.value)
    assert str(problem.value).startswith("spec.json: ")
    assert "\n" not in str(problem.value)
