"""What an audit found, what would help, and the report in Chromium."""

import html
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import chromium
import numpy as np
import pytest
import torch
from clients import client_of, faces, mlp
from torch import nn

from leakbench.audit.attacks import attack
from leakbench.audit.audit import of_client
from leakbench.audit.client import Truth, client, view
from leakbench.audit.findings import LABELLED, NOTHING, READ, RECOGNISABLE, Attempt, affected, pictures, score
from leakbench.audit.inference import Inference
from leakbench.audit.page import page
from leakbench.audit.predictions import Look
from leakbench.audit.remedies import Remedy, grouped, largest, noisy, remedies
from leakbench.audit.report import Audit
from leakbench.audit.steps import words
from leakbench.metrics.exact import exact
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
    found = [Attempt(name, name, "exact", "A", "", 2, [0, 0], why_not=each) for name, each in why.items()]
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
    found = Attempt("a", "A", "exact", "B", "", 11, [0] * 9 + [1, 3], quality=[0.1] * 8 + [0.4, 0.8, 1.0])
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
    found = Attempt("a", "A", "exact", "B", "", records, levels, images=images, quality=quality)
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


def truth(records: int = 6) -> Truth:
    images, labels = faces(records)
    # As files of 8 bits store them.
    return Truth((images[:, None] * 255).round() / 255, labels)


def test_copies_are_read_and_noise_is_nothing() -> None:
    known = truth()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert score(known.images[order], known.labels[order], known).levels == [LABELLED] * 6
    assert score(known.images[order], None, known).levels == [READ] * 6
    noise = torch.rand(46, *known.images.shape[1:], generator=torch.Generator().manual_seed(0))
    assert score(noise[:6], None, known).levels == score(noise[:0], None, known).levels == [NOTHING] * 6
    # More candidates than records may serve each.
    many = score(torch.cat([noise, known.images]), None, known)
    assert many.levels == [READ] * 6
    assert np.isfinite(many.error).all()
    # A record that was read keeps its candidate, however far all others are from those that were not.
    known = truth(3)
    far = torch.stack([known.images[0], known.images[1], 9 * known.images[1], 1e3 * known.images[2]])
    assert score(far, None, known).levels == [READ, READ, NOTHING]


def test_what_is_read_is_what_the_metric_calls_exact() -> None:
    known = truth()
    rng = torch.Generator().manual_seed(0)
    for step in (0.3, 0.7):
        near = known.images + step / 255 * (2 * torch.rand(known.images.shape, generator=rng) - 1)
        levels = score(near.clamp(0, 1), None, known).levels
        same = exact(near.numpy(), known.images.numpy())
        assert [level >= READ for level in levels] == (same == 1).tolist()


def test_a_blurred_record_is_recognisable_unless_noise_gives_as_much() -> None:
    known = truth()
    blurred = torch.nn.functional.avg_pool2d(known.images, 3, 1, 1)
    seen = score(blurred, None, known)
    assert seen.levels == [RECOGNISABLE] * 6
    assert score(blurred, None, known, seen.error).levels == [NOTHING] * 6
    mean = known.images.mean(0, keepdim=True).expand_as(known.images)
    assert score(mean, None, known).levels == [NOTHING] * 6


def test_a_wrong_proof_certifies_nothing() -> None:
    found = Attempt("peel", "Peeling", "exact", "B", "", 2, [READ, NOTHING], proven=2)
    assert "read 1 of 2 records (0 with label, 2 proven, 1 of them wrongly)" in found.line()
    audit = Audit(2, {}, Look(), found=[found])
    assert "certified" not in audit.headline()
    assert "1 of 2 are proven wrongly" in audit.page()
    audit.found = [replace(found, proven=1)]
    assert audit.headline().endswith("certified")
    assert "each record is proven" in audit.page()


