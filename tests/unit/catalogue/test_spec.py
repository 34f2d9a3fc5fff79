"""The spec of a job is checked to its last value, and each mistake is one line with file and key."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from specs import CELL, SPECS, altered, at, verb_of

from leakbench.base.errors import UserError
from leakbench.catalogue.spec import spec_of

NO_TEXT = "\ud800"
# No key of a spec may hold one of these.
NEVER: tuple[Any, ...] = (math.nan, math.inf, -math.inf, 2**70, [None], {"momentun": 1}, [[[]]], NO_TEXT)
# Some may hold these.
SOME: tuple[Any, ...] = (None, True, -1, 0, 1.5, "", "x", "../x", "10", [], {})
# What is checked as an entry of the catalogue is.
OF_THE_ATTACK = ("attack", "attack_name", "null_rounds", "seed")
# What a spec may be without: what says something only where it is given, arguments with a default, and names.
MAY_LACK = {
    "victim": {"victim.parameters.hidden", "victim.training.options.nesterov"},
    "generator": {"victim.parameters.hidden", "generator.training.options.nesterov"},
    "study": {
        "encryption", "encryption.parameters.pieces", "training.options.rho", "training.fusion",
        "training.privacy", "training.poisoned", "training.faults", "victim.parameters.hidden",
    },
    "capture": {
        "malicious", "malicious.parameters.bins", "victim.parameters.hidden", "federation.candidates",
        "federation.begins",
    },
    "attack": {"adaptation", "defence", "defence.parameters"},
    "score": set(),
    "table": {f"cells_left_out.{CELL}", f"shares.{CELL}", f"shares.{CELL}.victim"},
}  # fmt: skip


def keys_of(value: Any, *above: str) -> Iterator[str]:
    """Yield the keys of everything within a value, with dots between them."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield ".".join((*above, str(key)))
        if isinstance(inside, dict | list):
            yield from keys_of(inside, *above, str(key))


def line_of(kind: str, spec: dict[str, Any]) -> str:
    """Return what is said of a spec, without the file; "" where it passes."""
    try:
        spec_of(verb_of(kind), spec, "spec.json")
    except UserError as problem:
        line = str(problem)
        assert line.startswith("spec.json: "), line
        assert line.endswith(")"), line
        return line.removeprefix("spec.json: ")
    return ""


@pytest.mark.parametrize("kind", SPECS)
def test_a_sound_spec_passes(kind: str) -> None:
    assert line_of(kind, SPECS[kind]) == ""


@pytest.mark.parametrize("kind", SPECS)
def test_whatever_a_key_holds_is_taken_or_refused_in_one_line_that_names_it(kind: str) -> None:
    for keys in keys_of(SPECS[kind]):
        first = keys.partition(".")[0]
        for value in NEVER if first not in OF_THE_ATTACK else ():
            line = line_of(kind, altered(kind, (keys, value)))
            # JSON that holds no text is refused as a whole.
            named = "(whole file)" if value == NO_TEXT else first
            assert line.startswith(named), f"{keys}: {value!r}: {line}"
        for value in SOME:
            line_of(kind, altered(kind, (keys, value)))


@pytest.mark.parametrize("kind", SPECS)
def test_every_mapping_knows_its_keys(kind: str) -> None:
    for keys in ("", *keys_of(SPECS[kind])):
        # The attack's own keys are those of the catalogue.
        own = keys.partition(".")[0] in OF_THE_ATTACK
        if not own and isinstance(at(SPECS[kind], keys), dict):
            unknown = f"{keys}.momentun".removeprefix(".")
            line = line_of(kind, altered(kind, (unknown, [])))
            assert line.startswith(f"{unknown}: "), line


