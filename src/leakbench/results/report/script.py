"""The page's style sheet, its one script, what unpacks the script, and where the code is published.

Sheet and script begin with the table library DataTables, as the package itables bundles it.
"""

import base64
import gzip
import hashlib
import importlib.util
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

from leakbench.base.errors import UserError
from leakbench.base.yamls import read_yaml

KEY = "repository-code"
# The name under which the bundle, a module, offers the library's class.
_OFFERED = re.compile(r"export\{[^}]*?(\w+) as default[^}]*\};?")


def _bundle(suffix: str) -> str:
    # The package is found without being imported, because importing it loads the libraries of a notebook.
    found = importlib.util.find_spec("itables")
    folder = Path(next(iter(found.submodule_search_locations or []))) if found else Path()
    return (folder / "html" / f"dt_bundle.{suffix}").read_text(encoding="utf-8")


@cache
def style() -> str:
    """Return the style sheet of the table library, then the page's own, which may override the first."""
    return _bundle("css") + (files("leakbench.results.report") / "page.css").read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return the text of the page's module script. Raises ValueError if the bundle offers no class."""
    text = _bundle("js")
    offered = _OFFERED.search(text)
    if not offered:
        raise ValueError("the bundle of itables offers no default export (lock another version)")
    own = (files("leakbench.results.report") / "page.js").read_text(encoding="utf-8")
    return f"{_OFFERED.sub('', text)}\nconst DataTable = {offered[1]};\n{own}"


@cache
def loader() -> str:
    """Return the text of the script that unpacks the page's script and adds it to the page."""
    return (files("leakbench.results.report") / "load.js").read_text(encoding="utf-8")


def commits(root: Path) -> str:
    """Return the address that a commit's name follows, or "" if the checkout names none."""
    file = root / "CITATION.cff"
    found = str(read_yaml(file).get(KEY, "")) if file.is_file() else ""
    if found and not found.startswith("https://"):
        raise UserError(f"{file}: {KEY}: {found!r} is no https address (mend it, or leave it out)")
    return f"{found.rstrip('/').removesuffix('.git')}/commit/" if found else ""


def digest(text: str) -> str:
    """Return the name of an inline script in a content-security policy: its sha256 in base64."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def packed(text: str) -> str:
    """Return a text compressed by gzip, in base64; the loader and the script unpack it."""
    # Without a time stamp, the bytes depend on the text alone.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
