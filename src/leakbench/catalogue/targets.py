"""The check of a command's targets: a mistake is one line, where Snakemake's own answer has several."""

import difflib
import os
from collections.abc import Iterable
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.base.yamls import suggest
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.resolve import Plan
from leakbench.catalogue.strays import PAGES

# Below a run's folder: folders with one file for each experiment → the suffix of the files (_SHOWN), folders
# of specs and of what is made for cells and studies (_OF_CELLS), and single files (PAGES).
_SHOWN = {
    "tables": "csv", "exhibits": "safetensors", "trials": "parquet", "figures": "png", "notebooks": "ipynb",
}  # fmt: skip
_OF_CELLS = (
    "specs", "records", "victims", "generators", "studies", "captures", "oracle", "truth", "guesses",
    "scores",
)  # fmt: skip


def check(words: Iterable[str], plan: Plan, root: Path, home: Path) -> None:
    """Raise UserError if one of a command's words is a file that no rule makes.

    The message says what to write in its place. UserError is also raised for a folder that jobs could not
    write to.

    words: the words of the command line behind `snakemake`.
    plan: the plan that the command's settings ask for.
    root: the checkout.
    home: the folder that results/, logs/ and data/ lie in.
    """
    for folder in (home / "logs", home / "scratch"):
        if folder.exists() and not os.access(folder, os.W_OK):
            mend = "make the folder writable, then run the same command again"
            raise UserError(f"{folder}: may not be written ({mend})")
    before = ""
    for word in words:
        # The file that an option of Snakemake writes is no target.
        if not (word.startswith("-") or before.startswith("--report") or os.path.exists(home / word)):
            _check_target(Path(os.path.normpath(word)), plan, root, own=home == root)
        before = word


def _check_target(path: Path, plan: Plan, root: Path, own: bool) -> None:
    """Raise UserError with the nearest target if no rule makes a file that does not exist.

    own: whether no other workflow uses this one. Another workflow has targets that are not known here.
    """
    match path.parts:
        case ("results", plan.run, kind, name) if kind in _SHOWN:
            plan.cells_of(Path(name).stem)
            if (right := f"{Path(name).stem}.{_SHOWN[kind]}") != name:
                raise UserError(f"{path}: no rule makes it (write {path.with_name(right)})")
        case _ if not own:
            return
        case ("data", name) if name.endswith(".safetensors"):
            known = {f"{data}.safetensors" for data in load_kind(root / "config", "datasets")}
            _refuse_unless(path, name, known)
        case ("results", run, _, *_) if run != plan.run:
            scale, _, seed = run.partition("-seed")
            _refuse_unless(path, scale, load_kind(root / "config", "scales"))
            settings = f"scale={scale}" + (f" seed={seed}" if seed else "")
            raise UserError(f"{path}: belongs to another run (add --config {settings})")
        case ("results", _, page) if "." in page:
            _refuse_unless(path, page, PAGES)
        case (page,) if "." in page and (near := difflib.get_close_matches(page, PAGES, 1, 0.7)):
            raise UserError(f"{path}: no rule makes it (write results/{plan.run}/{near[0]})")
        case ("results", _, kind, _, *_):
            _refuse_unless(path, kind, [*_SHOWN, *_OF_CELLS])


def _refuse_unless(path: Path, name: str, known: Iterable[str]) -> None:
    if name not in (names := list(known)):
        raise UserError(f"{path}: no rule makes '{name}' ({suggest(name, names)})")