@pytest.mark.parametrize("kind", SPECS)
def test_a_spec_may_lack_only_what_says_something_where_it_is_given(kind: str) -> None:
    spec = SPECS[kind]
    lists = [keys for keys in keys_of(spec) if isinstance(at(spec, keys), list)]
    every = [keys for keys in keys_of(spec) if keys.partition(".")[0] not in OF_THE_ATTACK]
    mapped = [keys for keys in every if keys.rpartition(".")[0] not in lists]
    assert {keys for keys in mapped if not line_of(kind, altered(kind, (keys, ...)))} == MAY_LACK[kind]


def test_what_is_known_of_a_defence_may_be_for_who_does_not_adapt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then its file holds the function `unadapted` alone."""
    of_file = altered("attack", ("adaptation.module", "own-defence"))
    assert "is no part of src/leakbench/attacks/adaptive" in line_of("attack", of_file)
    monkeypatch.setattr("leakbench.catalogue.spec.names", lambda room: ["own_defence"])
    assert line_of("attack", of_file) == ""


def test_a_spec_too_deep_to_read_is_refused() -> None:
    deep = json.loads(300 * '{"a":' + "1" + 300 * "}")
    assert line_of("victim", altered("victim", ("victim.parameters", deep))).startswith("(whole file): ")


def test_a_spec_written_by_hand_has_its_defaults() -> None:
    spec = {"attack_name": "m", "null_rounds": 1, "seed": 0, "attack": {"module": "fidel"}}
    entry = spec_of("attack", spec, "spec.json").attack
    assert entry.parameters == {"combine": False, "neurons": None}
    assert (entry.generator, entry.labels, entry.objective) == (None, "none", {})


REFUSED = yaml.safe_load(Path(__file__).with_name("specs_refused.yaml").read_text())


def changes_of(row: dict[str, Any]) -> dict[str, Any]:
    return row.get("lay", {}) | dict.fromkeys(row.get("without", ()), ...)


@pytest.mark.parametrize("row", REFUSED["mistakes"], ids=lambda row: f"{row['kind']}: {row['says']}")
def test_a_mistake_in_a_spec_is_told_with_its_key(row: dict[str, Any]) -> None:
    """Or with the key of the mapping, where several of its keys do not fit each other."""
    kind = row["kind"]
    ((keys, value),) = changes_of(row).items()
    line = line_of(kind, altered(kind, (keys, value)))
    assert f"{line.partition(': ')[0]}.".startswith((f"{keys}.", f"{keys.rpartition('.')[0]}.")), line
    assert row["says"] in line


@pytest.mark.parametrize("row", REFUSED["unfit"], ids=lambda row: f"{row['kind']}: {row['says']}")
def test_keys_of_a_spec_that_do_not_fit_each_other_are_told(row: dict[str, Any]) -> None:
    kind = row["kind"]
    spec = altered(kind, *changes_of(row).items())
    assert line_of(kind, spec).startswith(row["says"])


MATCHED: dict[str, Any] = {
    "module": "gradient-matching", "labels": "counted", "objective": {"cosine": {}},
    "unknowns": {"dummies": {}}, "optimiser": {"adam": {}},
}  # fmt: skip
OF_ATTACK = {"attack_name": "m", "null_rounds": 1, "seed": 0, "attack": MATCHED}


@pytest.mark.parametrize("row", REFUSED["attacks"], ids=lambda row: row["says"])
def test_a_mistake_in_the_spec_of_an_attack_is_told(row: dict[str, Any]) -> None:
    own = row.get("attack", MATCHED | row.get("lay", {}))
    assert row["says"] in line_of("attack", OF_ATTACK | {"attack": own} | row.get("more", {}))


@pytest.mark.parametrize("section", ["objective", "unknowns", "optimiser", "epochs"])
@pytest.mark.parametrize("value", ["cosine", ["cosine"], [{"cosine": {}}], [3], None])
def test_a_section_of_a_spec_has_the_mapping_form_alone(section: str, value: Any) -> None:
    line = line_of("attack", OF_ATTACK | {"attack": MATCHED | {section: value}})
    assert line.startswith(f"attack.{section}: ")
    assert line.endswith(f'(write {{"{section}": {{"NAME": {{}}}}}}; see docs/observation.md)')
