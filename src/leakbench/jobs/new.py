"""new: write the files of a new part, which work without changes."""

import keyword
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from symtable import SymbolTable, symtable

from leakbench.base import yamls
from leakbench.base.artefacts import write_text
from leakbench.base.errors import UserError
from leakbench.base.parts import NAME, stem
from leakbench.base.yamls import suggest
from leakbench.catalogue.load import ALL, file_of, load_kind

TEMPLATES = Path(__file__).with_name("templates")


def kinds() -> list[str]:
    return sorted(path.name for path in TEMPLATES.iterdir() if path.is_dir())


def new(root: Path, kind: str, name: str) -> None:
    """Write the source and the YAML of a part, and print their paths.

    root: the checkout.
    kind: attack, defence, objective, optimiser, dataset or victim.
    name: the part's name in YAML: small letters, digits and hyphens, with a letter first.

    Raises UserError for another kind or name, if one of the files exists, and if a part of this name would
    break the catalogue or its own file; then nothing is written. If one of the files cannot be written, none
    stays.
    """
    if kind not in kinds():
        raise UserError(f"no kind of part is called '{kind}' ({suggest(kind, kinds())})")
    checked_name(name)
    rooms = {"src": root / "src" / "leakbench", "config": root / "config"}
    made: dict[Path, str] = {}
    for file in sorted((TEMPLATES / kind).rglob("*.txt")):
        top, *rest = file.relative_to(TEMPLATES / kind).parts
        path = rooms[top].joinpath(*rest)
        own = path.name.removesuffix(".txt").replace("STEM", stem(name)).replace("NAME", name)
        _check_free(root / "config", name, path.with_name(own), file.read_text("utf-8"))
        made[path.with_name(own)] = file.read_text("utf-8").replace("STEM", stem(name)).replace("NAME", name)
    # A part with a missing file would fail every later plan, so all files are written or none.
    with ExitStack() as undone:
        for path, text in made.items():
            write_text(path, text)
            undone.callback(path.unlink)
        undone.pop_all()
    print(*made, sep="\n")
    print("Next: describe it.", end=" ")
    # In an experiment `all` stands for every file of these two kinds.
    if {path.parent.name for path in made} & {"attacks", "defences"}:
        print("Experiments that say `all` have it already. Name it in others.")
    else:
        print("Name it in an experiment.")


def checked_name(name: str) -> str:
    """Return the name of a part. Raises UserError for one that YAML or Python could not hold."""
    if not all(re.fullmatch(form, name) for form in (NAME, yamls.NAME)):
        raise UserError(
            f"'{name}' is no name of a part (use small letters, digits and single hyphens, at most 100, and "
            "begin with a letter)"
        )
    if name == ALL:
        raise UserError(f"'{name}' stands for every part in an experiment (choose another name)")
    if keyword.iskeyword(stem(name)):
        raise UserError(f"'{name}' is a Python keyword (choose another name)")
    return name


def _check_free(config: Path, name: str, path: Path, template: str) -> None:
    """Raise UserError if `path`, with the text of its template, could not be written or would not work."""
    if path.exists():
        raise UserError(f"{path}: exists already (choose another name)")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such folder (is this the root of a leakbench checkout?)")
    if path.suffix == ".yaml":
        if name in load_kind(config, path.parent.name):
            file = file_of(config, path.parent.name, name)
            raise UserError(f"{file}: has a variant '{name}' already (choose another name)")
        return
    # The part's function would take the place of what its file means by the name, and the part's module, once
    # it is imported, of what the code of its room means by it.
    room = path.with_name("__init__.py")
    for file, text in ((path, template), (room, room.read_text("utf-8") if room.is_file() else "")):
        if stem(name) in _names(symtable(text, str(file), "exec")):
            raise UserError(f"{file}: '{stem(name)}' means something else there (choose another name)")


def _names(scope: SymbolTable) -> Iterator[str]:
    """Yield the names that code has or uses at the level of its file, and the builtins that it uses."""
    at_top = scope.get_type() == "module"
    yield from (symbol.get_name() for symbol in scope.get_symbols() if at_top or symbol.is_global())
    for inner in scope.get_children():
        yield from _names(inner)
