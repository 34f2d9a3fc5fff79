"""A part's keywords are its schema, read from the source."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from leakbench.base.errors import UserError
from leakbench.base.parts import place
from leakbench.catalogue import signature
from leakbench.catalogue.signature import (
    SIGNATURES,
    check_part,
    check_signature,
    definition,
    module_file,
    parameters_model,
    part_names,
)

PART = """
import torch_that_is_not_installed
from typing import Annotated, Literal
from pydantic import Field
def helper(*, wrong: int): ...
def my_part(model, rng, *, kind: Literal["a", "b"] = "a", share: Annotated[float, Field(gt=0, le=1)] = 0.5,
            rounds: int, names: list[str] | None = None) -> None: ...
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(signature, "PACKAGE", tmp_path)
    definition.cache_clear()
    parameters_model.cache_clear()
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "my_part.py").write_text(PART)
    return tmp_path / "room"


@pytest.fixture(autouse=True)
def forget() -> object:
    yield
    definition.cache_clear()
    parameters_model.cache_clear()


def test_keywords_defaults_and_ranges_come_from_the_source_unimported(room: Path) -> None:
    model = parameters_model("room", "my-part")
    assert list(model.model_fields) == ["kind", "share", "rounds", "names"]
    assert model(rounds=3).model_dump() == {"kind": "a", "share": 0.5, "rounds": 3, "names": None}


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, "rounds"),
        ({"rounds": 1, "share": 0}, "share"),
        ({"rounds": 1, "share": 1.5}, "share"),
        ({"rounds": 1, "kind": "c"}, "kind"),
        ({"rounds": "many"}, "rounds"),
        ({"rounds": 1, "names": [1]}, "names"),
        ({"rounds": 1, "model": "x"}, "model"),
        ({"rounds": 1, "wrong": 1}, "wrong"),
    ],
)
def test_values_are_checked(room: Path, given: dict, key: str) -> None:
    with pytest.raises(ValidationError) as problem:
        parameters_model("room", "my-part").model_validate(given)
    assert problem.value.errors()[0]["loc"][0] == key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def other(): ...", "no function 'my_part'"),
        ("def my_part(*, x): ...", "has no type"),
        ("def my_part(*, x: Tensor = None): ...", "Tensor"),
        ("def my_part(*, x: int = compute()): ...", "not a plain annotation"),
        ("def my_part(*, x: __import__('os').system('true') = 1): ...", "not a plain annotation"),
        *(
            (f"def my_part(*, x: {text}): ...", "not a plain annotation")
            for text in (
                "int.real",
                "Annotated[int, [c.__init__ for c in ().__class__.__base__.__subclasses__()]]",
                "Annotated[int, Field.__globals__]",
                "Annotated[int, Field(gt=(lambda: 1)())]",
                "Annotated[int, Field(exclude_if=lambda v: [].append(v) == 1)]",
                "Annotated[int, Field(exclude_if=lambda v: v == f())]",
                "Annotated[int, Field(default_factory='x')]",
                "Annotated[int, Field(**{'gt': 1})]",
                "(x := int)",
                "f'{int}'",
                "Literal[f'{int}']",
                "Literal[int.real]",
                "list[int.real]",
                "int | int.real",
                "[int][0]",
                "int if 1 else str",
            )
        ),
    ],
)
def test_a_part_that_cannot_be_checked_is_refused(room: Path, text: str, says: str) -> None:
    (room / "my_part.py").write_text(text)
    with pytest.raises(UserError, match=r"my_part\.py: ") as refusal:
        parameters_model("room", "my-part")
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"rounds": True}, "rounds"),
        ({"rounds": "10"}, "rounds"),
        ({"rounds": 1.0}, "rounds"),
        ({"rounds": 1, "share": True}, "share"),
        ({"rounds": 1, "share": "0.5"}, "share"),
    ],
)
def test_neither_true_nor_a_word_is_a_number(room: Path, given: dict, key: str) -> None:
    with pytest.raises(ValidationError) as problem:
        parameters_model("room", "my-part").model_validate(given)
    assert problem.value.errors()[0]["loc"] == (key,)
    # A whole number may stand where others may.
    assert parameters_model("room", "my-part")(rounds=1, share=1).model_dump()["share"] == 1.0


