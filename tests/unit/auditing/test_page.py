"""The report in Chromium, and what it must and must not say."""

import json
import re
from functools import cache
from pathlib import Path

import chromium
import pytest
from clients import faces, mlp
from torch import nn

from leakbench.auditing.audit import Audit, of_client
from leakbench.auditing.page import page
from leakbench.auditing.round import client


@cache
def audited() -> Audit:
    """Return the audit of 8 pictures in a network that gives them away."""
    own = client((mlp(400), nn.CrossEntropyLoss(), faces(16)), 8, local_steps=1)
    declared = {"clients": 100.0, "rounds": 10.0, "prior": 0.5}
    return of_client(own, 20, lambda line: None, declared=declared, show=True, source="my_app.py:client")


def test_the_headline_counts_names_and_certifies() -> None:
    found = audited()
    assert found.exposed() == found.labelled() == 8
    assert re.fullmatch(
        r"Exposed: 8 of 8 records, by a server that follows the protocol, in [0-9.]+ s, certified", str(found)
    )
    assert audited().exposed("A") <= 8
    assert found.levels("CD") == [0] * 8


def test_the_page_says_what_it_must() -> None:
    text = audited().page()
    visible = re.sub("<style>.*?</style>|<meta[^>]*>", "", text, flags=re.S).lower()
    assert "safe" not in visible
    assert "not tried" in visible
    # 0.5 × 100 clients × 10 rounds × 8 records.
    assert "4,000" in visible
    assert "leakbench audit my_app.py:client --batch 8 --local-steps 1 --budget 20s" in visible
    for section in ("measured", "declared", "combined", "takes for granted", "impact assessment"):
        assert section in visible


def test_pictures_are_only_there_where_they_are_asked_for() -> None:
    found = audited()
    assert len(found.pictures) == 3
    assert found.page().count("data:image/png") == 6
    assert "data:image/png" not in page(found.to_dict())
    assert "png" not in json.dumps(found.to_dict())


@pytest.mark.parametrize(
    ("records", "shown"),
    [(1, ["worst for the client"]), (2, ["worst for the client", "best for the client"]),
     (3, ["worst for the client", "median", "best for the client"])],
)  # fmt: skip
def test_each_record_is_shown_once(records: int, shown: list[str]) -> None:
    own = client((mlp(400), nn.CrossEntropyLoss(), faces(records)), local_steps=1)
    found = of_client(own, 5, lambda line: None, show=True)
    assert [each["which"] for each in found.pictures] == shown
    assert ("of 1 record," in found.headline()) == (records == 1)


def test_what_is_hostile_is_escaped() -> None:
    value = audited().to_dict() | {"source": "<script>alert(1)</script>:x"}
    assert "<script" not in page(value)


@pytest.mark.parametrize("shown", [True, False])
def test_chromium_finds_no_fault(tmp_path: Path, shown: bool) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(audited().to_dict(), audited().pictures if shown else ()))
    with chromium.browser() as browser:
        assert chromium.inspect(browser, path, scored=False) == []


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


def test_a_notebook_shows_the_report() -> None:
    shown = audited()._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "Exposed: 8 of 8" in shown
