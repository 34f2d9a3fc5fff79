"""What no catalogue and no spec may say, each with the one line that answers it: see refused.yaml and
specs_refused.yaml."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import specs
import yaml
from planning import BASES, PAPER, laid, planned

from leakbench.base.errors import UserError
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
def test_a_catalogue_is_refused_in_one_line(
    base: str, case: dict[str, Any], root: Callable[..., Path]
) -> None:
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
