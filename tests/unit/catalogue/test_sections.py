"""The sections of an attack's YAML, and whose fault it is where a part fails."""

import fnmatch
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import MATCHING, planned

from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, place
from leakbench.catalogue import sections, signature
from leakbench.catalogue.load import load_kind, odd
from leakbench.catalogue.schema import AttackEntry
from leakbench.catalogue.sections import as_parts, varied
from leakbench.catalogue.signature import constant, declared_metrics, parameters_model, stated

TABLE = yaml.safe_load(Path(__file__).with_name("signatures.yaml").read_text())


def loaded(root: Path, name: str) -> AttackEntry:
    entry = load_kind(root / "config", "attacks")[name]
    assert isinstance(entry, AttackEntry)
    return entry


def test_a_section_has_three_forms() -> None:
    more = {"total-variation": {"weight": 0.1}}
    for value in (["cosine", more], {"cosine": {}} | more, {"cosine": None} | more):
        assert as_parts(value) == {"cosine": {}} | more
    assert as_parts("cosine") == {"cosine": {}}


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


def test_a_check_of_nothing_is_found(root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(("text", "says"), TABLE["terms"])
def test_a_wrong_file_of_a_term_is_named(text: str, says: str, own: Path, root: Callable[..., Path]) -> None:
    own.write_text(text)
    with pytest.raises(UserError) as problem:
        loaded(root({"attacks/m": {"summary": "x"} | MATCHING | {"objective": ["own"]}}), "m")
    assert f"{own}: " in str(problem.value)
    assert says in str(problem.value)


def test_a_sound_term_is_taken(own: Path, root: Callable[..., Path]) -> None:
    own.write_text("def own() -> Distance: ...\n")
    entry = loaded(root({"attacks/m": {"summary": "x"} | MATCHING | {"objective": ["own"]}}), "m")
    assert entry.objective == {"own": {}}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> Path:
    monkeypatch.setattr(signature, "PACKAGE", tmp_path / "package")
    return tmp_path / "package"


UNREAD = {
    b"x = 1\ndef part(:\n": "line 2: invalid syntax", b"x = 1\n\0\n": "line 2: ",
    b"x = 1\n# \xff\n": "line 2: is no UTF-8",
    b"\ndef part(*, x: Annotated[int, Field(gt='x')]): ...\n": "annotation is no plain one: ",
    b"\ndef part(*, x: Literal[()]): ...\n": "annotation is no plain one: ",
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), UNREAD.items())
def test_a_part_that_cannot_be_read_is_named(text: bytes, says: str, package: Path) -> None:
    path = package / place("objectives") / "part.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    says = rf"^{re.escape(str(path))}: .*{says}.* \(mend "
    with pytest.raises(UserError, match=says):
        parameters_model("objectives", "part")


@pytest.mark.parametrize(("cost", "says"), TABLE["costs"])
def test_a_wrong_cost_is_one_line_with_file_and_key(cost: str, says: str, package: Path) -> None:
    path = package / "attacks/part.py"
    path.parent.mkdir(parents=True)
    path.write_text(f"COST = {cost}\ndef part(*, epochs: int = 2): ...\n")
    with pytest.raises(UserError, match=rf"^{re.escape(str(path))}: COST: {says}.* \(.*\)$"):
        stated("attacks", "part", {"calls": 0}, {}, {"tokens": 8})


@pytest.mark.parametrize("read", [declared_metrics, lambda: constant("metrics", "part", "COST", None)])
def test_a_metric_that_is_no_python_is_one_line(read: Callable[[], Any], package: Path) -> None:
    (package / "metrics").mkdir(parents=True)
    (package / "metrics/part.py").write_text("COST = 1\ndef class(): ...\n")
    with pytest.raises(UserError, match=r"part.py: line 2: invalid syntax \(mend the file\)$"):
        read()


@pytest.mark.parametrize("objective", [[3], [None], ["cosine", ["squares"]]])
@pytest.mark.parametrize("key", ["objective", "variants.v.objective", "grid: v.objective"])
def test_a_section_without_a_part_is_refused(objective: Any, key: str, root: Callable[..., Path]) -> None:
    change = {"v": {"objective": objective}}
    changes = {"o": change["v"], "v": {"variants": change}, "g": {"grid": [[change]]}}
    with pytest.raises(UserError, match=rf"config/attacks/m.yaml: {key}: .* names no part \("):
        planned(root({"attacks/m": {"summary": "x", **MATCHING} | changes[key[0]]}))


@pytest.mark.parametrize("objective", [None, "squares", ["squares"], [{"squares": None}], {"squares": {}}])
def test_each_form_of_a_section_is_taken(objective: Any) -> None:
    assert odd({"objective": objective}) == ""
