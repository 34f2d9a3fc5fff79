"""manual: write the generated pages, the schemas and the citations."""

import ast
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from leakbench.base.digest import write_changed
from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS
from leakbench.catalogue import costs
from leakbench.catalogue.budget import counted
from leakbench.catalogue.load import RULES, file_of, load_kind
from leakbench.catalogue.resolve import plan
from leakbench.catalogue.schema import KINDS, Experiment, Part
from leakbench.catalogue.signature import definition, module_file, parameters_model, parsed, part_names
from leakbench.jobs.docstrings import TableRow, arguments, listed, table, without
from leakbench.jobs.parser import page
from leakbench.papers.bibliography import bibliography, citation, cited

FINDINGS = Path("papers/findings.yaml")
# Where the pages lie that git does not hold.
MADE = Path("results/manual")
PARTS = tuple(kind for kind, model in KINDS.items() if issubclass(model, Part))

HEADS: TableRow = ("key", "type", "default", "meaning")

INTRODUCTION = """\
# Configuration

The catalogue is plain YAML. A value stands in one file, and experiments only name files. Everything is
checked before any job starts (`python -m leakbench plan`). A mistake is one line that names the file and the
key; the exit code is 2.

- **Names.** A file's name is the name of its entry. It has small letters, digits, dots and hyphens.
- **Variants.** `variants:` in any file makes further entries `<file>-<variant>`. Each has the keys of the
  file and changes those that it lists; mappings are merged key by key.
- **Grids.** `grid:` makes the variants that are points of grids. A grid is a list of axes, and an axis maps
  words to the keys that they change, as a variant does. A point takes one word of each axis: the words, with
  hyphens between them, are the name of the variant, and the word `""` adds nothing to it.
- **Numbers.** A number stands without quotes; `1e-4` is a number, and `yes` is not. No number may
  exceed 10,000,000, and no seed 9007199254740992 (2 to the power of 53).
- **Lists of mappings.** In the tables of keys `faults[].client` is the key `client` of each entry of the list
  `faults`.

A part is one Python file that holds a function of the same name. The keyword arguments of that function are
what `parameters:` may hold. Each page has the keys of one kind of file, its parts, and their parameters.

## Completion in an editor

`config/schemas/` holds a JSON schema for each kind of file. The YAML language server, which VS Code, Neovim,
Emacs and others use, then completes keys, shows their descriptions and underlines mistakes. Either set this
once for the checkout (in VS Code: `.vscode/settings.json`):

```json
%(mapping)s
```

or write a comment into the first line of a file: `# yaml-language-server: $schema=../schemas/victims.json`.
"""


def manual(root: Path) -> None:
    """Write each generated file whose text changed. results/manual/ has those that git does not hold.

    root: the checkout.
    """
    made = texts(root) | {str(MADE / name): text for name, text in pages(root).items()}
    if (root / FINDINGS).is_file() and (root / "reference").is_dir():
        made |= of_records(Records(root))
    for name, text in made.items():
        write_changed(root / name, text)


class Records:
    """The works of a checkout, its experiments, and the scorecard of its recorded tables."""

    def __init__(self, root: Path) -> None:
        from leakbench.catalogue.shown import described
        from leakbench.jobs.scorecard import longest_first
        from leakbench.papers.reference import files, tables
        from leakbench.papers.scorecard.recorded import joined
        from leakbench.papers.scorecard.scorecard import Card
        from leakbench.papers.work import read_papers

        config, self.root = root / "config", root
        self.works = read_papers(root / "papers")
        attacks = described(config)["attacks"]
        own = tables(files(root, "*"))
        self.names = {each.name for each in own}
        known = [*own, *tables(files(root, "*", seeded=True))]
        if not own:
            raise UserError(f"{root / 'reference'}: holds no record (see leakbench fetch-records --help)")
        entries = load_kind(config, "experiments")
        kept = longest_first(known, root, frozenset(entries), attacks)
        # Name → its work, and itself.
        self.experiments = {
            name: (file_of(config, "experiments", name).parents[1].name, each)
            for name, each in entries.items()
            if isinstance(each, Experiment)
        }
        self.scales = [*kept.values(), joined([*kept.values()])]
        self.card = Card(self.works, self.scales, self.scales[-1]).frame()


