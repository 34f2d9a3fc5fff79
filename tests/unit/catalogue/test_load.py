"""Reading the YAML: variants, merging, suggestions."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbench.catalogue.load import file_of, find, load_kind, merge
from leakbench.catalogue.schema import Victim
from leakbench.errors import UserError
from leakbench.yamls import suggest

MAPPINGS = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner | st.integers(), max_size=3),
    max_leaves=8,
)


def test_a_variant_is_its_file_with_some_keys_changed(root: Callable[..., Path]) -> None:
    victims = load_kind(root() / "config", "victims")
    assert set(victims) == {"v", "v-tanh", "v-raw"}
    plain, tanh, raw = (victims[name] for name in ("v", "v-tanh", "v-raw"))
    assert isinstance(plain, Victim)
    assert isinstance(tanh, Victim)
    assert isinstance(raw, Victim)
    assert tanh.parameters == {**plain.parameters, "activation": "tanh"}
    assert tanh.training == plain.training
    assert raw.training is None
    assert {victim.module for victim in (plain, tanh, raw)} == {"fcnn"}


def test_defaults_of_a_part_are_written_out(root: Callable[..., Path]) -> None:
    victim = load_kind(root() / "config", "victims")["v"]
    assert isinstance(victim, Victim)
    assert victim.parameters["activation"] == "relu"
    assert victim.parameters["dropout"] == 0.0


def test_a_part_without_module_is_the_file_of_its_name(root: Callable[..., Path]) -> None:
    assert load_kind(root() / "config", "defences")["none"].module == "none"  # type: ignore[attr-defined]


@given(MAPPINGS)
def test_merging_nothing_changes_nothing(base: dict) -> None:
    assert merge(base, {}) == base
    assert merge(base, base) == base


@given(MAPPINGS, MAPPINGS)
def test_merging_is_key_by_key_and_leaves_its_arguments_alone(base: dict, over: dict) -> None:
    before = repr(base), repr(over)
    out = merge(base, over)
    assert (repr(base), repr(over)) == before
    assert out.keys() == base.keys() | over.keys()
    for key in out:
        if key not in over:
            assert out[key] == base[key]
        elif isinstance(over[key], dict) and isinstance(base.get(key), dict):
            assert out[key] == merge(base[key], over[key])
        else:
            assert out[key] == over[key]


def test_suggestions() -> None:
    assert suggest("agci", ["agic", "dlg"]) == "did you mean 'agic'?"
    assert suggest("zzz", ["b", "a"]) == "there are: a, b"
    assert suggest("zzz", []) == "there are: none"


def test_a_name_is_looked_up_where_it_was_asked_for(root: Callable[..., Path]) -> None:
    config = root() / "config"
    assert find(config, "victims", "v-tanh", "here") is load_kind(config, "victims")["v-tanh"]
    with pytest.raises(
        UserError, match=r"^here: victim 'v-tan' is not in .*victims \(did you mean 'v-tanh'\?\)$"
    ):
        find(config, "victims", "v-tan", "here")


def test_the_file_of_an_entry(root: Callable[..., Path]) -> None:
    config = root({"victims/v-tan": {"summary": "x", "module": "fcnn"}}) / "config"
    for name, file in (("v", "v"), ("v-raw", "v"), ("v-tan", "v-tan"), ("v-tan-x", "v-tan"), ("w", "w")):
        assert file_of(config, "victims", name) == config / "victims" / f"{file}.yaml"
