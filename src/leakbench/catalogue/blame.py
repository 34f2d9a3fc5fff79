"""The search for the user's file that caused a planning error that no check explains."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic_core import SchemaError

from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS
from leakbench.base.yamls import read_yaml
from leakbench.catalogue.load import RULES, files_of
from leakbench.catalogue.schema import KINDS
from leakbench.catalogue.signature import mistake, module_file, parameters_model, part_names

# What pydantic, and what an annotation itself, may raise.
_RAISED = (
    AssertionError, AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError,
    SchemaError,
)  # fmt: skip


@contextmanager
def blamed(config: Path) -> Iterator[None]:
    """Raise UserError in place of any other error that a part's file or an attack's YAML causes.

    These files are read only after an error, so that a sound plan costs no time here.

    config: the folder of the catalogue.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as problem:
        for reason in chain(_sources(), _attacks(config)):
            raise UserError(reason) from problem
        raise


def odd(attack: Mapping[str, Any]) -> str:
    """Describe the first entry in a section of an attack that is neither a name nor a mapping of names.

    Returns "" if there is none.
    """
    for section in SECTIONS:
        given = attack.get(section)
        listed = given if isinstance(given, list) else []
        if wrong := [entry for entry in listed if not isinstance(entry, str | dict)]:
            return f"{section}: {wrong[0]!r} names no part (write a name, or a name with its arguments)"
    return ""


def _sources() -> Iterator[str]:
    """Yield the first mistake of each source file that is no Python.

    Then yield each part with keywords from whose annotations no model can be made.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        if what := mistake(path.read_bytes()):
            yield f"{path}: {what} (mend the file)"
    rooms = sorted({*KINDS, *SECTIONS.values(), *RULES, "drawing"})
    for room, name in ((each, name) for each in rooms for name in part_names(each)):
        try:
            parameters_model(room, name)
        except UserError:
            continue
        except _RAISED as problem:
            yield f"{module_file(room, name)}: a keyword's annotation is no plain one: {problem} (mend it)"


def _attacks(config: Path) -> Iterator[str]:
    for path in files_of(config, "attacks"):
        value = read_yaml(path)
        variants = value.get("variants")
        within = variants if isinstance(variants, dict) else {}
        entries = {"": value} | {f"variants.{name}.": each for name, each in within.items()}
        for where, entry in entries.items():
            if isinstance(entry, dict) and (what := odd(entry)):
                yield f"{path}: {where}{what}"