def of_records(records: Records) -> dict[str, str]:
    """Return the text of each page of docs/ that is made of recorded tables, by its path."""
    from leakbench.papers import items
    from leakbench.papers.findings import findings

    core = [work for work in records.works if work.paper.core]
    drawn = [
        items.DrawnItem(
            work=work, item=each.item, name=name, kinds=[part.drawing for part in each.figure],
            shows={key: shown for key, shown in _shown(name, each).items() if key in records.names},
        )
        for name, (work, each) in records.experiments.items()
    ]  # fmt: skip
    return {
        "docs/findings.md": findings(records.root / FINDINGS, records.works, records.scales),
        "docs/figures.md": items.page(core, records.card, drawn, _hours(records.root)),
    }


def _hours(root: Path) -> Callable[[Sequence[str]], float]:
    """Return what tells the core-hours of some experiments at the published sizes, shared jobs once."""
    found = plan(root, "paper")
    works = costs.works(found.specs, counted(root / "config"))

    def hours(names: Sequence[str]) -> float:
        specs = set().union(*(found.run_for(name) for name in names)) & works.keys()
        return sum(works[spec].seconds() for spec in specs) / 3600

    return hours


def _shown(name: str, experiment: Experiment) -> dict[str, set[str]]:
    """Return experiment → the metrics of its table that a figure draws."""
    shown: dict[str, set[str]] = {}
    for part in experiment.figure:
        drawn = part.model_extra or {}
        for each in (name, *drawn.get("beside", ())):
            shown.setdefault(each, set()).update(drawn.get("metrics", ()))
    return shown


def texts(root: Path) -> dict[str, str]:
    """Return the text of each file of git that is made of models, by its path below the checkout."""
    schemas = {f"config/schemas/{kind}.json": _json(_editor_schema(model)) for kind, model in KINDS.items()}
    # Texts whose citations are made from the bibliography and whose other words are kept.
    works = bibliography(root / "config")
    make = {"docs/catalogue.md": cited, "CITATION.cff": citation}
    citing = {name: each((root / name).read_text(encoding="utf-8"), works) for name, each in make.items()}
    return schemas | citing


def pages(root: Path) -> dict[str, str]:
    """Return the text of each page that git does not hold, by its path: commands and configuration."""
    # Schema file → the YAML files that it is for, both below the checkout.
    mapping = {f"config/schemas/{kind}.json": _files(kind) for kind in KINDS}
    introduction = INTRODUCTION % {"mapping": _json({"yaml.schemas": mapping}).strip()}
    rooms = dict.fromkeys((*KINDS, *PARTS, *SECTIONS.values(), "labels", *RULES, "drawing"))
    own = {f"config/{room}.md": _of_room(root, room) for room in rooms}
    return {"cli.md": page(), "config/README.md": introduction, **own}


def _files(kind: str) -> str:
    return "papers/*/experiments/*.yaml" if kind == "experiments" else f"config/{kind}/*.yaml"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _schema(model: type[BaseModel]) -> Any:
    """Return a kind's JSON schema, with the description of each key in one line."""
    schema = model.model_json_schema()
    for each in (schema, *schema.get("$defs", {}).values()):
        for value in each.get("properties", {}).values():
            if "description" in value:
                value["description"] = " ".join(value["description"].split())
    return schema


