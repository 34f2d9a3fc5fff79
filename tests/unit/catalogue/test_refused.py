"""What a small catalogue is planned as (planned.yaml), and what none may say (refused.yaml)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import specs
import yaml
from hypothesis import given
from hypothesis import strategies as st
from planning import BASES, PAPER, laid, planned

from leakbench.base.errors import UserError
from leakbench.catalogue.entry import capped
from leakbench.catalogue.schema import Scale
from leakbench.catalogue.spec import spec_of

TABLE, SPECS = (
    yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text())
    for name in ("refused", "specs_refused")
)
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


def line_of(verb: str, spec: dict[str, Any]) -> str:
    """Return what is said of a spec, without the file."""
    with pytest.raises(UserError) as refused:
        spec_of(verb, spec, "spec.json")
    line = str(refused.value)
    assert line.startswith("spec.json: ")
    assert line.endswith(")")
    return line.removeprefix("spec.json: ")


def changes_of(row: dict[str, Any]) -> dict[str, Any]:
    return row.get("lay", {}) | dict.fromkeys(row.get("without", ()), ...)


@pytest.mark.parametrize("row", SPECS["mistakes"], ids=lambda row: f"{row['kind']}: {row['says']}")
def test_a_mistake_in_a_spec_is_told_with_its_key(row: dict[str, Any]) -> None:
    """Or with the key of the mapping, where several of its keys do not fit each other."""
    kind = row["kind"]
    ((keys, value),) = changes_of(row).items()
    line = line_of(specs.verb_of(kind), specs.altered(kind, (keys, value)))
    assert f"{line.partition(': ')[0]}.".startswith((f"{keys}.", f"{keys.rpartition('.')[0]}.")), line
    assert row["says"] in line


@pytest.mark.parametrize("row", SPECS["unfit"], ids=lambda row: f"{row['kind']}: {row['says']}")
def test_keys_of_a_spec_that_do_not_fit_each_other_are_told(row: dict[str, Any]) -> None:
    kind = row["kind"]
    spec = specs.altered(kind, *changes_of(row).items())
    assert line_of(specs.verb_of(kind), spec).startswith(row["says"])


ATTACK: dict[str, Any] = {
    "module": "gradient-matching", "labels": "counted", "objective": {"cosine": {}},
    "unknowns": {"dummies": {}}, "optimiser": {"adam": {}},
}  # fmt: skip
SPEC = {"attack_name": "m", "null_rounds": 1, "seed": 0, "attack": ATTACK}


@pytest.mark.parametrize("row", SPECS["attacks"], ids=lambda row: row["says"])
def test_a_mistake_in_the_spec_of_an_attack_is_told(row: dict[str, Any]) -> None:
    own = row.get("attack", ATTACK | row.get("lay", {}))
    assert row["says"] in line_of("attack", SPEC | {"attack": own} | row.get("more", {}))


@pytest.mark.parametrize("section", ["objective", "unknowns", "optimiser", "epochs"])
@pytest.mark.parametrize("value", ["cosine", ["cosine"], [{"cosine": {}}], [3], None])
def test_a_section_of_a_spec_has_the_mapping_form_alone(section: str, value: Any) -> None:
    line = line_of("attack", SPEC | {"attack": ATTACK | {section: value}})
    assert line.startswith(f"attack.{section}: ")
    assert line.endswith(f'(write {{"{section}": {{"NAME": {{}}}}}}; see docs/observation.md)')


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
