"""The report in a browser: it asks for nothing, filters, sorts, links, prints and fits a phone."""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import chromium
import pandas as pd
import pytest
from pages import FACTS, visible

from leakbench.results.report.page import page
from leakbench.results.report.section import Section

EMPTY = pd.DataFrame(columns=["metric", "mean", "n", "baseline"])


def test_a_row_that_differs_says_why_in_the_table_and_beside_its_figure(
    card: pd.DataFrame, section: Callable[..., Section], tmp_path: Path, browser: Any
) -> None:
    article = page(card, [section(name="fidel-figure-5", item="fig-5")], FACTS).split("<article")[1]
    assert "Hypothesis: a doubt." in visible(article)
    window = opened(card, tmp_path, browser, "#row=fidel.doubt.b")
    assert window.locator("#scorecard-table .examined").text_content() == "Hypothesis: a doubt."
    window = opened(card, tmp_path, browser, "#row=fidel.text.1")
    assert window.locator("#scorecard-table .examined").count() == 0


def test_hostile_rows_are_text_in_the_browser_too(card: pd.DataFrame, tmp_path: Path, browser: Any) -> None:
    hostile = "<img src=x onerror=alert(1)></script><b id=broken>"
    card = card.assign(condition=hostile, reason=hostile, published=hostile, item=hostile, convention=hostile)
    window = opened(card, tmp_path, browser)
    assert window.locator("#scorecard-table tbody tr").count() == 7
    assert window.locator("#broken, #scorecard-table img").count() == 0


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
    assert chromium.inspect(browser, path, scored=True) == []


# What is wrong with a page → what is said of it.
BROKEN = {
    "<img src='data:image/png;base64,AAAA' alt='lost'>": "picture not drawn: IMG.: lost",
    "<div style='width:3000px'>wide</div>": "pixels wider than its window",
    "<script>throw new Error('oops')</script>": "oops",
    "<script>console.error('bad')</script>": "console error: bad",
    "<link rel='stylesheet' href='http://127.0.0.1:9/x.css'>": "asks for http://127.0.0.1:9/x.css",
    "<figure>early</figure>": "no scorecard before the first figure",
    "<p>under</p><p style='margin-top:-2em'>over</p>": "text over text",
    "<a href='#' tabindex='-1'>mouse</a>": "the keyboard does not reach <a",
    "<style>@media print { p { color: #999 } }</style><p>faint</p>": "paper: pale text",
    f"<pre style='overflow:auto'>{99 * 'long '}</pre>": "paper: cut off",
    "<div style='background:red;height:9px'></div>": "paper: not printed",
    f"<table><tr><td><div style='width:2em;overflow:hidden'>{13 * 'go '}</div></table>": "narrow column: TD",
    20 * "<p style='height:99cm'>and</p>": "sheets",
}


def test_the_browser_check_sees_each_fault(tmp_path: Path, browser: Any) -> None:
    path, body = tmp_path / "page.html", "".join(BROKEN)
    path.write_text(f"<!doctype html><title>x</title><body>{body}<section id='scorecard'>card</section>")
    found = chromium.inspect(browser, path, scored=True)
    assert [fault for fault in BROKEN.values() if not any(fault in each for each in found)] == []


def opened(card: pd.DataFrame, folder: Path, browser: Any, place: str = "") -> Any:
    path = folder / "page.html"
    path.write_text(page(card, [], FACTS))
    window = browser.new_page()
    window.goto(path.as_uri() + place)
    # The script is unpacked once the page is there.
    window.locator("#scorecard-table tbody tr").first.wait_for()
    return window


def shown(window: Any) -> list[str]:
    return window.eval_on_selector_all("#scorecard-table tbody tr", "rows => rows.map(row => row.dataset.id)")


def test_the_table_filters_searches_and_sorts(card: pd.DataFrame, tmp_path: Path, browser: Any) -> None:
    window = opened(card, tmp_path, browser)
    card = card.sort_values("verdict", key=lambda words: words == "not-run", kind="stable")
    assert shown(window) == card.loc[card["class"] == "result", "id"].tolist()
    window.select_option("#filters [name=word]", "differs")
    assert shown(window) == ["fidel.doubt.b"]
    window.click("#show-all")
    assert shown(window) == card["id"].tolist()
    window.fill(".dt-search input", "isolates")
    assert shown(window) == ["fidel.fig-9.c"]
    window.fill(".dt-search input", "")
    window.locator("#scorecard-table tbody tr").nth(len(card) - 1).wait_for()
    for order in ("ascending", "descending"):
        window.click("#scorecard-table th.measured")
        window.locator(f"#scorecard-table th.measured[aria-sort={order}]").wait_for()
    assert shown(window)[0] == "fidel.text.1"


def test_the_first_key_leads_to_the_scorecard(card: pd.DataFrame, tmp_path: Path, browser: Any) -> None:
    window = opened(card, tmp_path, browser)
    link = window.locator("a.skip")
    assert link.bounding_box()["x"] < 0
    window.keyboard.press("Tab")
    assert link.bounding_box()["x"] > 0
    window.keyboard.press("Enter")
    assert window.url.endswith("#scorecard")