def _editor_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return a kind's JSON schema, with the keys that every file may have beside its model's."""
    schema = _schema(model)
    axis = {"type": "object", "additionalProperties": {"type": ["object", "null"]}}
    variants = axis | {"description": "Further entries <file>-<variant>: variant → the keys that it changes."}
    what = "Grids of further entries. Each is a list of axes: word → the keys that it changes."
    grid = {"type": "array", "items": {"type": "array", "items": axis}, "description": what}
    return schema | {"properties": schema["properties"] | {"variants": variants, "grid": grid}}


def _of_room(root: Path, room: str) -> str:
    """Describe a kind of file and the parts that the catalogue names, or every part of a rule's room."""
    lines = [f"# Configuration: {room}"]
    if room in KINDS:
        schema = _schema(KINDS[room])
        keys = table(_rows(schema, schema.get("$defs", {})), HEADS)
        lines += [f"Files: `{_files(room)}`.", inspect.getdoc(KINDS[room]) or "", keys]
    entries = load_kind(root / "config", room).values() if room in PARTS else ()
    named = {entry.module for entry in entries if isinstance(entry, Part)}
    modules = sorted(named) if room in PARTS else () if room in KINDS else part_names(room)
    return "\n\n".join([*lines, *(_of_part(room, module) for module in modules)]) + "\n"


def _of_part(room: str, module: str) -> str:
    whole, function = parsed(module_file(room, module)), definition(room, module)
    schema = parameters_model(room, module).model_json_schema()
    meanings = {f"`{name}`": said for name, (*_, said) in arguments(function).items() if said}
    # A parameter is described in the docstring, or in its annotation, Field(description=...).
    rows = [(*row[:3], meanings.get(row[0], row[3])) for row in _rows(schema, {})]
    shown = [key.strip("`") for key, *_ in rows if key in meanings]
    of_function = listed(without(ast.get_docstring(function) or "", shown))
    texts = [ast.get_docstring(whole), of_function]
    columns = 4 if any(row[3] for row in rows) else 3
    keys = table([row[:columns] for row in rows], HEADS[:columns]) if rows else "It takes no parameters."
    return "\n\n".join([f"## {module}", *(text for text in texts if text), keys])


def _rows(
    schema: Mapping[str, Any], known: Mapping[str, Any], inside: str = "", seen: tuple[str, ...] = ()
) -> Iterator[TableRow]:
    """Yield (key, type, default, description) of each property, those of a mapping below the mapping."""
    for key, value in schema.get("properties", {}).items():
        default = "**required**" if key in schema.get("required", []) else _default(value)
        yield f"`{inside}{key}`", _type(value, known), default, value.get("description", "")
        for name, many in _inner(value):
            if name not in seen:
                yield from _rows(known[name], known, f"{inside}{key}{'[]' if many else ''}.", (*seen, name))


def _inner(value: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield (definition, whether it is an entry of a list) of the mappings that a property is made of."""
    if "$ref" in value:
        yield value["$ref"].rpartition("/")[2], False
    for each in value.get("anyOf", []):
        yield from _inner(each)
    if "$ref" in value.get("items", {}):
        yield value["items"]["$ref"].rpartition("/")[2], True


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if default in (None, ""):
        return "not set"
    return f"`{default if isinstance(default, str) else json.dumps(default, ensure_ascii=False)}`"


def _type(value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return in words what a JSON schema allows."""
    if "anyOf" in value:
        return " or ".join(_type(each, known) for each in value["anyOf"] if each.get("type") != "null")
    if "enum" in value or "const" in value:
        return " or ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    if "$ref" in value:
        return "mapping"
    match value.get("type"):
        case "array" if "prefixItems" in value:
            return f"list of {len(value['prefixItems'])}: {_type(value['prefixItems'][0], known)}"
        case "array":
            return f"list of: {_type(value.get('items', {}), known)}"
        case "object":
            each = value.get("additionalProperties")
            return f"mapping to: {_type(each, known)}" if isinstance(each, dict) else "mapping"
        case "boolean":
            return "`true` or `false`"
        case "integer" | "number" as kind:
            return f"{'whole ' * (kind == 'integer')}number {_range(value)}".strip()
        case "string":
            return "text"
        case _:
            return "anything"


def _range(value: Mapping[str, Any]) -> str:
    words = {"exclusiveMinimum": "above", "minimum": "from", "exclusiveMaximum": "below", "maximum": "up to"}
    return " ".join(f"{word} {value[key]:.16g}" for key, word in words.items() if key in value)
