"""The manual of config/: generated files are current, every key is described, every YAML keeps its schema."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

from leakbench.catalogue.load import files_of, read_yaml
from leakbench.catalogue.schema import KINDS
from leakbench.jobs.manual import manual as write
from leakbench.jobs.manual import pages, texts
from leakbench.jobs.parser import page

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
