"""Reading the YAML: variants, merging, suggestions; what a catalogue is planned as, and what none may say."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planning import BASES, MATCHING, PAPER, laid, planned

from leakbench.base.errors import UserError
from leakbench.base.yamls import suggest
from leakbench.catalogue.entry import capped
from leakbench.catalogue.load import file_of, find, load_kind, merge
from leakbench.catalogue.schema import Scale
from tests.unit.catalogue.conftest import ENTRIES

MAPPINGS = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner | st.integers(), max_size=3),
    max_leaves=8,
)


def test_a_variant_is_its_file_with_some_keys_changed(root: Callable[..., Path]) -> None:
    victims = load_kind(root() / "config", "victims")
    assert set(victims) == {"v", "v-tanh", "v-raw"}
    plain, tanh, raw = (victims[name] for name in ("v", "v-tanh", "v-raw"))
    assert tanh.parameters == {**plain.parameters, "activation": "tanh"}
    assert tanh.training == plain.training
    assert raw.training is None
    assert {victim.module for victim in (plain, tanh, raw)} == {"fcnn"}


def test_a_point_of_a_grid_has_a_word_and_the_changes_of_each_axis(root: Callable[..., Path]) -> None:
    tanh, raw = {"parameters": {"activation": "tanh"}}, {"training": None}
    grid = [[{"": None, "narrow": {"parameters": {"width": 3}}}, {"tanh": tanh, 5: {}}], [{"raw": raw}]]
    config = root({"victims/v": {"variants": {"own": {}}, "grid": grid}}) / "config"
    victims = load_kind(config, "victims")
    assert set(victims) == {"v", "v-own", "v-tanh", "v-5", "v-narrow-tanh", "v-narrow-5", "v-raw"}
    wide = victims["v"].parameters
    assert victims["v-narrow-tanh"].parameters == wide | {"width": 3, "activation": "tanh"}
    assert victims["v-tanh"].parameters == wide | {"activation": "tanh"}
    assert victims["v-raw"].training is None
    assert file_of(config, "victims", "v-narrow-tanh").name == "v.yaml"


@given(MAPPINGS, MAPPINGS)
def test_merging_is_key_by_key_and_leaves_its_arguments_alone(base: dict, over: dict) -> None:
    before = repr(base), repr(over)
    out = merge(base, over)
    assert (repr(base), repr(over)) == before
    assert out.keys() == base.keys() | over.keys()
    for key, value in out.items():
        inner = isinstance(over.get(key), dict) and isinstance(base.get(key), dict)
        assert value == (merge(base[key], over[key]) if inner else over.get(key, base.get(key)))


def test_suggestions() -> None:
    assert suggest("agci", ["agic", "dlg"]) == "did you mean 'agic'?"
    assert suggest("zzz", ["b", "a"]) == "there are: a, b"
    assert suggest("zzz", []) == "there are: none"


def test_a_name_is_looked_up_where_it_was_asked_for(root: Callable[..., Path]) -> None:
    config = root() / "config"
    says = r"^here: victim 'v-tan' is not in .*victims \(did you mean 'v-tanh'\?\)$"
    assert find(config, "victims", "v-tanh", "here") is load_kind(config, "victims")["v-tanh"]
    with pytest.raises(UserError, match=says):
        find(config, "victims", "v-tan", "here")


def test_the_file_of_an_entry(root: Callable[..., Path]) -> None:
    config = root({"victims/v-tan": {"summary": "x", "module": "fcnn"}}) / "config"
    for name, file in (("v", "v"), ("v-raw", "v"), ("v-tan", "v-tan"), ("v-tan-x", "v-tan"), ("w", "w")):
        assert file_of(config, "victims", name) == config / "victims" / f"{file}.yaml"


# An entry of each kind that has numbers; the attack has them in a section and in its parameters.
NUMBERED: dict[str, dict[str, Any]] = ENTRIES | {
    "attacks/m": {"summary": "x", **MATCHING, "optimiser": {"adam": {}}, "parameters": {}},
    "trainings/t": {"summary": "x", "optimiser": "sgd", "lr": 0.1, "batch_size": 5, "rounds": 3},
}
WHOLE = [
    ("attacks/m", "parameters.iterations"), ("victims/v", "training.epochs"),
    ("victims/v", "training.batch_size"), ("federations/f", "rounds"), ("federations/f", "clients.0"),
    ("federations/f", "private.stop"), ("federations/f", "local.epochs"), ("trainings/t", "rounds"),
    ("datasets/d", "classes"), ("datasets/d", "counts.train"), ("datasets/d", "shape.0"),
    ("experiments/e", "seeds.0"), ("scales/quick", "null_rounds"),
]  # fmt: skip
BROKEN = [
    ("attacks/m", "optimiser.adam.lr"), ("victims/v", "training.lr"), ("federations/f", "local.lr"),
    ("trainings/t", "lr"),
]  # fmt: skip


MARK = 12345


def with_number(root: Callable[..., Path], name: str, key: str, text: str) -> Any:
    """Return an entry in whose YAML one key has this text."""
    entry = deepcopy(NUMBERED[name])
    *above, last = key.split(".")
    inside: Any = entry
    for part in above:
        inside = inside[part]
    inside[int(last) if isinstance(inside, list) else last] = MARK
    place, (kind, _, own) = root({name: entry}), name.partition("/")
    (file,) = place.glob(f"*/{name}.yaml") if kind != "experiments" else place.glob(f"papers/*/{name}.yaml")
    file.write_text(file.read_text().replace(str(MARK), text))
    return load_kind(place / "config", kind)[own]


@pytest.mark.parametrize(("name", "key"), [*WHOLE, *BROKEN])
@pytest.mark.parametrize("text", ["yes", '"10"', "'1e-4'", "''", "[3]"])
def test_what_is_no_number_is_refused(name: str, key: str, text: str, root: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=rf"{name}\.yaml: {key}: .*valid (integer|number), got "):
        with_number(root, name, key, text)


@pytest.mark.parametrize(("name", "key"), [*WHOLE, *BROKEN])
@pytest.mark.parametrize("text", ["10000001", str(10**30), "1e308"])
def test_a_number_beyond_jobs_is_refused(name: str, key: str, text: str, root: Callable[..., Path]) -> None:
    if (key, text) == ("seeds.0", "10000001"):
        assert with_number(root, name, key, text).seeds[0] == int(text)
        return
    # What is too large for an image is said of its shape.
    where = "shape: .*an image of more than" if key == "shape.0" and text.isdigit() else f"{key}: "
    with pytest.raises(UserError, match=rf"{name}\.yaml: {where}.* \(.*\)$"):
        with_number(root, name, key, text)


@pytest.mark.parametrize(("name", "key"), BROKEN)
@pytest.mark.parametrize(("text", "value"), [("1e-4", 1e-4), ("1", 1.0), ("0.5", 0.5)])
def test_a_number_may_be_written_in_each_way(
    name: str, key: str, text: str, value: float, root: Callable[..., Path]
) -> None:
    found = with_number(root, name, key, text)
    for part in key.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert (found, type(found)) == (value, float)


def test_a_number_as_a_key_may_be_quoted_as_in_json(root: Callable[..., Path]) -> None:
    budget = {"length": 0.5, "trials": {"5": 1000}, "training": 1000, "total": 1000}
    config = root({"scales/quick": {"budget": budget}}) / "config"
    assert load_kind(config, "scales")["quick"].budget.trials == {5: 1000}


def test_lists_stand_for_tuples(root: Callable[..., Path]) -> None:
    """Both in an entry of its own and in the parameters of a part."""
    wide = {"summary": "x", "module": "mlp", "parameters": {"hidden": [3, 4]}}
    config = root({"victims/wide": wide}) / "config"
    assert load_kind(config, "datasets")["d"].shape == (28, 28, 1)
    assert load_kind(config, "victims")["wide"].parameters["hidden"] == (3, 4)
    wide["parameters"] = {"hidden": [3, True]}
    (config / "victims/wide.yaml").write_text(yaml.safe_dump(wide))
    load_kind.cache_clear()
    with pytest.raises(UserError, match=r"parameters\.hidden\.1: .*valid integer, got True"):
        load_kind(config, "victims")


TABLE = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())
CASES = [
    pytest.param(base, case, id=f"{base}: {case['says']}"[:80])
    for base, cases in TABLE["cases"].items()
    for case in cases
]


@pytest.mark.parametrize(("base", "case"), CASES)
def test_a_catalogue_is_refused_in_a_line(base: str, case: dict[str, Any], root: Callable[..., Path]) -> None:
    changes = {name: value for name, value in case.items() if name != "says"}
    place = root(laid(BASES[base], changes))
    if base == "budget":
        # A budget limits experiments of papers alone.
        (place / "papers/own/paper.yaml").write_text(yaml.safe_dump(PAPER))
    with pytest.raises(UserError, match=case["says"]):
        planned(place)


@pytest.mark.parametrize("base", ["words", "studies", "malicious", "matching", "budget", "text"])
def test_what_the_changes_are_laid_upon_is_planned(base: str, root: Callable[..., Path]) -> None:
    """Guards the test above."""
    planned(root(BASES[base]))


PLANNED = yaml.safe_load(Path(__file__).with_name("planned.yaml").read_text())
VALUES = st.dictionaries(st.sampled_from("abc"), st.integers(0, 99) | st.floats(0, 99), min_size=3)


def at(value: Any, keys: str) -> Any:
    """Return what a spec holds at a key, or the word that it lacks the key."""
    for key in keys.split("."):
        known = dict(enumerate(value)) if isinstance(value, list) else value
        value = known.get(int(key) if isinstance(value, list) else key, "lacks")
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("case", PLANNED, ids=lambda case: str(case["shows"]))
def test_a_catalogue_is_planned_as_it_says(case: dict[str, Any], root: Callable[..., Path]) -> None:
    base = BASES[case.get("base", "plain")]
    found = planned(root(laid(base, case.get("lay", {}))))
    for name, wanted in case.get("specs", {}).items():
        assert {keys: at(found.specs[name], keys) for keys in wanted} == wanted, name
    assert not found.specs.keys() & {*case.get("lacks", ())}
    cells = sorted(cell.stem for cell in found.experiments["e"])
    assert cells == sorted(case.get("cells", cells))


@given(VALUES, VALUES)
def test_caps_never_raise_a_value_nor_change_its_kind(value: dict[str, Any], caps: dict[str, float]) -> None:
    before = dict(value)
    scale = Scale(summary="x", caps={"attacks": {"*": caps}}, null_rounds=1)
    out = capped("attacks", "d", "n", value, scale, "here")
    assert value == before
    for key, number in out.items():
        assert number <= min(value[key], caps[key])
        assert type(number) is type(value[key])