def test_a_link_to_a_row_shows_that_row(card: pd.DataFrame, tmp_path: Path, browser: Any) -> None:
    window = opened(card, tmp_path, browser, "#row=fidel.lr")
    assert shown(window) == ["fidel.lr"]
    # The row itself is on the screen, and not only the heading far above it.
    box = window.locator("#scorecard-table tbody tr").bounding_box()
    assert 0 <= box["y"] < window.viewport_size["height"]
    assert window.locator("#scorecard-table td.item a").get_attribute("href") == "#row=fidel.lr"


def test_paper_has_the_experiment_that_the_address_names_and_takes_few_sheets(
    card: pd.DataFrame, section: Callable[..., Section], tmp_path: Path, browser: Any
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page(card, [section(name=f"fidel-{turn}") for turn in range(20)], FACTS))
    for asked, printed in {"": 0, "#fidel-7": 1, "?print=all": 20}.items():
        window = browser.new_page()
        window.goto(path.as_uri() + asked)
        window.locator("#scorecard-table tbody tr").first.wait_for()
        sheets = len(re.findall(rb"/Type\s*/Page[^s]", window.pdf(format="A4")))
        assert sheets > 13 if asked == "?print=all" else sheets < 10
        window.emulate_media(media="print")
        assert window.locator("article:visible").count() == printed


def test_on_paper_the_scorecard_may_have_every_row_and_gives_words_their_room(
    card: pd.DataFrame, tmp_path: Path, browser: Any
) -> None:
    many = pd.concat([card.assign(id=card["id"] + f".{turn}") for turn in range(8)])
    window = opened(many, tmp_path, browser, "?print=all")
    window.set_viewport_size({"width": 718, "height": 1000})
    window.emulate_media(media="print")
    results = int((many["class"] == "result").sum())
    assert window.locator("#scorecard-table tbody tr").count() < results
    window.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert window.locator("#scorecard-table tbody tr").count() == results
    widths = window.eval_on_selector_all(
        "#scorecard-table thead th", "heads => heads.map(h => [h.innerText, h.offsetWidth / 718])"
    )
    shares = {title.strip(): share for title, share in widths}
    assert shares["Reason"] > 0.25
    assert shares["Quantity"] > 0.18
    assert min(shares.values()) < shares["n"] + 0.001 < 0.08


def test_rows_are_as_wide_as_a_phone_and_counts_carry_their_words(
    card: pd.DataFrame, tmp_path: Path, browser: Any
) -> None:
    window = opened(card, tmp_path, browser)
    window.set_viewport_size({"width": 390, "height": 844})
    script = (
        "cells => cells.map(c => [c.dataset.word, getComputedStyle(c, '::after').content, c.offsetWidth > 0])"
    )
    found = window.eval_on_selector_all(".summary tbody tr:first-child td[data-word]", script)
    words = ["reproduced success", "reproduced", "direction", "differs", "not-run", "rows"]
    assert [word for word, _, seen in found if seen] == words
    assert window.locator(".summary thead").is_hidden()
    assert window.locator("#scorecard-table tbody tr").first.bounding_box()["width"] > 330
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert window.evaluate(wide) == 0


def test_a_claim_shows_its_sentence_and_folds_its_expression(
    card: pd.DataFrame, tmp_path: Path, browser: Any
) -> None:
    window = opened(card, tmp_path, browser, "#row=fidel.fig-13.a")
    row = window.locator("#scorecard-table tbody tr")
    assert "ReLU reveals more." in row.inner_text()
    assert row.locator("details code").is_hidden()
    row.locator("summary").click()
    assert row.locator("details code").inner_text() == "a check"


def test_every_rule_of_the_pages_own_style_is_understood(tmp_path: Path, browser: Any) -> None:
    """A brace too few would swallow all rules behind it."""
    own = (files("leakbench.results.report") / "page.css").read_text()
    written = len(re.findall(r"[^{}]+\{", re.sub(r"/\*.*?\*/", "", own, flags=re.DOTALL)))
    window = browser.new_page()
    window.set_content(f"<style>{own}</style>")
    count = "rules => [...rules].reduce((sum, r) => sum + 1 + (r.media ? count(r.cssRules) : 0), 0)"
    understood = window.evaluate(
        f"() => {{ const count = {count}; return count(document.styleSheets[0].cssRules) }}"
    )
    assert understood == written > 80


def test_a_policy_allows_the_pages_own_script_alone(card: pd.DataFrame, tmp_path: Path, browser: Any) -> None:
    window = opened(card, tmp_path, browser)
    added = (
        "() => { const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s); return window.ran }"
    )
    assert window.evaluate(added) is None


def test_without_chromium_the_check_skips_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        chromium.executable()
    monkeypatch.setenv("CI", "1")
    with pytest.raises(pytest.fail.Exception):
        chromium.executable()
