"""The report page: what it says, in which order, and that a browser shows it without asking for anything."""

import io
import math
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

from leakbench.base.errors import UserError
from leakbench.results.figures.words import BOTTOM, FOOT, TOP
from leakbench.results.report.card import groups, lines
from leakbench.results.report.leaks import ATTACKERS, PLAIN_ONLY, STRONGER, Leak, Map, Price
from leakbench.results.report.numbers import count, interval, number, percent
from leakbench.results.report.page import page
from leakbench.results.report.results import results
from leakbench.results.report.script import commits
from leakbench.results.report.section import Section, picture
from leakbench.results.report.seeds import held, seeds

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


def test_findings_come_first_experiments_last(card: pd.DataFrame, section: Callable[..., Section]) -> None:
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


def test_the_first_screen_says_what_is_measured(card: pd.DataFrame, section: Callable[..., Section]) -> None:
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


def test_an_unknown_verdict_or_figure_is_refused(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    with pytest.raises(ValueError, match="'maybe' is no verdict"):
        page(card.assign(verdict="maybe"), [], FACTS)
    with pytest.raises(ValueError, match="not a PNG"):
        page(card, [section(figure=b"<svg/>")], FACTS)


def test_a_section_shows_rows_that_name_it(card: pd.DataFrame, section: Callable[..., Section]) -> None:
    html = page(card, [section(), section(name="fidel-figure-5", item="fig-5")], FACTS)
    first, second = html.split("<article")[1:]
    assert 'id="fidel-figure-5"' in first
    assert re.findall('data-id="(.*?)"', first) == ["fidel.doubt.b"]
    assert re.findall('data-id="(.*?)"', second) == ["fidel.text.1", "fidel.fig-13.a"]
    # A name is not found inside a longer one.
    card = card.assign(condition="see experiment fidel-figure-55")
    html = page(card, [section(name="fidel-figure-5", item="none")], FACTS)
    assert "data-id" not in html.split("<article")[1]


def test_verdicts_come_first_and_reasons_last(card: pd.DataFrame, section: Callable[..., Section]) -> None:
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


def test_results_have_nulls_and_what_varies(card: pd.DataFrame, section: Callable[..., Section]) -> None:
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


def test_lines_of_the_whole_federation_have_no_client_and_tell_the_last_round() -> None:
    shared = {
        "dataset": "mnist", "victim": "v", "federation": "f", "attack": "a", "checkpoint": 0,
        "convention": "standard", "median": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 3, "failure_rate": 0.0,
    }  # fmt: skip
    lines = [
        {"defence": defence, "client": client, "local_samples": size, "baseline": baseline, "metric": metric}
        | {"mean": mean, "unit": unit, "round": after}
        for defence in ("none", "sign")
        for client, size, baseline, metric, mean, unit, after in [
            (0, 16, "", "label_accuracy", 0.7, "image", np.nan),
            (0, 16, "random-gradient", "label_accuracy", 0.2, "image", np.nan),
            (np.nan, np.nan, "snapshot", "accuracy", 0.3, "model", 1),
            (np.nan, np.nan, "", "accuracy", 0.8, "model", 2),
        ]
    ]
    found = results(pd.DataFrame([shared | line for line in lines]))
    assert found.columns == ["defence", "k"]
    assert [(row["condition"], row["metric"], row["mean"]) for row in found.rows] == [
        (["none", "16"], "label_accuracy", "0.7"), (["sign", "16"], "label_accuracy", "0.7"),
        (["none", ""], "accuracy", "0.8"), (["sign", ""], "accuracy", "0.8"),
    ]  # fmt: skip
    assert found.nulls == ["a random gradient attacked"]
    assert [row["nulls"] for row in found.rows] == [["0.2"], ["0.2"], [""], [""]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"), ("21.495", "21.5"), (-3, "−3"), (1234567, "1,234,567"), (0, "0"),
        (1e-7, "1e−07"),
        (None, ""), ("", ""), (math.nan, ""), (math.inf, "∞"), (-math.inf, "−∞"),
        ("layer=dense", "layer=dense"),
    ],
)  # fmt: skip
def test_number(value: object, text: str) -> None:
    assert number(value) == text


def test_intervals_percents_and_counts() -> None:
    assert (interval(0.5, "1.25"), interval(0.5, math.nan)) == ("[0.5, 1.25]", "")
    assert (percent(0.125), percent(math.nan), count(200.0), count("10")) == ("12.5 %", "", "200", "10")


def row(key: str, raised: int, verdict: str, headline: str = "") -> dict[str, Any]:
    return {
        "id": key, "class": "result", "scale": "standard", "raised": raised, "seeds": str(raised),
        "verdict": verdict, "measured": 0.5, "ci_low": 0.4, "ci_high": 0.6, "n": 10, "headline": headline,
    }  # fmt: skip


@pytest.fixture
def rows() -> pd.DataFrame:
    return pd.DataFrame([
        row("same", 0, "reproduced"), row("same", 1, "reproduced"), row("same", 2, "reproduced"),
        row("turns", 0, "reproduced"), row("turns", 1, "differs"), row("turns", 2, "reproduced"),
        row("open", 0, "reproduced"), row("open", 1, "inconclusive"), row("open", 2, "reproduced"),
        row("head", 0, "reproduced", "It leaks 0.5."), row("head", 1, "inconclusive", "It leaks 0.6."),
    ])  # fmt: skip


def test_headlines_come_first_then_the_rows_that_change(rows: pd.DataFrame) -> None:
    (found,) = seeds(rows)
    assert found.raised == [0, 1, 2]
    assert [(line.id, line.text, line.changes) for line in found.statements] == [
        ("head", "It leaks 0.5.", True), ("turns", "turns", True), ("open", "open", True),
    ]  # fmt: skip
    # All seeds decide `same` and `turns`.
    assert (found.decided, found.turned) == (2, 1)
    assert held([found])["head"] == "holds with 1 of 2 seeds"


def test_changes_are_counted(rows: pd.DataFrame, card: pd.DataFrame, section: Callable[..., Section]) -> None:
    card.loc[card["headline"] != "", "id"] = "head"
    text = " ".join(page(card, [section()], FACTS | {"seeded": rows}).split())
    assert "All seeds decide 2 rows of the scorecard; 1 of them has another verdict" in text
    assert "(50.0 %)" in text
    assert "holds with 1 of 2 seeds" in text
    assert 'id="seeds"' not in page(card, [], FACTS | {"seeded": rows.iloc[:0]})
    assert "no other seed recorded" in page(card, [], FACTS)


def test_a_commit_is_a_link_where_the_citation_names_an_address(
    tmp_path: Path, card: pd.DataFrame, section: Callable[..., Section]
) -> None:
    assert commits(tmp_path) == ""
    (tmp_path / "CITATION.cff").write_text("repository-code: https://example.org/a/b.git\n")
    facts = FACTS | {"commits": commits(tmp_path)}
    link = '<a href="https://example.org/a/b/commit/abc1234"><code>abc1234</code></a>'
    assert link in page(card, [section()], facts)
    assert "commit <code>abc1234</code>" in page(card, [section()], FACTS)
    (tmp_path / "CITATION.cff").write_text("repository-code: javascript:alert(1)\n")
    with pytest.raises(UserError, match=r"repository-code: .* is no https address"):
        commits(tmp_path)
