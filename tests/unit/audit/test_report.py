"""The report in Chromium, and what it must and must not say."""

import html
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import chromium
import pytest
import torch
from clients import client_of, mlp

from leakbench.audit.audit import of_client
from leakbench.audit.client import Truth
from leakbench.audit.findings import READ, Found, affected, pictures
from leakbench.audit.inference import Inference
from leakbench.audit.page import page
from leakbench.audit.predictions import Look
from leakbench.audit.remedies import Remedy
from leakbench.audit.report import Audit
from leakbench.audit.steps import words
from leakbench.papers.bibliography import source

LINES: list[str] = []


@cache
def audited() -> Audit:
    """Return the audit of 8 pictures in a network that gives them away; LINES has what it tells."""
    own = client_of(mlp(400), 16, records=8)
    found = of_client(own, 120, LINES.append, show=True)
    found.source, found.declared = "my_app.py:client", {"clients": 100.0, "rounds": 10.0, "prior": 0.5}
    found.command = "leakbench audit my_app.py:client"
    return found


def test_the_page_says_what_it_must() -> None:
    found = audited()
    assert found.exposed() == found.labelled() == 8
    said = "Exposed: 8 of 8 records, by a server that follows the protocol, in [0-9.]+ s, certified"
    assert re.fullmatch(said, str(found))
    assert found.exposed("A") <= 8
    assert found.levels("CD") == [0] * 8
    visible = re.sub("<style>.*?</style>|<meta[^>]*>", "", found.page(), flags=re.S).lower()
    assert "safe" not in visible
    assert "not tried" in visible
    # 0.5 × 100 clients × 10 rounds × 8 records.
    assert "4,000" in visible
    assert "<pre>leakbench audit my_app.py:client</pre>" in visible
    for section in ("measured", "declared", "combined", "takes for granted", "privacy officer"):
        assert section in visible
    # A notebook shows the report.
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "Exposed: 8 of 8" in shown


def test_the_page_cites_what_the_bibliography_says() -> None:
    text = html.unescape(audited().page())
    sok = "Parrella and Vento, SoK: Gradient Inversion Attacks in Federated Learning, USENIX Security 2025"
    assert sok in text
    paragraph, _, sources = text.partition("For a privacy officer")[2].partition("<ul")
    for document in ("EDPB Opinion 28/2024", "EDPS TechDispatch 1/2025"):
        assert document in paragraph
    for key in ("fidel", "projres", *words("sources")):
        assert str(source(key)) in sources


def test_only_what_lowers_the_numbers_would_help() -> None:
    found = audited()
    by = {each.what: each for each in found.remedies}
    assert (by["batch × 2"].read, by["batch × 2"].verdict) == (8, "does not help")
    assert by["noise of 1 of the update's norm"].verdict == "would help"
    assert by["secure sum of 10 clients"].verdict == "not known"
    assert "does not help: batch × 2: 8 of 8 records read (8 before)" in LINES
    assert all(each.removed > 0 for each in found.remedies if each.verdict == "would help")
    table, _, rest = html.unescape(found.page()).partition("Tried, and does not help")
    assert "noise of 1 of" in table
    assert "batch × 2" not in table
    assert "<li>batch × 2: 8 of 8 records read (8 before)</li>" in rest
    assert [each["verdict"] for each in found.to_dict()["remedies"]] == [e.verdict for e in found.remedies]


@pytest.mark.parametrize(
    ("numbers", "verdict"),
    [((4, 4), "does not help"), ((0, 4), "helps in part"), ((4, 3), "helps in part"), ((2, 2), "would help"),
     ((5, 3), "does not help")],
)  # fmt: skip
def test_a_change_helps_if_less_is_read_or_recognised(numbers: tuple[int, int], verdict: str) -> None:
    remedy = Remedy("", 4, 4, 4, *numbers)
    assert remedy.verdict == verdict
    # More may be found than a search that did not finish found.
    unfinished = replace(remedy, unfinished=True).verdict
    assert unfinished == (verdict if verdict == "does not help" else "not known")


