"""The sections of an attack's YAML: their three forms, what a variant changes, and every mistake in one
line."""

import fnmatch
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, place
from leakbench.catalogue import sections, signature
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.schema import Attack
from leakbench.catalogue.sections import named, varied
from leakbench.catalogue.spec import spec_of

MATCHING: dict[str, Any] = {
    "module": "gradient-matching",
    "labels": "counted",
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


def test_a_variant_leaves_out_only_what_is_there() -> None:
    with pytest.raises(ValueError, match=r"cosinne: null leaves out a part, .* \(did you mean 'cosine'\?\)"):
        varied(["cosine"], {"cosinne": None}, "objective")
    with pytest.raises(ValueError, match="there are: none"):
        varied(None, {"norm": None}, "objective")


def test_defaults_are_filled_in_and_variants_resolved(root: Callable[..., Path]) -> None:
    entry = MATCHING | {"variants": {"slow": {"optimiser": {"adam": {"lr": 0.5}}}}}
    where = root({"attacks/m": {"summary": "x"} | entry})
    assert loaded(where, "m").optimiser == {"adam": {"lr": 0.1, "signed": False, "decay": False}}
    assert loaded(where, "m-slow").optimiser["adam"]["lr"] == 0.5
    assert loaded(where, "m-slow").objective == {"cosine": {}}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such term": (
        {"objective": ["cosin"]}, "objective: 'cosin' is no part of src/leakbench/attacks/matching/objectives"
    ),
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
    "no labels": ({"labels": "none"}, "labels: is none, and a gradient is matched with labels (write "),
    "no such rule": ({"labels": "inferred"}, "labels: 'inferred' is neither none, oracle, joint nor a rule"),
    "no such module": ({"module": "joint"}, "module: no file joint.py"),
    "neither form": ({"objective": 3}, "objective: "),
    "arguments that are none": ({"objective": {"cosine": 3}}, "objective: "),
    "a switch for a number": ({"optimiser": {"adam": {"lr": True}}}, "optimiser.adam.lr: "),
    "a word for a number": ({"parameters": {"iterations": "10"}}, "parameters.iterations: "),
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


APART: dict[str, tuple[dict[str, Any], str, str]] = {
    "latents without a generator": ({"unknowns": "latent"}, "generator: none", "unknowns: latent"),
    "latents without classes": (
        {"unknowns": "latent", "labels": "joint", "generator": {"d": "g"}},
        "labels: joint", "unknowns: latent",
    ),
    "a rule without its samples": ({"labels": "rlu"}, "generator: none", "labels: rlu"),
    "candidates of simulated steps": (
        {"optimiser": "cma-es", "parameters": {"updates": "simulated"}},
        "parameters.updates: simulated", "optimiser: cma-es",
    ),
    "candidates, rounded": (
        {"optimiser": "cma-es", "parameters": {"precision": "bfloat16"}},
        "parameters.precision: bfloat16", "optimiser: cma-es",
    ),
    "candidates of some entries": (
        {"optimiser": "cma-es", "objective": ["squares", {"partial-gradient": {"share": 0.5}}]},
        "objective: partial-gradient (Entries)", "optimiser: cma-es",
    ),
    "candidates of whole gradients": (
        {"optimiser": "cma-es", "objective": "wasserstein"},
        "objective: wasserstein (Distance)", "optimiser: cma-es",
    ),
    "weights, rounded": (
        {"unknowns": "surrogate", "parameters": {"precision": "bfloat16"}},
        "parameters.precision: bfloat16", "unknowns: surrogate",
    ),
    "weights of simulated steps": (
        {"unknowns": "surrogate-curve", "parameters": {"updates": "epochs"}},
        "parameters.updates: epochs", "unknowns: surrogate-curve",
    ),
    "steps, rounded": (
        {"parameters": {"precision": "bfloat16", "updates": "simulated"}},
        "parameters.updates: simulated", "parameters.precision: bfloat16",
    ),
    "epochs with restarts": (
        {"epochs": "joint", "parameters": {"restarts": 2}}, "parameters.restarts: 2", "epochs: joint"
    ),
    "epochs with snapshots": (
        {"epochs": "joint", "parameters": {"snapshots": 9}}, "parameters.snapshots: 9", "epochs: joint"
    ),
    "epochs with an early end": (
        {"epochs": "joint", "parameters": {"enough": 0.1}}, "parameters.enough: 0.1", "epochs: joint"
    ),
    "epochs of a longer run": (
        {"epochs": "joint", "parameters": {"decay_over": 9}}, "parameters.decay_over: 9", "epochs: joint"
    ),
    "epochs without labels": (
        {"epochs": {"joint": {"steps": "joint"}}, "labels": "joint"},
        "labels: joint", "epochs.joint.steps: joint",
    ),
}  # fmt: skip


