"""AGIC's and Fidel's folders: every printed row and claim is measured by what it says (worlds.yaml)."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from printed_world import WORLDS, World, card, changed, known, nothing, world
from worlds import works

from leakbench.papers import items
from leakbench.papers.join import read
from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.scorecard import Card

NAMES = ("agic", "fidel")
CHANGES = [
    pytest.param(name, change, id=f"{name}: {change['lost']}")
    for name in NAMES
    for change in WORLDS[name]["changes"]
]
named = pytest.mark.parametrize("name", NAMES)


def test_a_world_in_which_every_printed_number_is_ours_gives_it_back() -> None:
    own = world("agic")
    rows = [row for rows in own.work.tables.values() for row in rows if read(own.work, row).way == "mean"]
    assert len(rows) == 105
    measured = [own.held.loc[row.id.removeprefix("agic."), "measured"] for row in rows]
    assert measured == pytest.approx([row.number.value for row in rows])


@named
def test_a_world_in_which_the_paper_holds(name: str) -> None:
    held = world(name).held
    got = held["verdict"]
    wanted = dict.fromkeys(WORLDS[name]["never"], "not-run") | WORLDS[name]["otherwise"]
    assert got[got != "reproduced"].to_dict() == wanted
    settings = {"agic": r"^table-7|^text-V-A\.\d", "fidel": "^table-"}[name]
    assert set(held["class"][held.index.str.contains(settings)]) == {"setting"}
    assert set(held["class"][held.index.str.contains("doubt|expectation")]) == {"doubt"}


def test_what_the_authors_code_does_otherwise_is_said() -> None:
    held = world("fidel").held
    assert held.loc["doubt-5.table-4-padding", "measured"] == 28
    assert "CIFAR-10 needs 32" in held.loc["table-4.5", "reason"]


@pytest.mark.parametrize(("name", "change"), CHANGES)
def test_a_world_with_other_measurements_changes_exactly_its_rows(name: str, change: dict[str, Any]) -> None:
    own = world(name)
    by = change.get("add", 0), change.get("times", 1)
    tables = changed(own.tables, change["in"], lambda values: by[1] * values + by[0], **change["of"])
    got = own.card(tables)["verdict"]
    lost = (own.held["verdict"] == "reproduced") & (got != "reproduced")
    assert set(got.index[lost]) == set(change["lost"])


# What facts decide, and what asks for less than a world in which the rest holds could lose.
UNCHANGED = {"agic": set(), "fidel": {
    "text-VI.low-cost", "doubt-5.table-4-padding", "doubt-5.auxiliary-disjoint",
    "doubt-3.average-is-one-setting",
}}  # fmt: skip


@named
def test_every_claim_that_is_measured_can_fail(name: str) -> None:
    claims = {claim.id.removeprefix(f"{name}.") for claim in works()[name].claims.claims if not claim.absent}
    lost = {key for change in WORLDS[name]["changes"] for key in change["lost"]}
    assert lost >= claims - UNCHANGED[name] - WORLDS[name]["otherwise"].keys()


ABSENT = [
    ("agic", "agic-table-1", "no CIFAR-100", "agic.text-V-A.12",
     {"table-1.2": "no CIFAR-100", "table-7.25": "not implemented",
      "table-2.34": "needs torchvision's pretrained ResNet-50 weights"}),
    ("fidel", "fidel-figure-13", "MNIST is not present", "fidel.text-V-B.2",
     {"text-abstract.1": "MNIST is not present"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "experiment", "why", "ours", "reasons"), ABSENT)
def test_without_tables_and_facts_nothing_is_measured(
    name: str, experiment: str, why: str, ours: str, reasons: dict[str, str]
) -> None:
    """But for what stands in our code."""
    got = card(name, {}, nothing, absent={experiment: {"every cell": why}})
    assert set(got["verdict"][got.index != ours]) == {"not-run"}
    assert (got["reason"] != "").all()
    for key, reason in reasons.items():
        assert got.loc[f"{name}.{key}", "reason"].startswith(reason)


def test_a_data_set_that_is_absent_leaves_the_others() -> None:
    own = world("agic")
    found = {
        name: table.query("dataset == 'cifar10'") if "dataset" in table else table
        for name, table in own.tables.items()
    }
    absent = {
        "agic-table-1": {"cifar100/v/f/none/agic-equal-oracle/0": "no CIFAR-100"},
        "agic-table-4": {"imagenet/resnet50/agic-gradient-batch4/none/agic-resnet50-oracle/0": "no ImageNet"},
    }
    got = own.card(found, absent=absent)
    assert got.loc["table-1.1", "verdict"] == "reproduced"
    assert got.loc["table-1.2", "reason"].startswith("no CIFAR-100")
    assert got.loc["table-1.linear-best", "verdict"] == "not-run"
    # The largest gain needs one cell; that all gains are positive needs every cell.
    assert got.loc["text-abstract.gradient-gain", "verdict"] == "reproduced"
    assert got.loc["table-4.batch-4", "reason"].startswith("no ImageNet")


def differing(own: World, got: pd.DataFrame) -> set[str]:
    """Return the rows with another verdict than in the world that holds."""
    return set(got.index[got["verdict"] != own.held["verdict"]])


def test_a_missing_condition_leaves_the_others() -> None:
    own, name = world("fidel"), "fidel-figure-13"
    absent = {name: {"mnist/fcnn-relu-dropout/any/none/fidel/0": "this scale stops at 100"}}
    got = own.card(own.tables | {name: own.tables[name].query("local_samples != 200")}, absent=absent)
    assert got.loc["fig-13.large-sets", "reason"].startswith("this scale stops at 100")
    assert differing(own, got) == {
        "fig-13.1", "fig-13.above-one", "fig-13.dropout-raises", "fig-13.large-sets", "fig-13.peak",
        "text-V-A.dropout-isolates", "text-V-B.cnn-fewer", "expectation.sigmoid-tanh",
    }  # fmt: skip


def other_facts(own: World) -> dict[str, Any]:
    """Return facts of which some are not as printed."""
    if own.name == "agic":
        cell = "cifar10/resnet20-4/agic-gradient/none"
        attack = known(own.facts)("attacks.agic")
        return {
            "attacks.agic": attack | {"objective": {"squares": {}}, "optimiser": {"lbfgs": {}}},
            "attacks.agic.objective.total-variation.weight": 0.0,
            "attacks.agic-joint.epochs.joint.later": 0.5,
            "network.victims/cifar10/resnet20-4.tensors": [[64, 3, 3, 3]] * 19,
            f"run.attack.{cell}/agic-single.attack.parameters.iterations": 20,
            f"run.capture.{cell}.federation.rounds": 2,
        }
    layers, channels = (
        [dict(layer) for layer in own.facts[f"network.victims/mnist/{name}.layers"]]
        for name in ("fcnn-relu", "cnn-relu")
    )
    layers[1]["size"] = channels[3]["size"] = "64"
    generator = "network.generators/cifar10/cnn-relu/fidel-cifar10"
    return {
        "network.victims/mnist/fcnn-relu.layers": layers, "network.victims/mnist/cnn-relu.layers": channels,
        f"{generator}.training": own.facts[f"{generator}.training"] | {"lr": 0.01},
        f"{generator}.auxiliary": {"start": 0, "stop": 7000}, f"{generator}.auxiliary.stop": 7000,
        "cost.attack.mnist/fcnn-relu-dropout/fidel-reveal/none/fidel.updates": 10,
        "run.capture.mnist/cnn-relu/fidel-demo/none.federation.private": {"start": 7000, "stop": 10000},
        "cost.generator.cifar10/cnn-relu/fidel-cifar10.seconds": 700.0,
    }  # fmt: skip


OF_FACTS = {
    "agic": "table-7.65 table-7.66 table-7.67 text-V-A.3 text-V-A.8 text-V-A.11 text-V-A.13 text-IV-C.1",
    "fidel": "table-1.2 table-2.5 text-III-B.1 table-4.8 text-III-B.2 text-III-B.3 text-III-B.4 "
             "text-VI.low-cost doubt-5.auxiliary-disjoint",
}  # fmt: skip


@named
def test_changed_facts_change_exactly_their_rows(name: str) -> None:
    own = world(name)
    assert differing(own, own.card(facts=own.facts | other_facts(own))) == set(OF_FACTS[name].split())


def test_settings_are_those_of_the_run() -> None:
    own = world("fidel")
    found = own.tables | {"fidel-figure-14": own.tables["fidel-figure-14"].assign(n=50)}
    found |= {"fidel-figure-11": own.tables["fidel-figure-11"].assign(local_samples=5)}
    got = own.card(found).loc[["fig-14.1", "fig-11.1"]]
    assert got["measured"].tolist() == ["50", "5"]
    assert set(got["verdict"]) == {"differs"}


def test_an_undefined_ratio_and_too_few_updates_decide_nothing() -> None:
    own = world("fidel")
    zero = own.card(changed(own.tables, "fidel-figure-14", lambda values: values * 0))
    assert math.isnan(zero.loc["fig-14.falls-faster", "measured"])
    own = world("agic")
    few = own.tables["agic-figure-9"].assign(n=2, ci_low=np.nan, ci_high=np.nan)
    got = own.card(own.tables | {"agic-figure-9": few})
    assert got.loc["table-7.70", ["verdict", "reason"]].tolist() == ["not-run", "too few updates tell"]
    assert math.isnan(got.loc["fig-9.modifier-helps", "ci_low"])


def test_every_ordering_is_between_two_rows_of_one_metric() -> None:
    work = works()["agic"]
    prints = {row.id: row for rows in work.tables.values() for row in rows}
    ordered = {key: read(work, row).against for key, row in prints.items()}
    assert all(prints[key].metric == prints[other].metric for key, other in ordered.items() if other)
    # Equal weights in Table I are what the others are compared with.
    alone = {key for key, other in ordered.items() if not other and read(work, prints[key]).way == "mean"}
    assert alone == {"agic.table-1.1", "agic.table-1.2", "agic.text-V-D.1", "agic.text-V-D.2"}


def test_a_short_run_shows_its_numbers_and_decides_nothing() -> None:
    own = world("agic")
    matched = own.tables["agic-table-5"].assign(attack="agic-joint-matching")
    got = own.card(
        {
            name: table.assign(iterations=20)
            for name, table in (own.tables | {"agic-table-5": matched}).items()
        }
    )
    assert got.loc["table-4.7", "measured"] == pytest.approx(31.341)
    assert "after 20 of 10,000 iterations" in got.loc["table-4.7", "reason"]
    assert "after 20 of 2,000 iterations" in got.loc["table-5.1", "reason"]
    # Neither labels that are read off at once nor settings need a long run.
    decided = got[(got["class"] != "setting") & ~got["verdict"].isin(["inconclusive", "not-run"])]
    assert set(decided.index) == {"text-V-A.labels-accurate"}


def test_the_image_of_figure_10_is_one_trial() -> None:
    quality = {"1": [20.0, 30.0], "5": [21.0, 20.0], "10": [22.0, 10.0], "20": [23.0, 5.0]}
    trials = pd.DataFrame([
        {"line": line, "cluster": str(image), "trial": str(image), "value": quality[beta][image]}
        for line, beta in enumerate(quality)
        for image in (0, 1)
    ])  # fmt: skip
    name, own = "agic-figure-10", world("agic")
    scale = ScaleEvidence("paper", {name: Table(name, own.tables[name], trials)}, known=frozenset({name}))
    found = Card([own.work], [scale], scale).value("agic.fig-10.quality-with-beta", scale)
    # The first image rises, the second falls.
    assert (found.value, found.n, found.independent) == (pytest.approx(1), 1, 1)


ROWS = [
    ("thesis.table-3-4.1", "table-3.4", "psnr_mean", "differs", ""),
    ("thesis.table-3-4.2", "table-3.4", "psnr_mean", "reproduced", ""),
    ("thesis.table-3-4.3", "table-3.4", "psnr_mean", "not-run", "too long"),
    ("thesis.table-3-7.failed", "table-3.7", "claim", "reproduced", ""),
]


def lines(shows: Mapping[str, set[str]], *others: items.DrawnItem) -> list[str]:
    columns = ["id", "item", "metric", "verdict", "reason"]
    card = pd.DataFrame(ROWS, columns=columns).assign(work="grnn", **{"class": "result"})
    own = items.DrawnItem("grnn", "table-3.4", "thesis-table-3-4", ["squares", "dots", "dots"], shows)
    page = items.page([works()["grnn"]], card, [own, *others], lambda names: 1.2 * len(names))
    return [line for line in page.splitlines() if line.startswith("| table")]


@pytest.mark.parametrize(
    ("drawn", "told"), [(set(), ""), ({"ssim"}, "1 number"), ({"psnr_uint8_wrap", "ssim"}, "2 numbers")]
)
def test_an_item_counts_the_measured_numbers_that_its_figures_draw(drawn: set[str], told: str) -> None:
    first, _ = lines({"thesis-table-3-4": drawn})
    words = "1 reproduced, 1 differs"
    ours = "`thesis-table-3-4` (map, dots)"
    assert first == f"| table-3.4 | 2 of 3 numbers | {words} | {ours} | {told} | too long | 2 |"


def test_a_sentence_stands_in_the_figure_of_the_experiment_that_decides_it() -> None:
    assert lines({})[1] == "| table-3.7 | 1 of 1 words | 1 reproduced |  |  |  |  |"
    judged = items.DrawnItem("grnn", "table-3.6-batch256", "thesis-table-3-6-batch256", ["dots"], {})
    assert lines({}, judged)[1].endswith("| `thesis-table-3-6-batch256` (dots) | words |  |  |")
