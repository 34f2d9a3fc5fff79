"""What a small catalogue is planned as (planned.yaml), and what none may say (refused.yaml)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planning import BASES, PAPER, laid, planned

from leakbench.base.errors import UserError
from leakbench.catalogue.entry import capped
from leakbench.catalogue.schema import Scale

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