def refused(case: str, variant: bool, root: Callable[..., Path]) -> None:
    """Assert that an attack with two parts that exclude each other is refused, and that one without loads."""
    changes, one, other = APART[case]
    entry = MATCHING | ({"variants": {"v": changes}} if variant else changes)
    key = "variants.v: " if variant else ""
    with pytest.raises(UserError) as problem:
        loaded(root({"attacks/m": {"summary": "x"} | entry}), "m")
    says = f"config/attacks/m.yaml: {key}{one} does not go with {other} (change one of the two)"
    assert str(problem.value).endswith(says)


@pytest.mark.parametrize("variant", [False, True])
@pytest.mark.parametrize("case", sorted(APART))
def test_what_does_not_go_together_is_refused(case: str, variant: bool, root: Callable[..., Path]) -> None:
    refused(case, variant, root)


def test_a_check_that_looks_at_nothing_is_found(
    root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guards the test above and the one below."""
    monkeypatch.setattr(sections, "check_fit", lambda entry, where: None)
    with pytest.raises(pytest.fail.Exception):
        refused("epochs of a longer run", False, root)
    with pytest.raises(pytest.fail.Exception):
        defaults_alone(root, {"epochs": "joint"}, {"enough": 0.1})


# A part that excludes much, and an argument of another value than the default that it excludes.
@pytest.mark.parametrize(
    ("change", "other"),
    [
        ({"epochs": "joint"}, {"enough": 0.1}),
        ({"optimiser": "cma-es"}, {"updates": "simulated"}),
        ({"unknowns": "surrogate"}, {"updates": "simulated"}),
    ],
)
def test_only_defaults_go_with_everything(
    change: dict[str, Any], other: dict[str, Any], root: Callable[..., Path]
) -> None:
    defaults_alone(root, change, other)


def defaults_alone(root: Callable[..., Path], change: dict[str, Any], other: dict[str, Any]) -> None:
    plain = {"updates": "one-batch", "precision": "float32", "restarts": 1, "snapshots": 0, "enough": 0.0}
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
    assert len(told) == 7
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


def test_a_mistake_in_a_variant_names_it(root: Callable[..., Path]) -> None:
    bad = MATCHING | {"variants": {"bad": {"objective": {"cosine": 3}}}}
    where = root({"attacks/m": {"summary": "x"} | bad})
    wanted = r"m\.yaml: variants\.bad\.objective: cosine: the arguments are no mapping, such as \{cosine: \{"
    with pytest.raises(UserError, match=wanted) as problem:
        loaded(where, "m")
    assert "\n" not in str(problem.value)


def test_a_mistake_in_the_file_is_not_laid_to_its_variant(root: Callable[..., Path]) -> None:
    bad = MATCHING | {"objective": 3, "variants": {"v": {"objective": {"cosine": {}}}}}
    with pytest.raises(UserError, match=r"m\.yaml: objective: "):
        loaded(root({"attacks/m": {"summary": "x"} | bad}), "m")


def test_labels_that_are_not_said_are_none_too(root: Callable[..., Path]) -> None:
    unsaid = {key: value for key, value in MATCHING.items() if key != "labels"}
    with pytest.raises(UserError, match=r"m\.yaml: labels: is none, .* or a rule: counted, .*\)$"):
        loaded(root({"attacks/m": {"summary": "x"} | unsaid}), "m")
    # Without an objective nothing is matched.
    assert loaded(root({"attacks/m": {"summary": "x", "module": "fidel"}}), "m").labels == "none"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Return the file of a new term, own.py, of a package that is otherwise as it is."""
    for room in ("attacks", "objectives", "labels", "unknowns", "optimisers"):
        folder = tmp_path / "package" / place(room)
        folder.mkdir(parents=True)
        for path in (PACKAGE / place(room)).glob("*.py"):
            (folder / path.name).symlink_to(path)
    monkeypatch.setattr(signature, "PACKAGE", tmp_path / "package")
    forget()
    yield tmp_path / "package" / place("objectives") / "own.py"
    forget()


def forget() -> None:
    for read in (
        signature.definition,
        signature.check_signature,
        signature.parameters_model,
        signature.part_names,
    ):
        read.cache_clear()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "def own() -> t.Distance: ...\n",
            "own() -> t.Distance is no part of objectives (write `def own(*, …) -> Distance` or Weights or ",
        ),
        (
            "def own() -> 'Distance': ...\n",
            "own() -> 'Distance' is no part of objectives (write `def own(*, …) -> Distance` or ",
        ),
        (
            "def own(): ...\n",
            "own() without a return type is no part of objectives (write `def own(*, …) -> ",
        ),
        ("def own(weight: float) -> Prior: ...\n", "own(weight: float) -> Prior is no part of objectives ("),
        ("def own(:\n", "line 1: invalid syntax (mend the file)"),
        ("\0", "line 1: "),
        ("x = 1\n", "no function 'own' (a part's file holds `def own(…)`)"),
        ("async def own() -> Distance: ...\n", "no function 'own' (a part's file holds `def own(…)`)"),
        ("own = lambda: Distance()\n", "no function 'own' (a part's file holds `def own(…)`)"),
    ],
)
def test_what_is_wrong_in_the_file_of_a_term_is_said_of_that_file(
    text: str, says: str, own: Path, root: Callable[..., Path]
) -> None:
    own.write_text(text)
    with pytest.raises(UserError) as problem:
        loaded(root({"attacks/m": {"summary": "x"} | MATCHING | {"objective": ["own"]}}), "m")
    assert f"{own}: " in str(problem.value)
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_sound_term_is_taken(own: Path, root: Callable[..., Path]) -> None:
    own.write_text("def own() -> Distance: ...\n")
    entry = loaded(root({"attacks/m": {"summary": "x"} | MATCHING | {"objective": ["own"]}}), "m")
    assert entry.objective == {"own": {}}