def test_an_audit_in_which_no_attack_ran_says_so_and_why() -> None:
    """It found nothing, and looked for nothing."""
    why = {"fidel": "no dense layer", "peel": "no dense layer", "invg": "fails (KeyError: 'a')"}
    found = [Found(name, name, "exact", "A", "", 2, [0, 0], why_not=each) for name, each in why.items()]
    audit = Audit(2, {}, Look(), found=found)
    assert audit.headline() == "No attack gave a result: no dense layer; fails (KeyError: 'a')"
    shown = html.unescape(audit.page())
    assert "No attack gave a result, so nothing was measured of the records themselves." in shown
    assert audit.answers() == {
        "Singling out": "Not tested: no attack on records could run.",
        "Linkability": "Not tested: no such attack fits this client.",
        "Inference": "Not tested: no such attack fits this client.",
    }
    found.append(replace(found[0], why_not=""))
    assert audit.headline().startswith("Not found within the budget")
    # Labels are read, although no record is.
    audit.besides = [Inference("label counts", "B", "", "2 of 2 labels are right (0 by guessing)", True, 0.1)]
    assert audit.headline().endswith(
        "was read or recognised; label counts: 2 of 2 labels are right (0 by guessing)"
    )
    audit.besides = []
    assert audit.answers()["Singling out"].startswith("Not shown: the attacks that ran neither read nor")
    found[0] = replace(found[0], levels=[1, 0])
    assert audit.answers()["Singling out"].startswith(
        "Yes: 1 of 2 records can be told from all others, and none"
    )


def test_the_page_says_who_is_affected_and_what_is_special_of_them() -> None:
    bright, alike = torch.full((1, 1, 4, 4), 0.9), torch.rand(1, 1, 4, 4) / 2
    images = torch.cat([torch.rand(8, 1, 4, 4) / 2, alike, bright, alike])
    truth = Truth(images, torch.tensor([*[0] * 10, 1]))
    found = Found("a", "A", "exact", "B", "", 11, [0] * 9 + [1, 3], quality=[0.1] * 8 + [0.4, 0.8, 1.0])
    told = affected([found], truth, [False] * 10 + [True])
    assert [each["number"] for each in told] == [11, 10, 9, *range(1, 9)]
    alone, only, bright_one, twice = told[0]["why"][0], told[0]["why"][1], told[1]["why"], told[2]["why"]
    assert (alone, only) == ("a neuron is open for it alone", "the only one of its class")
    assert (bright_one, twice) == (["among the tenth with the largest values"], ["twice in the batch"])
    assert not any(each["why"] for each in told[3:])
    audit = audited()
    audit.affected = told
    text = " ".join(html.unescape(audit.page()).split())
    assert text.count('<li class="l0" title="record') == 9
    assert f'{twice[0]}</th><td class="num">1</td><td class="num">1</td>' in text
    assert "affected" not in audit.to_dict()


def test_pictures_are_only_there_where_they_are_asked_for_and_what_is_hostile_is_escaped() -> None:
    found = audited()
    assert len(found.pictures) == 3
    assert found.page().count("data:image/png") == 6
    value = found.to_dict()
    assert "png" not in json.dumps(value)
    # A class of any name commands no terminal.
    value["about"] |= {"network": "Net\x1b[31m"}
    text = page(value | {"source": "<script>alert(1)</script>:x"}, found.shown() | {"pictures": []})
    assert "Net\\x1b[31m" in text
    assert not any(each in text for each in ("data:image/png", "<script", "\x1b"))


@pytest.mark.parametrize(
    ("records", "shown"),
    [(1, ["worst for the client"]), (2, ["worst for the client", "best for the client"]),
     (3, ["worst for the client", "median", "best for the client"])],
)  # fmt: skip
def test_each_record_is_shown_once(records: int, shown: list[str]) -> None:
    images = torch.rand(records, 1, 4, 4)
    levels, quality = [*range(records)], [1.0] * records
    found = Found("a", "A", "exact", "B", "", records, levels, images=images, quality=quality)
    told = pictures([found], Truth(images, torch.zeros(records)))
    assert [each["which"] for each in told] == shown
    found.levels = [READ] * records
    assert ("of 1 record," in Audit(records, {}, found=[found]).headline()) == (records == 1)


def test_chromium_finds_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with chromium.browser() as browser:
        for more in ({}, {"pictures": [], "affected": []}):
            path.write_text(page(audited().to_dict(), audited().shown() | more))
            assert chromium.inspect(browser, path) == []


def test_files_hold_the_same_numbers(tmp_path: Path) -> None:
    found = audited()
    assert found.save(tmp_path) == tmp_path / "report.html"
    value = json.loads((tmp_path / "audit.json").read_text())
    assert (value["exposed"], value["labelled"], value["headline"]) == (8, 8, found.headline())
    log = json.loads((tmp_path / "audit.sarif").read_text())
    (run,) = log["runs"]
    rules = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {result["ruleId"] for result in run["results"]} == rules
    assert "error" in {result["level"] for result in run["results"]}
