"""The report page: what it says, in which order, and that a browser shows it without asking for anything."""

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import chromium
import numpy as np
import pandas as pd
import pytest

from leakbench.report import Section, page
from leakbench.report.card import groups, lines
from leakbench.report.results import results

FACTS = {"scale": "quick", "versions": {"python": "3.11.2", "torch": "2.0"}}
EMPTY = pd.DataFrame(columns=["metric", "mean", "n", "baseline"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium.browser() as started:
        yield started


class Text(HTMLParser):
    """Collects the tags and the visible words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Text:
    text = Text()
    text.feed(html)
    return text


def visible(html: str) -> str:
    return re.sub(r"\s+", " ", " ".join(read(html).words))


def test_every_scorecard_row_is_on_the_page_once(card: pd.DataFrame) -> None:
    html = page(card, [], FACTS)
    ids = [
        attributes["data-id"]
        for tag, attributes in read(html).tags
        if tag == "tr" and "data-id" in attributes
    ]
    assert sorted(ids) == sorted(card["id"])


def test_the_scorecard_comes_before_every_experiment(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    html = page(card, [section()], FACTS)
    assert html.index('id="scorecard"') < html.index("<article") < html.index("<img")


def test_rows_that_were_not_run_are_folded_and_the_others_are_not(card: pd.DataFrame) -> None:
    html = page(card, [], FACTS)
    folded = " ".join(re.findall(r"<details>.*?</details>", html, re.DOTALL))
    for row in card.to_dict("records"):
        assert (f'data-id="{row["id"]}"' in folded) == (row["verdict"] == "not-run")


def test_counts_by_source_and_verdict(card: pd.DataFrame) -> None:
    fidel, agic, other, settings = groups(lines(card), {"fidel": "Fidel: a title"})
    assert fidel.counts == {"reproduced": 1, "direction": 1, "differs": 1, "inconclusive": 0, "not-run": 1}
    assert (agic.key, agic.total, agic.reasons) == ("agic", 2, [("data set cifar100 is not here", 1)])
    assert (fidel.name, other.name) == ("Fidel: a title", "elsewhere")
    # An echo of our own configuration is no result.
    assert (settings.key, settings.counts["reproduced"]) == ("class-setting", 1)


def test_a_row_names_where_its_evidence_is_from_and_what_this_run_found(card: pd.DataFrame) -> None:
    text = visible(page(card, [], FACTS))
    assert "not < 1 paper, cpu, abc; this run alone 1.5 (n = 2), which does not agree" in text


def test_numbers_kept_as_text_are_written_with_their_interval(card: pd.DataFrame) -> None:
    text = visible(page(card, [], FACTS))
    assert "21.5 [21.2, 21.8]" in text or "21.49 [21.2, 21.8]" in text
    assert "nan" not in text.lower()


def test_a_scorecard_of_numbers_reads_like_one_of_text(card: pd.DataFrame) -> None:
    typed = card.copy()
    for column in ("measured", "ci_low", "ci_high", "n"):
        typed[column] = pd.to_numeric(typed[column].replace("", np.nan))
    assert page(typed, [], FACTS) == page(card, [], FACTS)


def test_an_unknown_verdict_is_refused(card: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="'maybe' is no verdict"):
        page(card.assign(verdict="maybe"), [], FACTS)


def test_a_section_shows_its_own_scorecard_rows_and_those_that_name_it(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    html = page(card, [section(), section(name="fidel-figure-5", item="fig-5")], FACTS)
    first, second = html.split("<article")[1:]
    assert 'id="fidel-figure-5"' in first
    assert re.findall('data-id="(.*?)"', first) == ["fidel.doubt.b"]
    assert re.findall('data-id="(.*?)"', second) == ["fidel.text.1", "fidel.fig-13.a"]


def test_a_name_is_not_found_inside_a_longer_one(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    card = card.assign(condition="see experiment fidel-figure-55")
    html = page(card, [section(name="fidel-figure-5", item="none")], FACTS)
    assert "data-id" not in html.split("<article")[1]


def test_the_result_table_has_nulls_beside_the_attack_and_only_columns_that_vary(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    article = page(card, [section()], FACTS).split("<article")[1]
    table = article[article.index('<table class="results">') :]
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table) == [
        "victim", "k", "metric", "mean", "95 % interval", "median", "n", "failed",
        "null: a random gradient attacked",
    ]  # fmt: skip
    rows = [
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip()
        for row in re.findall(r"<tr>(.*?)</tr>", table)
    ][1:]
    assert len(rows) == 8
    assert rows[1] == "fcnn-relu 30 revealed per update 21 [20.9, 21.1] 21 200 25 % 0"
    assert all("revealed" in row for row in rows[:4])
    assert "data set mnist" in visible(article)


def test_points_of_curves_are_left_to_the_figure(section: Callable[..., Section]) -> None:
    table = section().table
    point = table.iloc[[0]].assign(metric="success_mse", threshold=0.5)
    shown = results(pd.concat([table, point], ignore_index=True))
    assert shown == results(table)
    assert len(shown.rows) == 8


def test_the_threat_model_scale_n_and_seed_stand_under_each_experiment(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    threat = visible(page(card, [section()], FACTS)).rsplit("null: a random gradient attacked", 1)[1]
    for words in (
        "honest-but-curious server",
        "none or noise",
        "scale quick",
        "200 images",
        "200 updates",
        "seed 0 1",
    ):
        assert words in threat


def test_an_absent_experiment_says_why(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    absent = section(figure=b"", table=EMPTY, knows={}, absent={"cell": "data set not here"})
    text = visible(page(card, [absent], FACTS))
    assert "Not run in part or in whole: data set not here." in text
    assert "No figure." in text


def test_a_figure_that_is_no_png_is_refused(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    with pytest.raises(ValueError, match="not a PNG"):
        page(card, [section(figure=b"<svg/>")], FACTS)


def test_hostile_text_is_escaped(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    card = card.assign(condition=hostile, reason=hostile, published=hostile, metric="claim", item=hostile)
    bad = section(title=hostile, shows=hostile, absent={"cell": hostile}, knows={"labels": hostile})
    bad = section(**{**bad.__dict__, "table": bad.table.assign(victim=hostile)})
    text = read(page(card, [bad], FACTS | {"scale": hostile}))
    assert "script" not in [tag for tag, _ in text.tags]
    assert not [
        attributes for _, attributes in text.tags if any(name.startswith("on") for name in attributes)
    ]
    assert all((attributes["src"] or "").startswith("data:") for tag, attributes in text.tags if tag == "img")
    assert "<script>alert(1)</script>" in "".join(text.words)


def test_a_browser_shows_the_page_and_asks_for_nothing(
    card: pd.DataFrame, section: Callable[..., Section], tmp_path: Path, browser: Any
) -> None:
    long = "a-name-without-any-place-to-break-it-" * 8
    card = pd.concat(
        [card, card.assign(id=lambda f: f["id"] + ".long", condition=long, item=long, reason=long)]
    )
    sections = [section(), section(name="fidel-figure-5", item="fig-5", title=long, knows={"labels": long})]
    sections.append(
        section(name="agic-table-1", work="agic", item="table-1", figure=b"", table=EMPTY, absent={"a": long})
    )
    path = tmp_path / "a report.html"
    path.write_text(page(card, sections, FACTS))
    assert chromium.inspect(browser, path) == []


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        ("<img src='data:image/png;base64,AAAA' alt='lost'>", "picture not drawn: lost"),
        ("<div style='width:3000px'>wide</div>", "pixels wider than its window"),
        ("<script>throw new Error('oops')</script>", "oops"),
        ("<script>console.error('bad')</script>", "console error: bad"),
        ("<link rel='stylesheet' href='http://127.0.0.1:9/x.css'>", "asks for http://127.0.0.1:9/x.css"),
        ("<figure>early</figure>", "a figure comes before the scorecard"),
    ],
)
def test_the_browser_check_sees_each_fault(broken: str, fault: str, tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>x</title><body>{broken}<section id='scorecard'>card</section>")
    assert any(fault in found for found in chromium.inspect(browser, path))


def test_the_filter_shows_one_verdict(card: pd.DataFrame, tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(card, [], FACTS))
    window = browser.new_page()
    window.goto(path.as_uri())
    window.check("#show-differs")
    shown = window.eval_on_selector_all(
        "tr.row", "rows => rows.filter(r => r.checkVisibility()).map(r => r.dataset.id)"
    )
    window.check("#show-all")
    everything = window.eval_on_selector_all("tr.row", "rows => rows.filter(r => r.checkVisibility()).length")
    assert shown == ["fidel.doubt.b"]
    # All that were measured; those that were not are behind lines of their own.
    assert everything == (card["verdict"] != "not-run").sum() == 5


def test_without_chromium_the_check_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        chromium.executable()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception):
        chromium.executable()


def test_the_page_says_how_exact_it_is(card: pd.DataFrame) -> None:
    verified = {
        "numbers": {"identical": 1200, "within tolerance": 0, "different": 3},
        "tables": 9,
        "identical_tables": 7,
        "recorded": {"device": "cpu: <x>", "twice": {"tables": 9, "identical": 8}},
    }
    text = " ".join(page(card, [], FACTS | {"verified": verified}).split())
    assert (
        "7 of 9 tables are byte for byte those recorded on cpu: &lt;x&gt;; of their numbers 1,200 identical, "
        "3 different" in text
    )
    assert "two runs from scratch gave 8 of 9 tables with the same bytes" in text
    once = {**verified, "recorded": {"device": "cpu"}}
    assert "from scratch" not in page(card, [], FACTS | {"verified": once})
    assert "Nothing is recorded" in page(card, [], FACTS | {"verified": {**verified, "recorded": {}}})
    other = page(card, [], FACTS | {"verified": {**verified, "recorded": {}, "seed": 3}})
    assert "Every seed is raised by 3" in other
    assert "Nothing is recorded" not in other
    assert "Exactness" not in page(card, [], FACTS)