SPEC: dict[str, Any] = {"attack_name": "m", "null_rounds": 1, "seed": 0}

# A spec has the mapping form of sections.
WRITTEN = MATCHING | {"objective": {"cosine": {}}, "unknowns": {"dummies": {}}, "optimiser": {"adam": {}}}


@pytest.mark.parametrize("section", ["objective", "unknowns", "optimiser", "epochs"])
@pytest.mark.parametrize("value", ["cosine", ["cosine"], [{"cosine": {}}], [3], None])
def test_a_spec_has_the_mapping_form_alone(section: str, value: Any) -> None:
    form = rf'write {{"{section}": {{"NAME": {{}}}}}}; see docs/observation\.md\)$'
    with pytest.raises(UserError, match=rf"^spec\.json: attack\.{section}: .*\({form}"):
        spec_of("attack", SPEC | {"attack": WRITTEN | {section: value}}, "spec.json")
    assert spec_of("attack", SPEC | {"attack": WRITTEN}, "spec.json").attack.objective == {"cosine": {}}


def test_a_spec_written_by_hand_has_its_defaults() -> None:
    entry = spec_of("attack", SPEC | {"attack": {"module": "fidel"}}, "spec.json").attack
    assert entry.parameters == {"combine": False, "neurons": None}
    assert (entry.generator, entry.labels, entry.objective) == (None, "none", {})


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"attack": {"module": "fidel"}, "seed": 0}, "is missing"),
        (SPEC | {"attack": []}, "attack: is no mapping"),
        (SPEC | {"attack": {"module": "fidel", "generator": {"mnist": "x"}}}, "attack: is no mapping"),
        (SPEC | {"attack": {"module": "nothing"}}, "no file nothing.py"),
        (SPEC | {"attack": {"module": "../verbs/new"}}, "module"),
        (SPEC | {"attack": {"module": "fidel", "parameters": {"neurons": "many"}}}, "neurons"),
        (SPEC | {"attack": {}}, "attack.module: is missing (see docs/observation.md)"),
        (SPEC | {"attack": {"module": None}}, "attack.module: is missing (see docs/observation.md)"),
        (SPEC | {"attack": WRITTEN | {"objective": {"cosine": {"no": 1}}}}, "objective.cosine."),
        (SPEC | {"attack": WRITTEN | {"labels": "none"}}, "labels: is none"),
        (SPEC | {"attack": WRITTEN | {"adaptive": "yes"}}, "adaptive: "),
        (SPEC | {"attack": WRITTEN | {"parameters": {"iterations": True}}}, "parameters.iterations: "),
        (SPEC | {"attack": WRITTEN | {"parameters": {"iterations": "10"}}}, "parameters.iterations: "),
        (SPEC | {"attack": WRITTEN | {"parameters": {"iterations": 10**30}}}, "parameters.iterations: "),
        (SPEC | {"attack": WRITTEN | {"optimiser": {"adam": {"lr": True}}}}, "optimiser.adam.lr: "),
        (SPEC | {"attack": WRITTEN, "seed": 2**53 + 1}, "seed: "),
    ],
)
def test_a_spec_with_a_wrong_name_or_type_is_one_line(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as problem:
        spec_of("attack", spec, "spec.json")
    assert says in str(problem.value)
    assert str(problem.value).startswith("spec.json: ")
    assert "\n" not in str(problem.value)
