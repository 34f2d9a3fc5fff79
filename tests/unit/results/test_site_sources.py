"""The sources of the site: links, lists as Python-Markdown has them, the menu, and what is refused."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from project import ROOT

from leakbench.base.errors import UserError
from leakbench.catalogue.schema import Experiment
from leakbench.jobs.cli import main
from leakbench.papers.work import read_papers
from leakbench.results import site

INDEX = """\
# Documents

## Guides

| page | task |
| --- | --- |
| [a guide](guide.md) | do it |
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout of three pages and a picture."""
    pages = {
        "README.md": "# Front\n\n[all](docs/README.md) and `[no](link.md)`; [folder](docs); [out](https://a.b)\n",
        "docs/README.md": INDEX,
        "docs/guide.md": "# A `guide`\n\n![seen](seen.png)\n\n[made](../printed/work.md#x)\n",
        "docs/seen.png": "picture",
    }
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "site").symlink_to(ROOT / "site")
    return tmp_path


def test_pages_are_those_that_links_reach(root: Path) -> None:
    into = root / "scratch/site"
    (into / "pages").mkdir(parents=True)
    (into / "pages/old.md").write_text("of an earlier build")
    site.write(root, {"printed/work.md": "# Work\n"}, {}, into)
    found = {str(path.relative_to(into / "pages")) for path in into.glob("pages/**/*") if path.is_file()}
    assets = {"assets/style.css", "assets/iframe-worker.js", "assets/keyboard.js"}
    assert (
        found == {"README.md", "docs/README.md", "docs/guide.md", "docs/seen.png", "printed/work.md"} | assets
    )
    # A page of the site has no folders.
    assert "; folder; [out](https://a.b)" in (into / "pages/README.md").read_text()
    assert yaml.safe_load((into / "mkdocs.yml").read_text())["nav"] == [
        {"Home": "README.md"}, {"All documents": "docs/README.md"},
        {"Guides": [{"A guide": "docs/guide.md"}]}, {"Printed beside ours": [{"work": "printed/work.md"}]},
    ]  # fmt: skip


def test_a_link_that_leads_nowhere_names_page_and_target(root: Path) -> None:
    with pytest.raises(
        UserError, match=r"^docs/guide\.md: the link to \.\./printed/work\.md#x leads to no file"
    ):
        site.write(root, {}, {}, root / "scratch/site")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("text\n- one\n- two\n", "text\n\n-   one\n-   two\n"),
        ("1. one\n\n       code\n\n   more\n", "1.  one\n\n        code\n\n    more\n"),
        ("10. ten\n    on\n", "10. ten\n    on\n"),
        ("- a\n  - b\n    c\n", "-   a\n    -   b\n        c\n"),
        ("- a\nlazy\n", "-   a\n    lazy\n"),
        ("    - code\n", "    - code\n"),
        ("- a\n\n  ```\n  x\n    y\n  ```\n", "-   a\n\n    ```\n    x\n      y\n    ```\n"),
    ],
)  # fmt: skip
def test_lists_have_four_columns_a_level(given: str, wanted: str) -> None:
    assert site.indented(given) == wanted


CARD = {
    "work": "fidel", "item": "fig-13", "class": "result", "condition": "at() [experiment=one, metric=mse]",
    "metric": "claim", "published": "a | b][0]", "measured": 0.5, "ci_low": 0.25, "ci_high": 0.75, "n": 10,
    "verdict": "reproduced", "reason": "holds",
}  # fmt: skip


def test_what_is_printed_stands_beside_ours_and_what_did_not_run_is_counted() -> None:
    works = [work for work in read_papers(ROOT / "papers") if work.name == "fidel"]
    idle = {"verdict": "not-run", "reason": "too dear"}
    page = site.printed(works, pd.DataFrame([CARD, CARD | idle, CARD | idle]))["printed/fidel.md"]
    assert r"| a \| b]\[0] | 0.5 [0.25, 0.75] n = 10 | reproduced | holds |" in page
    assert "Not run: 2 of 3 rows. too dear." in page
    with pytest.raises(UserError, match=r"^papers/fidel: the scorecard has no row of it"):
        site.printed(works, pd.DataFrame([CARD | {"work": "agic"}]))


def experiment(title: str) -> tuple[str, Experiment]:
    cells = [{"dataset": ["a"], "victim": ["b"], "federation": ["c"], "attack": ["d"]}]
    drawn = [{"drawing": "grid"}]
    own = {
        "item": "fig-13", "title": title, "shows": "S.", "metrics": ["mse"], "cells": cells,
        "figure": drawn,
    }  # fmt: skip
    return "fidel", Experiment.model_validate(own)


def test_the_gallery_shows_figures_and_names_the_experiments_without_one(tmp_path: Path) -> None:
    works = [work for work in read_papers(ROOT / "papers") if work.name == "fidel"]
    asked = {"one": experiment("First"), "two": experiment("Second")}
    figures = tmp_path / "results/quick/figures"
    figures.mkdir(parents=True)
    tables = figures.parent / "tables"
    tables.mkdir()
    (figures / "one.png").write_bytes(b"picture")
    (tables / "two.csv").touch()
    with pytest.raises(UserError, match=r"figures/two\.png: is missing, so the gallery lacks it"):
        site.gallery(tmp_path, works, asked, "quick", pd.DataFrame([CARD]))
    (figures / "two.png").touch()
    made, pictures = site.gallery(tmp_path, works, asked, "quick", pd.DataFrame([CARD]))
    assert pictures == {"gallery/one.png": figures / "one.png"}
    page = made["gallery/fidel.md"]
    assert "## First {#one}" in page
    assert "reproduced: 1" in page
    assert "- `two`: Second" in page


def test_a_checkout_without_records_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("papers", "config", "src", "site", "docs", "README.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    assert main(["site", "--root", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith(": holds no record (see leakbench fetch-records --help)\n")
    # One record, because a scorecard of all takes long.
    (tmp_path / "reference/standard").mkdir(parents=True)
    for path in (ROOT / "reference/standard").glob("fidel-figure-13.*"):
        (tmp_path / "reference/standard" / path.name).symlink_to(path)
    assert main(["site", "--root", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "is missing, so the gallery lacks it" in said
