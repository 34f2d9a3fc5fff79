"""new: write the files of a new part, which work as they are."""

import keyword
import re
from contextlib import ExitStack
from pathlib import Path

from leakbench.artefacts import write_text
from leakbench.errors import UserError
from leakbench.parts import NAME, stem
from leakbench.yamls import suggest

TEMPLATES = Path(__file__).parents[1] / "templates"


def kinds() -> list[str]:
    """Return the kinds of parts for which there are templates."""
    return sorted(path.name for path in TEMPLATES.iterdir() if path.is_dir())


def new(root: Path, kind: str, name: str) -> None:
    """Write the source and the YAML of a part, and print their paths.

    root: the checkout.
    kind: one of `kinds()`.
    name: the part's name in YAML: small letters, digits and hyphens, with a letter first.

    Raises UserError for another kind or name, and if one of the files exists; then nothing is written. If one
    of the files cannot be written, none stays.
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
        made[path.with_name(own)] = file.read_text().replace("STEM", stem(name)).replace("NAME", name)
    for path in made:
        if path.exists():
            raise UserError(f"{path}: exists already (choose another name)")
        if not path.parent.is_dir():
            raise UserError(f"{path.parent}: no such folder (is this the root of a leakbench checkout?)")
    # A part with a missing file would fail every later plan, so all files are written or none.
    with ExitStack() as undone:
        for path, text in made.items():
            write_text(path, text)
            undone.callback(path.unlink)
        undone.pop_all()
    print(*made, sep="\n")
    print("Next: describe it, then run `python -m leakbench manual` and name it in an experiment.")


def checked_name(name: str) -> str:
    """Return the name of a part.

    Raises UserError where it has characters that such names do not have, or where no function of Python can
    have it.
    """
    if not re.fullmatch(NAME, name):
        raise UserError(
            f"'{name}' is no name of a part (use small letters, digits and single hyphens, and begin "
            "with a letter)"
        )
    if keyword.iskeyword(stem(name)):
        raise UserError(f"'{name}' is a word of Python's own (choose another name)")
    return name
