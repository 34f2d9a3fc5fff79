"""An extension of griffe, which reads docstrings for the site: `name: meaning` says of an argument."""

import re
from typing import Any

import griffe

_BLOCK = re.compile(r"(?:^\w+: .+\n(?:(?!\w+: )\S.*\n?)*)+", re.MULTILINE)


def google(text: str, names: list[str], title: str) -> str:
    """Return a docstring whose lines about `names` are a section of Google's style."""

    def section(match: re.Match[str]) -> str:
        if match[0].partition(":")[0] not in names:
            return match[0]
        lines = match[0].rstrip("\n").split("\n")
        made = [f"    {line}" if re.match(r"\w+: ", line) else f"        {line}" for line in lines]
        return "\n".join([f"{title}:", *made, ""])

    return _BLOCK.sub(section, text + "\n").rstrip("\n")


class Arguments(griffe.Extension):
    """Rewrites the docstrings of functions and classes as they are read."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Make a section of the arguments of a function."""
        if func.docstring:
            func.docstring.value = google(
                func.docstring.value, [each.name for each in func.parameters], "Args"
            )

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        """Make a section of the attributes of a class."""
        if cls.docstring:
            cls.docstring.value = google(cls.docstring.value, list(cls.members), "Attributes")
