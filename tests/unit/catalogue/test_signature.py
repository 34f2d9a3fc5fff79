"""Parameters of parts, read from source without import, and the manual that is made of them."""

import inspect
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
import yaml
from pydantic import BaseModel, ValidationError
from torch import nn

from leakbench.base.errors import UserError
from leakbench.base.parts import place
from leakbench.catalogue import signature
from leakbench.catalogue.load import files_of, load_kind, read_yaml
from leakbench.catalogue.regime import TAKEN
from leakbench.catalogue.schema import KINDS, Part, Training
from leakbench.catalogue.signature import (
    SIGNATURES,
    check_part,
    check_signature,
    module_file,
    parameters_model,
    part_names,
)
from leakbench.federation.training.fit import OPTIMISERS
from leakbench.jobs.manual import manual as write
from leakbench.jobs.manual import pages, texts
from leakbench.jobs.parser import page

TABLE = yaml.safe_load(Path(__file__).with_name("signatures.yaml").read_text())
PART = """
import torch_that_is_not_installed
from typing import Annotated, Literal
from pydantic import Field
def helper(*, wrong: int): ...
def my_part(model, rng, *, kind: Literal["a", "b"] = "a", share: Annotated[float, Field(gt=0, le=1)] = 0.5,
            rounds: int, names: list[str] | None = None) -> None: ...
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> Path:
    monkeypatch.setattr(signature, "PACKAGE", tmp_path)
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "my_part.py").write_text(PART)
    return tmp_path / "room"


def test_keywords_defaults_and_ranges_come_from_the_source_unimported(room: Path) -> None:
    model = parameters_model("room", "my-part")
    assert list(model.model_fields) == ["kind", "share", "rounds", "names"]
    assert model(rounds=3).model_dump() == {"kind": "a", "share": 0.5, "rounds": 3, "names": None}


@pytest.mark.parametrize(("given", "key"), TABLE["values"])
def test_values_are_checked(room: Path, given: dict, key: str) -> None:
    """Neither `true` nor a word is a number."""
    model = parameters_model("room", "my-part")
    with pytest.raises(ValidationError) as problem:
        model.model_validate(given)
    assert problem.value.errors()[0]["loc"][0] == key
    # A whole number may stand where others may.
    assert model(rounds=1, share=1).model_dump()["share"] == 1.0


@pytest.mark.parametrize(("text", "says"), TABLE["unchecked"])
def test_a_part_that_cannot_be_checked_is_refused(room: Path, text: str, says: str) -> None:
    (room / "my_part.py").write_text(text)
    with pytest.raises(UserError, match=r"my_part\.py: ") as refusal:
        parameters_model("room", "my-part")
    assert says in str(refusal.value)


def test_a_part_is_a_file_with_a_function_of_its_name(room: Path) -> None:
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


@pytest.mark.parametrize("kind", sorted(SIGNATURES))
def test_a_function_of_another_signature_is_no_part(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None
) -> None:
    monkeypatch.setattr(signature, "PACKAGE", tmp_path)
    text, wanted = TABLE["signatures"][kind]
    (tmp_path / place(kind)).mkdir(parents=True)
    (tmp_path / place(kind) / "part.py").write_text(text)
    says = rf"/{place(kind)}/part\.py: part\(.* is no part of {kind} \(write `{re.escape(wanted)}.*\)$"
    with pytest.raises(UserError, match=says):
        check_signature(kind, "part")


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
    entries = load_kind(Path(__file__).parents[3] / "config", kind)
    assert entries
    for entry in entries.values():
        assert isinstance(entry, Part)
        assert module_file(kind, entry.module).is_file()
        model = parameters_model(kind, entry.module)
        assert entry.parameters == model(**entry.parameters).model_dump()
        hidden = {name for name, field in model.model_fields.items() if field.exclude_if}
        assert entry.parameters.keys() >= model.model_fields.keys() - hidden


TORCH = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adadelta": torch.optim.Adadelta}
# What a training gives by itself, what is no single number, and how torch computes a step.
LEFT_OUT = {"params", "lr", "betas", "foreach", "fused", "capturable", "differentiable"}
TRAINING: dict[str, Any] = {"optimiser": "sgd", "lr": 0.1, "batch_size": 10, "epochs": 30}


def test_every_optimiser_takes_what_it_does_in_torch() -> None:
    assert TAKEN.keys() == OPTIMISERS.keys() == TORCH.keys()
    for name, optimiser in TORCH.items():
        assert TAKEN[name].model_fields.keys() == inspect.signature(optimiser).parameters.keys() - LEFT_OUT


FITTING = [
    ("sgd", {"momentum": 0.9, "nesterov": True, "weight_decay": 0, "maximize": True}),
    ("sgd", {"momentum": 0.5, "dampening": 0.5}), ("adadelta", {"rho": 1, "eps": 0, "weight_decay": 0.1}),
    ("adam", {"eps": 0, "weight_decay": 0.1, "amsgrad": True, "decoupled_weight_decay": True}),
]  # fmt: skip
REFUSED = [
    ("sgd", {"momentum": -0.1}), ("sgd", {"weight_decay": -0.1}), ("sgd", {"nesterov": True}),
    ("sgd", {"nesterov": True, "momentum": 0.5, "dampening": 0.5}), ("sgd", {"rho": 0.5}),
    ("adam", {"eps": -1.0}), ("adam", {"weight_decay": -1.0}), ("adam", {"momentum": 0.5}),
    ("adadelta", {"rho": 1.5}), ("adadelta", {"eps": -1.0}), ("adadelta", {"weight_decay": -1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("optimiser", "options"), FITTING)
def test_an_option_fits_that_torch_takes(optimiser: str, options: dict[str, Any]) -> None:
    Training(**TRAINING | {"optimiser": optimiser, "options": options})
    OPTIMISERS[optimiser]([nn.Parameter(torch.zeros(1))], lr=0.1, **options)


@pytest.mark.parametrize(("optimiser", "options"), REFUSED)
def test_an_option_is_refused_that_torch_refuses(optimiser: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"Value error, [a-z_]+: .*\) \["):
        Training(**TRAINING | {"optimiser": optimiser, "options": options})
    with pytest.raises((ValueError, TypeError)):
        OPTIMISERS[optimiser]([nn.Parameter(torch.zeros(1))], lr=0.1, **options)


ROOT = Path(__file__).parents[3]


def test_the_generated_files_are_current() -> None:
    stale = [name for name, text in texts(ROOT).items() if (ROOT / name).read_text() != text]
    assert not stale, "run python -m leakbench manual"


def models(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Yield the schema of a model and of each that it is made of."""
    schema = model.model_json_schema()
    yield from (schema, *schema.get("$defs", {}).values())


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_says_what_it_means(kind: str) -> None:
    for schema in models(KINDS[kind]):
        for key, value in schema["properties"].items():
            text = value.get("description", "")
            assert text.endswith("."), (schema["title"], key)


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_keeps_the_schema_that_editors_use(kind: str) -> None:
    schema = json.loads((ROOT / f"config/schemas/{kind}.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    files = files_of(ROOT / "config", kind)
    assert files
    for path in files:
        value = read_yaml(path)
        assert not list(check.iter_errors(value)), path
        assert list(check.iter_errors(value | {"sumary": "x"})), "a misspelt key must be an error"


def test_the_verb_writes_what_changed_and_nothing_else(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "config", tmp_path / "config", ignore=shutil.ignore_patterns("*.md", "schemas"))
    (tmp_path / "papers").symlink_to(ROOT / "papers")
    # Of these only citations are made.
    (tmp_path / "docs").mkdir()
    for name in ("docs/catalogue.md", "CITATION.cff"):
        text, link = (ROOT / name).read_text(), "https://arxiv.org/abs/2101.00159), 202"
        (tmp_path / name).write_text(text.replace(f"{link}2", f"{link}0"))
    write(tmp_path)
    for name in texts(ROOT):
        assert (tmp_path / name).read_text() == (ROOT / name).read_text()
    (tmp_path / "results/manual/cli.md").write_text("stale")
    schema = tmp_path / "config/schemas/attacks.json"
    before = schema.stat().st_mtime_ns
    write(tmp_path)
    assert (tmp_path / "results/manual/cli.md").read_text() == page()
    assert schema.stat().st_mtime_ns == before


def test_every_parameter_of_a_part_has_its_meaning() -> None:
    made = pages(ROOT).items()
    parts = [part for name, text in made if name.startswith("config/") for part in text.split("\n## ")[1:]]
    assert len(parts) > 100
    for part in parts:
        rows = [line.strip("|").split(" | ") for line in part.splitlines() if line.startswith("| `")]
        for cells in rows:
            assert len(cells) == 4, (part.partition("\n")[0], cells)
            assert cells[3].strip(" |"), (part.partition("\n")[0], cells)


def test_every_argument_of_every_command_has_a_meaning() -> None:
    rows = re.findall(r"^\| `.*\|$", page(), re.MULTILINE)
    assert len(rows) > 100
    assert not [row for row in rows if row.endswith("|  |")]