def test_changes_do_what_they_say() -> None:
    update = {"a": torch.randn(1000), "b": torch.randn(50, 20)}
    kept = largest(update, 0.1)
    assert sum(int((value != 0).sum()) for value in kept.values()) == pytest.approx(200, abs=1)
    noise = torch.cat([(noisy(update, 0.5)[name] - update[name]).flatten() for name in update])
    assert float(noise.std()) == pytest.approx(0.5, rel=0.1)
    norms = [m for m in grouped(nn.Sequential(nn.BatchNorm2d(4))).modules() if isinstance(m, nn.GroupNorm)]
    assert [norm.num_channels for norm in norms] == [4]


def test_what_helps_is_ranked_with_its_price() -> None:
    own = client((mlp(400), nn.CrossEntropyLoss(), faces(16), faces(64, 100)), 4, local_steps=1)
    found = of_client(
        own, 60, lambda line: None, defence=lambda update: update | {"1.bias": update["1.bias"] * 0}
    )
    by = {each.what: each for each in found.remedies}
    assert by["noise of 1 of the update's norm"].read == 0
    assert "0.018" in by["noise of 1 of the update's norm"].note
    assert by["batch × 2"].read > 0
    assert by["secure sum of 5 clients"].why_not
    # Without the bias's gradient Fidel knows records up to their brightness, and peeling nothing.
    assert by["your defence"].read == 0
    bias = by["no bias in the first layer"]
    assert (bias.why_not, bias.before, bias.read) == ("", 4, 0)
    assert by["top 1% of coordinates"].accuracy is not None
    assert not any(each.unfinished for each in by.values() if each.what.startswith("noise"))
    measured = [each for each in found.remedies if not each.why_not]
    assert measured == sorted(measured, key=lambda each: each.rank())
    assert found.remedies[: len(measured)] == measured


def test_a_search_that_found_the_leak_runs_again_after_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbench.audit.remedies._of_clients", lambda own: ())
    monkeypatch.setattr("leakbench.audit.remedies.KEPT", ())
    monkeypatch.setattr("leakbench.audit.remedies.NOISE", (1.0,))
    monkeypatch.setattr("leakbench.audit.attacks.FEWEST", 30)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Flatten(), nn.Linear(512, 4))
    slope = torch.linspace(0, 1, 8)
    own = client_of(network, ((slope[:, None] * slope)[None, None], torch.tensor([1])))
    played = own.play()
    found = attack("invg", *view(played), 600, longest=30)
    assert (found.count(READ), found.count(RECOGNISABLE), found.iterations) == (0, 1, 30)
    # The same update is searched with the same seeds, so that a defence that does nothing changes nothing.
    by = {each.what: each for each in remedies(own, played, [found], 600, lambda update: update)}
    idle, noise = by["your defence"], by["noise of 1 of the update's norm"]
    assert (idle.seen_before, idle.seen, idle.hidden, idle.unfinished) == (1, 1, 0, False)
    assert (noise.seen, noise.hidden, noise.unfinished) == (0, 1, False)
    assert list(by) == ["noise of 1 of the update's norm", "your defence"]
    # Without the time for a search as long as a search must be, nothing is claimed of any change.
    (nothing,) = remedies(own, played, [found], 1e-3)
    assert nothing.what == "every change"
    assert "InvG did not run again" in nothing.why_not


DEFENCES = {
    "ZeroDivisionError": lambda update: 1 / 0,
    "returns other tensors": lambda update: {},
    "other tensors than": lambda update: dict.fromkeys(update, 0),
    "holds NaN or Inf": lambda update: {name: value * torch.nan for name, value in update.items()},
}


@pytest.mark.parametrize("words", DEFENCES)
def test_a_failing_defence_is_named_and_takes_no_result(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbench.audit.remedies._of_clients", lambda own: ())
    own = client_of(mlp(400), 8, records=4)
    played = own.play()
    found = attack("peel", *view(played), 60)
    by = {each.what: each for each in remedies(own, played, [found], 60, DEFENCES[words])}
    assert words in by["your defence"].why_not
    assert not by["top 10% of coordinates"].why_not
