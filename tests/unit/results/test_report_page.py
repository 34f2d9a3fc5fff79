"""The report page: what it says, in which order, and that a browser shows it without asking for anything."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from pages import FACTS, read, rows_of, visible
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from leakbench.results.figures.words import BOTTOM, FOOT, TOP
from leakbench.results.report.card import groups, lines
from leakbench.results.report.leaks import ATTACKERS, PLAIN_ONLY, STRONGER, Leak, Map, Price
from leakbench.results.report.page import page
from leakbench.results.report.results import results
from leakbench.results.report.section import Section, picture

PAGES = yaml.safe_load(Path(__file__).with_name("pages.yaml").read_text())
EMPTY = pd.DataFrame(columns=["metric", "mean", "n", "baseline"])


@pytest.mark.parametrize("case", PAGES, ids=lambda case: str(case["shows"]))
def test_a_page_says(case: dict[str, Any], card: pd.DataFrame, section: Callable[..., Section]) -> None:
    sections = [
        section(**each | ({"figure": b"", "table": EMPTY} if "table" in each else {}))
        for each in case.get("sections", ())
    ]
    html = page(card.assign(**case.get("card", {})), sections, FACTS | case.get("facts", {}))
    text = visible(html)
    assert [words for words in case.get("has", ()) if words not in text] == []
    assert [words for words in case.get("html", ()) if words not in html] == []
    assert [words for words in case.get("lacks", ()) if words in text or words in html] == []


def test_every_scorecard_row_is_on_the_page_once(card: pd.DataFrame) -> None:
    rows = {row["id"]: row for row in rows_of(page(card, [], FACTS))}
    assert sorted(rows) == sorted(card["id"])
    # What was not run comes last.
    idle = [row["word"] == "not-run" for row in rows.values()]
    assert idle == sorted(idle)
    # A row names where its evidence is from, and what this run found.
    told = "paper, cpu, abc; this run alone 1.5 (n = 2), which does not agree"
    assert rows["fidel.doubt.b"]["origin"] == told
    # Numbers that are kept as text are written with their interval.
    first = rows["fidel.text.1"]
    assert (first["measured"], first["interval"]) in (("21.5", "[21.2, 21.8]"), ("21.49", "[21.2, 21.8]"))
    assert not any(value.lower() == "nan" for row in rows.values() for value in row.values())


def test_what_was_found_comes_first_then_the_scorecard_then_experiments(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    html = page(card, [section()], FACTS)
    places = [html.index(mark) for mark in ('id="findings"', 'id="scorecard"', "<article", "<img")]
    assert places == sorted(places)


def test_counts_by_source_and_verdict(card: pd.DataFrame) -> None:
    fidel, agic, other, settings = groups(lines(card), {"fidel": "Fidel: a title"})
    assert fidel.counts == {"reproduced": 1, "direction": 1, "differs": 1, "inconclusive": 0, "not-run": 1}
    assert (agic.key, agic.total, agic.reasons) == ("agic", 2, [("data set cifar100 is not here", 1)])
    assert (fidel.name, other.name) == ("Fidel: a title", "elsewhere")
    # An echo of our own configuration is no result.
    assert (settings.key, settings.counts["reproduced"]) == ("class-setting", 1)


def test_the_first_screen_says_what_the_run_measured_itself(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    own = card.assign(here=card["measured"], agrees="").to_dict("records")
    of_results = [n for n, row in enumerate(own) if row["class"] == "result" and row["measured"] != ""]
    own[of_results[0]] |= {"here": 1.5, "agrees": "no"}
    frame = pd.DataFrame(own)
    frame.loc[of_results[1:], ["here", "agrees"]] = ""
    html = page(frame, [section(), section(recorded="recorded on a machine")], FACTS)
    told = f"This run measured 1 of the {len(of_results)} rows of results that have a value; where a longer"
    text = visible(html)
    assert told in text
    assert "0 agree with the record and 1 do not" in text
    assert "1 of the 2 experiments below" in text
    shown = {row["id"] for row in rows_of(html) if row["mine"]}
    assert {row["id"] for row in frame.to_dict("records") if row["here"] != ""} == shown


def test_a_scorecard_of_numbers_reads_like_one_of_text(card: pd.DataFrame) -> None:
    typed = card.copy()
    for column in ("measured", "ci_low", "ci_high", "n"):
        typed[column] = pd.to_numeric(typed[column].replace("", np.nan))
    assert page(typed, [], FACTS) == page(card, [], FACTS)


def test_an_unknown_verdict_and_a_figure_that_is_no_png_are_refused(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    with pytest.raises(ValueError, match="'maybe' is no verdict"):
        page(card.assign(verdict="maybe"), [], FACTS)
    with pytest.raises(ValueError, match="not a PNG"):
        page(card, [section(figure=b"<svg/>")], FACTS)


def test_a_section_shows_its_own_scorecard_rows_and_those_that_name_it(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    html = page(card, [section(), section(name="fidel-figure-5", item="fig-5")], FACTS)
    first, second = html.split("<article")[1:]
    assert 'id="fidel-figure-5"' in first
    assert re.findall('data-id="(.*?)"', first) == ["fidel.doubt.b"]
    assert re.findall('data-id="(.*?)"', second) == ["fidel.text.1", "fidel.fig-13.a"]
    # A name is not found inside a longer one.
    card = card.assign(condition="see experiment fidel-figure-55")
    html = page(card, [section(name="fidel-figure-5", item="none")], FACTS)
    assert "data-id" not in html.split("<article")[1]


def test_verdicts_stand_under_the_title_and_reasons_behind_the_results(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    article = visible(page(card, [section(absent={"cell": "too long"})], FACTS).split("<article")[1])
    places = [article.index(words) for words in (
        "Published: ReLU reveals most. reproduced 1 direction 1", "executed notebook", "Not run in part",
    )]  # fmt: skip
    assert places == sorted(places)


def test_a_picture_lacks_the_title_and_the_small_print_that_the_page_has() -> None:
    file, head = io.BytesIO(), PngInfo()
    for key, value in ((TOP, "30"), (BOTTOM, "10"), (FOOT, "Scale standard · n ≥ 5\nThreat model: none")):
        head.add_text(key, value)
    Image.new("RGB", (200, 90)).save(file, "PNG", pnginfo=head)
    shown = picture(file.getvalue())
    assert shown is not None
    assert (shown["width"], shown["height"]) == (200, 50)
    assert str(shown["foot"]).splitlines() == ["Scale standard · n ≥ 5", "Threat model: none"]


def test_the_result_table_has_nulls_beside_the_attack_and_only_columns_that_vary(
    card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    article = page(card, [section()], FACTS).split("<article")[1].split("</article>")[0]
    table = article[article.index('<table class="results">') :]
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table) == [
        "victim", "k", "metric", "mean", "95 % interval", "median", "n", "failed",
        "null: a random gradient attacked",
    ]  # fmt: skip
    rows = [
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip()
        # HTML implies the end of a row.
        for row in re.findall(r"<tr>(.*?)(?=<tr>|</t)", table.replace("\n", " "))
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


def test_hostile_text_is_escaped(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    card = card.assign(condition=hostile, reason=hostile, published=hostile, metric="claim", item=hostile)
    bad = section(title=hostile, shows=hostile, absent={"cell": hostile}, knows={"labels": hostile})
    bad = section(**{**bad.__dict__, "table": bad.table.assign(victim=hostile)})
    text = read(page(card, [bad], FACTS | {"scale": hostile}))
    kinds = [attributes["type"] for tag, attributes in text.tags if tag == "script"]
    assert kinds == ["application/json", "application/gzip", "application/gzip", "module"]
    assert not [name for _, attributes in text.tags for name in attributes if name.startswith("on")]
    assert all((attributes["src"] or "").startswith("data:") for tag, attributes in text.tags if tag == "img")
    assert "<script>alert(1)</script>" in "".join(text.words)


def test_the_best_known_leak_has_its_attack_and_its_price(card: pd.DataFrame) -> None:
    leak = Leak("Fidel", 0.81, "[0.8, 0.82]", 10, "0%", "quick")
    maps = [Map("Digits, a network", {"noise": {"plain": leak, "adaptive": None}})]
    price = Price("leakbench-dp-price", 0.62, "[0.6, 0.64]", 0.85, "Digits, CNN", 5, "standard, seed 0")
    # An attack that failed in every trial has no red bar.
    overall = ({"noise": {"plain": leak, "adaptive": replace(leak, mean=0.4, failed="100%")}}, {})
    html = page(card, [], FACTS | {"overall": overall, "maps": maps, "prices": {"noise": [price]}})
    assert html.count('class="meter"') == 2
    by_network, table = (visible(part.split("</table>")[0]) for part in html.split('class="leaks"')[1:])
    assert "0.81 [0.8, 0.82] · Fidel, n = 10, 0% failed, quick not measured" in by_network
    assert "0.62 [0.6, 0.64] (0.85 without; Digits, CNN, n = 5, standard, seed 0)" in table
    assert "0.62" not in by_network
    assert 'href="#leakbench-dp-price"' in html


def test_the_first_table_of_leaks_has_every_kind_of_attacker(card: pd.DataFrame) -> None:
    leak = Leak("Membership", 0.16, "[0.11, 0.21]", 10, "0%", "standard", "CIFAR-10, tanh")
    rows = {"8 bits": dict.fromkeys([*ATTACKERS, *STRONGER]) | {"candidates": leak}}
    further = {"4 bits": dict.fromkeys([*ATTACKERS, *STRONGER])}
    html = page(card, [], FACTS | {"overall": (rows, further)})
    table, folded = (part.split("</table>")[0] for part in html.split('class="leaks"')[1:])
    assert "4 bits" in visible(folded)
    assert "4 bits" not in visible(table)
    assert all(words in visible(table) for words in (*ATTACKERS.values(), *STRONGER.values()))
    first, second, third, fourth, price = (visible("<td " + cell).strip() for cell in table.split("<td ")[1:])
    assert (first, second, fourth) == ("not measured",) * 3
    assert third == "0.16 [0.11, 0.21] · Membership, n = 10, 0% failed, standard · CIFAR-10, tanh"
    assert price == "–"


def test_an_adaptive_attacker_who_gains_nothing_is_not_shown_twice(card: pd.DataFrame) -> None:
    leak = Leak("Fidel", 0.81, "[0.8, 0.82]", 10, "0%", "quick")
    for known, words in (
        (leak, "0.81 the same: no attacker who knows it reads more"),
        (replace(leak, note=PLAIN_ONLY), f"0.81 {PLAIN_ONLY}"),
        (replace(leak, attack="Fidel, adapted", mean=0.9), "0.90 [0.8, 0.82] · Fidel, adapted"),
    ):
        maps = [Map("Digits, a network", {"noise": {"plain": leak, "adaptive": known}})]
        text = visible(page(card, [], FACTS | {"maps": maps}).split('id="leaks"')[1].split("</table>")[0])
        assert text.count("[0.8, 0.82] · Fidel, n = 10") == 1
        assert words in text
