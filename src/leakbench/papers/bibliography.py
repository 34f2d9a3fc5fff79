"""The works that leakbench cites, config/bibliography.yaml, and the citations that are made from them."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from leakbench.base.code import home
from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, read_yaml, suggest, validated

FILE = "bibliography.yaml"
OTHERS = "others"
_ARXIV = "https://arxiv.org/abs/"
_DOI = "https://doi.org/"
# The line of CITATION.cff behind which everything is made.
_REFERENCES = "references:\n"
_NAME = r"[A-ZÀ-Ý][\w'-]+(?:[ -][A-ZÀ-Ý][\w'-]+)*"
# A citation in Markdown is known by its link: authors, [title](link), venue, year.
_CITED = re.compile(
    rf"(?:(?P<authors>{_NAME}(?:,\s+{_NAME})*\s+and\s+{_NAME}|{_NAME}\s+et\s+al\.),\s+)?"
    r"\[(?P<title>[^\]]+)\]\((?P<link>https?://[^)\s]+)\)"
    r"(?P<when>(?P<venue>,\s+[A-Z][\w&]*(?:\s+[A-Z][\w&]*)*)?,\s+\d{4}\b)?"
)


class Publication(Strict):
    title: str
    authors: Annotated[list[str], Field(min_length=1)]
    year: int
    venue: str = ""
    link: Annotated[str, Field(pattern="^(https://.*)?$")] = ""
    code: Annotated[str, Field(pattern="^(https://.*)?$")] = ""
    citation: dict[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        return [each.partition(",")[0] for each in self.authors if each != OTHERS]

    @property
    def surnames(self) -> str:
        """Return the family names as a citation has them: A, B and C, or A et al. if some are not listed."""
        if self.authors[-1] == OTHERS:
            return self.short
        return " and ".join([", ".join(self.names[:-1]), self.names[-1]]) if self.names[1:] else self.names[0]

    @property
    def short(self) -> str:
        return f"{self.names[0]} et al."

    @property
    def address(self) -> str:
        """Return the link, of arXiv by its number."""
        return f"arXiv:{self.link.removeprefix(_ARXIV)}" if self.link.startswith(_ARXIV) else self.link

    def __str__(self) -> str:
        """Return authors, title, venue and year, and where the work can be read."""
        when = f"{self.venue} {self.year}".strip()
        return ", ".join(each for each in (self.surnames, self.title, when, self.address) if each)


@cache
def bibliography(config: Path | None = None) -> Mapping[str, Publication]:
    path = (config or home()) / FILE
    found = read_yaml(path).items()
    return {key: validated(Publication, value, f"{path}: {key}: ", str(path)) for key, value in found}


def source(key: str) -> Publication:
    if key not in bibliography():
        raise UserError(f"{FILE}: no work {key!r} ({suggest(key, bibliography())})")
    return bibliography()[key]


def cited(text: str, works: Mapping[str, Publication]) -> str:
    """Return Markdown in which every citation that links a work has its authors, title, venue and year."""
    # Authors, venue and year are written only where the text has some. Line breaks stay where nothing else
    # differs.
    known = {each.link: each for each in works.values() if each.link}

    def made(match: re.Match[str]) -> str:
        work = known.get(match["link"])
        if work is None:
            return match[0]
        people = (match["authors"] or "").split()
        authors = f"{work.short if 'et' in people else work.surnames}, " if people else ""
        venue = f", {work.venue}" if match["venue"] and work.venue else ""
        when = f"{venue}, {work.year}" if match["when"] else ""
        text = f"{authors}[{work.title}]({work.link}){when}"
        return match[0] if match[0].split() == text.split() else text

    return _CITED.sub(made, text)


def citation(text: str, works: Mapping[str, Publication]) -> str:
    """Return CITATION.cff with the references of the works whose experiments leakbench reruns."""
    head, found, _ = text.partition(_REFERENCES)
    if not found:
        raise UserError("CITATION.cff: references: is missing (write the line, and nothing behind it)")
    return head + found + "".join(_reference(each) for each in works.values() if each.citation)


def _reference(work: Publication) -> str:
    """Return an entry of the references of CITATION.cff. JSON is YAML, too."""
    people = [_author(each) for each in work.authors]
    doi = work.link.startswith(_DOI)
    place = {"doi": work.link.removeprefix(_DOI)} if doi else {"url": work.link}
    keys = {"title": work.title, **(work.citation or {}), "year": work.year, **place}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]
    lines.insert(1, "\n".join(["authors:", *(f"      - {person}" for person in people)]))
    return "  - " + "\n    ".join(lines) + "\n"


def _author(name: str) -> str:
    family, comma, given = name.partition(", ")
    parts = {"family-names": family, "given-names": given} if comma else {"name": name}
    return json.dumps(parts, ensure_ascii=False)
