"""The object that a name such as my_app.py:client stands for."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from leakbench.base.errors import UserError


def split(text: str, flag: str = "audit") -> tuple[Path, str]:
    """Return file and name of FILE.py:NAME.

    text: FILE.py:NAME.
    flag: the name of the option in messages.

    Raises UserError for another form, and for a file that is not there.
    """
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name.isidentifier():
        raise UserError(f"{flag}: {text!r} is not FILE.py:NAME, such as my_app.py:client")
    if not os.path.isfile(file):
        raise UserError(f"{flag}: {file}: no such file")
    return Path(file), name


def loaded(text: str) -> Any:
    """Run a file and return the object that FILE.py:NAME names. Raises UserError if there is none."""
    path, name = split(text)
    sys.path.insert(0, str(path.resolve().parent))
    sys.argv = [str(path)]
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    # No compiled copy is left beside the user's file.
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise UserError(f"has no {name}")
    return getattr(module, name)