def test_a_part_is_a_file_with_a_function_of_its_name(room: Path) -> None:
    part_names.cache_clear()
    (room / "first.py").write_text("def first(): ...\n")
    (room / "latin.py").write_bytes(b"# caf\xe9\n")
    (room / "helper.py").write_text("def other(): ...\n")
    assert part_names("room") == ["first", "my-part"]
    for name in ("first", "my-part", "my_part"):
        check_part("room", name, "here")
    for name, says in (
        ("my-prat", r"\(did you mean 'my-part'\?\)"),
        ("../room/first", r"\(there are: first, my-part\)"),
        ("latin", r": .*latin\.py: line 1: is no UTF-8 \(mend the file\)"),
        ("helper", r": .*helper\.py: no function 'helper' \(.*\)"),
    ):
        with pytest.raises(UserError, match=rf"^here: '{name}' is no part of src/leakbench/room ?{says}$"):
            check_part("room", name, "here")
    part_names.cache_clear()


WRONG: dict[str, tuple[str, str]] = {
    "optimisers": ("def part(lr): pass", "def part(*, …) -> Make"),
    "unknowns": ("def part() -> int: ...", "def part(*, …) -> Parameterisation"),
    "objectives": ("def part(weight: float) -> Prior: ...", "def part(*, …) -> Distance"),
    "epochs": ("def part(steps: str = 'both') -> Epochs: ...", "def part(*, …) -> Epochs"),
    "labels": ("def part(layer) -> Tensor: ...", "def part(layer: LastLayer, *, …) -> Tensor"),
    "attacks": (
        "def part(observation: Observation, *, seed: int) -> Reconstruction: ...",
        "def part(observation: Observation, rng: torch.Generator, *, …) -> Reconstruction",
    ),
    "defences": ("def part(*shares: float) -> Defence: ...", "def part(*, …) -> Defence"),
    "adaptive": ("def part() -> Defence: ...", "def part(*, …) -> Adaptation"),
    "victims": (
        "def part(classes: int, shape: tuple[int, int, int]) -> nn.Module: ...",
        "def part(shape: tuple[int, int, int], classes: int, *, …) -> nn.Module",
    ),
    "generators": (
        "def part(shape: tuple[int, int, int]) -> nn.Module: ...",
        "def part(inputs: tuple[int, ...], shape: tuple[int, int, int], *, …) -> nn.Module",
    ),
    "servers": ("def part(model: nn.Module) -> Written: ...", "def part(model: nn.Module, held: Held, *, …)"),
    "datasets": ("def part(folder: Path, **kept) -> Found: ...", "def part(folder: Path, *, …) -> Found"),
    "aggregation": ("def part(report: Report): ...", "def part(report: Report, *, …) -> np.ndarray"),
    "encryption": ("def part() -> None: ...", "def part(*, …) -> Scheme"),
    "detectors": ("def part(received: Received) -> bool: ...", "def part(received: Received, *, …) -> float"),
    "drawing": ("def part() -> Body: ...", "def part(result: Result, *, …) -> Body | None"),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(SIGNATURES))
def test_a_function_of_another_signature_is_no_part(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signature, "PACKAGE", tmp_path)
    text, wanted = WRONG[kind]
    (tmp_path / place(kind)).mkdir(parents=True)
    (tmp_path / place(kind) / "part.py").write_text(text)
    for read in (check_signature, definition):
        read.cache_clear()
    with pytest.raises(
        UserError, match=rf"/{place(kind)}/part\.py: part\(.* is no part of {kind} \(write `.*\)$"
    ) as told:
        check_signature(kind, "part")
    check_signature.cache_clear()
    assert f"(write `{wanted}" in str(told.value)


def test_an_attack_takes_the_parts_of_its_sections_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    check_signature.__wrapped__("attacks", "gradient-matching")
    # Guards the line above, and every real part below: without the sections these are arguments too many.
    monkeypatch.setattr(signature, "SECTIONS", {})
    with pytest.raises(UserError, match=r"/gradient_matching\.py: .* is no part of attacks"):
        check_signature.__wrapped__("attacks", "gradient-matching")


@pytest.mark.parametrize("kind", sorted({*SIGNATURES} - {"attacks", "drawing"}))
def test_every_real_part_has_the_signature_of_its_room(kind: str) -> None:
    for name in part_names(kind):
        check_signature(kind, name)


@pytest.mark.parametrize("kind", ["datasets", "victims", "generators", "defences", "attacks", "servers"])
def test_every_real_part_of_the_catalogue_has_a_schema(kind: str) -> None:
    from leakbench.catalogue.load import load_kind
    from leakbench.catalogue.schema import Part

    entries = load_kind(Path(__file__).parents[3] / "config", kind)
    assert entries
    for entry in entries.values():
        assert isinstance(entry, Part)
        assert module_file(kind, entry.module).is_file()
        model = parameters_model(kind, entry.module)
        assert entry.parameters == model(**entry.parameters).model_dump()
        hidden = {name for name, field in model.model_fields.items() if field.exclude_if}
        assert entry.parameters.keys() >= model.model_fields.keys() - hidden
