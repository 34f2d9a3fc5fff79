"""README.md and docs/README.md name every attack, defence and page, and commands that show something."""

import re
from pathlib import Path

import pytest
from project import ROOT

from leakbench.catalogue.workflow import Workflow
from leakbench.papers import reference

README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name != "README.md")
PARTS = sorted(
    path.stem for room in ("attacks", "defences") for path in (ROOT / "config" / room).glob("*.yaml")
)
MANIFEST = (ROOT / "codecheck.yml").read_text(encoding="utf-8")
FIGURES = sorted(set(re.findall(r"results/(quick|standard)/figures/([a-z0-9-]+)\.png", README + MANIFEST)))


def test_the_index_sorts_pages_into_four_kinds() -> None:
    assert re.findall(r"^## (.*)", INDEX, re.MULTILINE) == [
        "Tutorial", "How-to guides", "Reference", "Explanation",
    ]  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_one_place_in_the_index(page: str) -> None:
    assert len(re.findall(rf"^\| \[{re.escape(page)}\]\({re.escape(page)}\)", INDEX, re.MULTILINE)) == 1


@pytest.mark.parametrize("part", [part for part in PARTS if part != "none"])
def test_the_readme_names_every_attack_and_defence(part: str) -> None:
    """With a source, in a line of a table."""
    lines = [line for line in README.splitlines() if line.startswith("|") and f"`{part}`" in line]
    assert lines, f"README.md: add a line for `{part}`: title, authors, year and link of its paper"
    assert any(re.search(r"\]\(http|\bours\b|20\d\d|docs/", line) for line in lines)


@pytest.mark.parametrize("scale", ["quick", "standard"])
def test_every_figure_that_the_readme_or_the_manifest_names_is_measured_or_recorded(scale: str) -> None:
    planned = Workflow(ROOT, scale).plan
    for name in (name for each, name in FIGURES if each == scale):
        measured = planned.experiments[name] or planned.studies[name]
        assert measured or reference.files(ROOT, name), f"{name} is empty at scale {scale}"


@pytest.mark.parametrize(
    "page",
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *(ROOT / room / "README.md" for room in ("papers", "reference", "config", "entries")),
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)  # fmt: skip
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^ {4}.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            heads = re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), re.MULTILINE)
            made = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]
            assert anchor in made, target
