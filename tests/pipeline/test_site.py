"""The site of a finished quick scale, if `make reproduce` has made one and `make site` its environment."""

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import chromium
import pytest
from nightly import daily
from project import ROOT

from leakbench.jobs.cli import main

MKDOCS, SOURCES, BUILT = ROOT / ".site/bin/mkdocs", ROOT / "scratch/site", ROOT / "results/site"
# A page of each kind. All others are looked at by night.
KINDS = ("index", "docs/exact-attacks", "docs/adding-networks", "manual/api", "manual/cli",
         "manual/config/attacks", "printed/fidel", "gallery/fidel", "entries/index")  # fmt: skip

pytestmark = [
    pytest.mark.skipif(not (ROOT / "results/quick/report.html").is_file(), reason="run make reproduce first"),
    pytest.mark.skipif(not MKDOCS.is_file(), reason="the environment of the site is not made: run make site"),
]


def mkdocs() -> subprocess.CompletedProcess[str]:
    asked = [MKDOCS, "build", "--strict", "--config-file", SOURCES / "mkdocs.yml"]
    own = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(asked, capture_output=True, text=True, env=own)


@pytest.fixture(scope="module")
def pages() -> list[str]:
    """Return the pages of the site, which is built strictly; 404.html is served at any address."""
    assert main(["site", "--root", str(ROOT)]) == 0
    built = mkdocs()
    assert built.returncode == 0, built.stderr
    found = sorted(str(path.relative_to(BUILT).with_suffix("")) for path in BUILT.rglob("*.html"))
    return [name for name in found if name != "404"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.browser() as one:
        yield one


@pytest.mark.parametrize("part", daily(["kinds", *range(8)], ["kinds"]))
def test_chromium_finds_no_fault_in_any_page(part: str | int, pages: list[str], browser: Any) -> None:
    """Those of the report and of an audit are looked at beside what makes them (chromium.inspect)."""
    assert set(KINDS) <= set(pages)
    found = {
        name: chromium.inspect(browser, BUILT / f"{name}.html", home=BUILT)
        for name in (KINDS if part == "kinds" else pages[part::8])
    }
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_the_search_finds_a_page_from_a_disk(pages: list[str], browser: Any) -> None:
    page = browser.new_page()
    page.goto((BUILT / "docs/labels.html").as_uri(), wait_until="load")
    page.click("input.md-search__input")
    page.keyboard.type("key-lock")
    page.wait_for_selector(".md-search-result__item", timeout=20_000)
    page.close()


def test_a_broken_anchor_stops_the_build(pages: list[str]) -> None:
    page = SOURCES / "pages/docs/faq.md"
    text = page.read_text()
    page.write_text(text + "\n[nowhere](defences.md#no-such-heading)\n")
    try:
        built = mkdocs()
    finally:
        page.write_text(text)
    assert built.returncode
    assert "no-such-heading" in built.stderr
