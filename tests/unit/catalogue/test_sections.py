"""The sections of an attack's YAML: their three forms, what a variant changes, and every mistake in one
line."""

import fnmatch
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import MATCHING

from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, place
from leakbench.catalogue import sections, signature
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.schema import Attack
from leakbench.catalogue.sections import named, varied

TERMS = yaml.safe_load(Path(__file__).with_name("signatures.yaml").read_text())["terms"]


def loaded(root: Path, name: str) -> Attack:
    entry = load_kind(root / "config", "attacks")[name]
    assert isinstance(entry, Attack)
    return entry


def test_a_section_has_three_forms() -> None:
    more = {"total-variation": {"weight": 0.1}}
    for value in (["cosine", more], {"cosine": {}} | more, {"cosine": None} | more):
        assert named(value) == {"cosine": {}} | more
    assert named("cosine") == {"cosine": {}}


def test_a_variant_changes_adds_and_leaves_out_parts() -> None:
    base = ["cosine", {"total-variation": {"weight": 0.1, "squared": True}}]
    changed = {"cosine": {}, "total-variation": {"weight": 0.2, "squared": True}}
    assert varied(base, {"total-variation": {"weight": 0.2}}, "objective") == changed
    assert varied(base, {"total-variation": None}, "objective") == {"cosine": {}}
    assert set(varied(base, {"norm": {}}, "objective")) == {"cosine", "total-variation", "norm"}
    assert varied(base, ["norm"], "objective") == ["norm"]
    # A section of one part: the same part keeps its other arguments, another one replaces it.
    adam = {"adam": {"lr": 0.1, "decay": True}}
    assert varied(adam, {"adam": {"lr": 1.0}}, "optimiser") == {"adam": {"lr": 1.0, "decay": True}}
    assert varied(adam, {"rmsprop": {}}, "optimiser") == {"rmsprop": {}}


def test_a_variant_leaves_out_only_what_is_there() -> None:
    with pytest.raises(ValueError, match=r"cosinne: null leaves out a part, .* \(did you mean 'cosine'\?\)"):
        varied(["cosine"], {"cosinne": None}, "objective")
    with pytest.raises(ValueError, match="there are: none"):
        varied(None, {"norm": None}, "objective")


def test_only_defaults_go_with_everything(root: Callable[..., Path]) -> None:
    """A part that excludes much goes with no argument of another value that it excludes."""
    defaults_alone(root, {"epochs": "joint"}, {"enough": 0.1})
    defaults_alone(root, {"optimiser": "cma-es"}, {"updates": "simulated"})
    defaults_alone(root, {"unknowns": "surrogate"}, {"updates": "simulated"})


def test_a_check_that_looks_at_nothing_is_found(
    root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the test above, and those of refused.yaml that have parts which exclude each other."""
    monkeypatch.setattr(sections, "check_fit", lambda entry, where: None)
    with pytest.raises(pytest.fail.Exception):
        defaults_alone(root, {"epochs": "joint"}, {"enough": 0.1})


def defaults_alone(root: Callable[..., Path], change: dict[str, Any], other: dict[str, Any]) -> None:
    plain = {"updates": "one-batch", "restarts": 1, "snapshots": 0, "enough": 0.0}
    entry = {"summary": "x"} | MATCHING | change
    found = loaded(root({"attacks/m": entry | {"parameters": plain}}), "m")
    assert plain.items() <= found.parameters.items()
    with pytest.raises(UserError, match="does not go with"):
        loaded(root({"attacks/m": entry | {"parameters": plain | other}}), "m")


def test_every_part_that_another_excludes_is_there() -> None:
    rooms = ("attacks", "labels", *SECTIONS.values())
    told = [
        (room, name, found)
        for room in rooms
        for name in signature.part_names(room)
        if (found := signature.constant(room, name, "EXCLUDES", None))
    ]
    assert len(told) == 6
    for room, name, excludes in told:
        for own in filter(None, excludes):
            assert own.partition(":")[0] in signature.parameters_model(room, name).model_fields
        for said in (said for others in excludes.values() for said in others):
            key, _, value = said.partition(": ")
            section, _, argument = key.partition(".")
            if section == "parameters":
                assert argument in signature.parameters_model("attacks", "gradient-matching").model_fields
            elif section in SECTIONS:
                assert fnmatch.filter(signature.part_names(SECTIONS[section]), value.partition(" ")[0])


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, forget: None) -> Path:
    """Return the file of a new term, own.py, of a package that is otherwise as it is."""
    for room in ("attacks", "objectives", "labels", "unknowns", "optimisers"):
        folder = tmp_path / "package" / place(room)
        folder.mkdir(parents=True)
        for path in (PACKAGE / place(room)).glob("*.py"):
            (folder / path.name).symlink_to(path)
    monkeypatch.setattr(signature, "PACKAGE", tmp_path / "package")
    return tmp_path / "package" / place("objectives") / "own.py"


@pytest.mark.parametrize(("text", "says"), TERMS)
def test_what_is_wrong_in_the_file_of_a_term_is_said_of_that_file(
    text: str, says: str, own: Path, root: Callable[..., Path]
) -> None:
    own.write_text(text)
    with pytest.raises(UserError) as problem:
        loaded(root({"attacks/m": {"summary": "x"} | MATCHING | {"objective": ["own"]}}), "m")
    assert f"{own}: " in str(problem.value)
    assert says in str(problem.value)


def test_a_sound_term_is_taken(own: Path, root: Callable[..., Path]) -> None:
    own.write_text("def own() -> Distance: ...\n")
    entry = loaded(root({"attacks/m": {"summary": "x"} | MATCHING | {"objective": ["own"]}}), "m")
    assert entry.objective == {"own": {}}
