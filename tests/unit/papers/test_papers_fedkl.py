"""papers/fedkl: statements of chapter 5 name cells that exist and are judged as they say."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import thesis_world as world

from leakbench.catalogue.shown import described
from leakbench.papers.facts import reader
from leakbench.papers.scorecard.evidence import Evidence

NAME = "fedkl"
PRINTED = world.as_printed(NAME)
KNOWN = frozenset(world.EXPERIMENTS)
CONFIG = Path(__file__).parents[3] / "config"


def values(asked: Any) -> float | None:
    """Return what is printed, or else what a lock leaves that hides all unless its key is shared."""
    for each in (asked, {**asked, "convention": "published"}):
        if world.key(each) in PRINTED:
            return PRINTED[world.key(each)]
    metric, defence, attack = asked["metric"], asked.get("defence", "none"), asked.get("attack", "")
    if metric in ("accuracy", "gap_to_random"):
        twin = {"lenet-dlg-running-norm": 0.98}.get(asked["victim"], 0.6)
        return 0.05 if metric == "gap_to_random" else twin + (0.005 if defence == "key-lock" else 0.0)
    if metric == "seconds_per_round":
        return 2.0 if defence == "none" else 2.1
    if metric == "label_accuracy":
        return 1.0
    told = {
        "key": 0.6,
        "lock": 0.1,
        "both": 0.8,
        "released": 0.4,
        "key-lock": 0.05,
        "sigmoid": 0.05,
        "none": 0.9,
        "withhold": 0.9,
    }
    ssim = told[defence.rpartition("-")[2] if defence not in told else defence]
    if attack == "dlg" and (asked["victim"] != "lenet-dlg" or defence != "none"):
        ssim = 0.04
    if asked["experiment"] == "thesis-table-5-6-deep" and asked["dataset"] == "cifar100-256":
        ssim += 0.1
    own = {"ssim": ssim, "pearson": 1.0, "mse": 0.16 * (1.05 - ssim), "psnr_of_rmse": 28 + 20 * ssim}
    return own.get(metric, 100 * (1.05 - ssim))


judged = partial(world.judged, NAME, values)


def test_every_statement_reads_cells_that_an_experiment_has() -> None:
    scale = world.World(values)
    world.verdicts(NAME, scale)
    # Whatever stands in for what was not measured.
    world.verdicts(NAME, missing := world.World(lambda asked: None))
    assert not {world.nowhere(asked) for asked in scale.asked + missing.asked} - {""}


def test_where_our_numbers_are_the_printed_ones_all_tables_are_reproduced() -> None:
    found = judged()
    tables = found[found["item"].isin(["table-5.1", "table-5.3", "table-5.6"]) & (found["metric"] != "claim")]
    odd = tables[tables["verdict"] != "reproduced"]
    # Quoted from others, shares of an architecture, and LPIPS of GGL.
    assert set(odd["condition"].str.extract(r"(literature|GGL)")[0].dropna()) == {"literature", "GGL"}
    assert len(odd) == 3 + 4 + 6
    assert found.loc["thesis.text-5-3-2.2", "measured"] == pytest.approx(5.79, abs=0.01)
    assert found.loc["thesis.text-5-3-3.1", "measured"] == pytest.approx(29460, abs=1)
    assert set(found.loc[found["class"] == "arithmetic", "published"]) == {"0"}


@pytest.mark.parametrize(
    ("claim", "change"),
    [
        ("table-5-4.nothing-left", {"defence": "key-lock", "attack": "grnn", "value": 0.6}),
        ("table-5-4.nothing-left", {"defence": "key-lock", "attack": "grnn-adapted", "value": 0.6}),
        ("table-5-4.dlg-only-lenet", {"attack": "dlg", "victim": "resnet20-sigmoid", "value": 0.9}),
        ("table-5-4.traces-at-256", {"dataset": "cifar100-256", "value": 0.0}),
        ("table-5-5.layout-lost", {"attack": "ggl-adapted", "metric": "ssim", "value": 0.95}),
        ("table-5-6.all-worse", {"attack": "grnn-adapted", "metric": "ssim", "value": 0.999}),
        ("table-5-7.key-enough-32", {"defence": "key-lock-key", "value": 0.1}),
        ("table-5-7.lock-not-enough", {"defence": "key-lock-lock", "attack": "invg-adapted", "value": 0.6}),
        ("table-5-7.both-best", {"defence": "key-lock-both", "value": 0.3}),
        (
            "text-5.bn-alone",
            {"victim": "lenet-dlg-batch-norm", "defence": "none", "attack": "dlg", "value": 0.8},
        ),
        ("text-5-2.proposition-2", {"attack": "invg-adapted", "value": 0.6}),
        (
            "text-5-3-2.no-loss",
            {"metric": "accuracy", "defence": "key-lock", "convention": None, "value": 0.2},
        ),
        ("table-5-3.wrong-key", {"metric": "gap_to_random", "victim": "resnet20", "value": -0.1}),
        ("text-5-1.lock-cost", {"metric": "seconds_per_round", "defence": "key-lock", "value": 9.0}),
        ("doubt-24.rmse-as-mse", {"metric": "mse", "value": 0.0015}),
        ("doubt-26.lock-weights-known", {"defence": "key-lock-released", "value": 0.01}),
    ],
)
def test_a_claim_that_does_not_hold_is_not_reproduced(claim: str, change: dict[str, Any]) -> None:
    wanted = {key: value for key, value in change.items() if key != "value"}

    def other(asked: Any) -> float | None:
        return change["value"] if all(asked.get(key) == value for key, value in wanted.items()) else None

    assert judged().loc[f"thesis.{claim}", "verdict"] == "reproduced"
    assert judged(other).loc[f"thesis.{claim}", "verdict"] in ("differs", "inconclusive")


def test_a_network_that_has_learnt_nothing_decides_no_claim() -> None:
    found = judged(
        lambda asked: (
            0.2 if asked["metric"] == "accuracy" and asked["experiment"] == "thesis-table-5-1" else None
        )
    )
    for claim in ("text-5-3-2.no-loss", "table-5-3.wrong-key", "doubt-23.lock-share-gap"):
        assert found.loc[f"thesis.{claim}", "verdict"] == "inconclusive"
        assert "right on fewer than half" in found.loc[f"thesis.{claim}", "reason"]


def test_a_twin_stands_in_for_a_released_network_and_is_named() -> None:
    found = judged(lambda asked: math.nan if asked.get("victim") == "resnet20-padded" else None)
    assert found.loc["thesis.table-5-1.2", "measured"] == pytest.approx(60.0)
    assert "resnet20 in place of resnet20-padded" in found.loc["thesis.table-5-1.2", "reason"]


def test_behind_a_lock_the_reason_names_what_an_adapted_attacker_reads() -> None:
    found = judged(
        lambda asked: 77.0 if asked["metric"] == "rmse_255" and "adapted" in asked["attack"] else None
    )
    told = found.index[found["reason"].str.contains("-adapted 77, n = 20")]
    # With the lock, the first metric of each of 13 rows of Table 5.6.
    assert list(told) == [f"thesis.table-5-6.{10 * place + 2}" for place in range(13)]


def test_a_stand_in_is_named_counted_once_and_decides_no_number() -> None:
    place = {"victim": "lenet-dlg-batch-norm", "federation": "grnn", "defence": "key-lock"}
    means = [
        ("mnist-32", "rmse_255", "published", 110.0),
        ("cifar10", "rmse_255", "published", 90.0),
        ("mnist-32", "mse", "standard", 0.16),
        ("cifar10", "mse", "standard", 0.16),
        ("mnist-32", "psnr_of_rmse", "published", 28.0),
        ("cifar10", "psnr_of_rmse", "published", 26.0),
    ]
    rows = [
        place | {"dataset": dataset, "metric": metric, "convention": convention, "mean": mean}
        for dataset, metric, convention, mean in means
    ]
    tables = {
        name: world.lines(name, [row | {"attack": attack} for row in rows])
        for name, attack in [("thesis-table-5-6", "dlg"), ("thesis-table-5-6-released", "grnn-released")]
    }
    found = world.verdicts(NAME, Evidence("paper", tables, known=KNOWN))
    assert found.loc["thesis.doubt-24.rmse-as-mse", "measured"] == pytest.approx(39 - abs(100 - 102))
    assert found.loc["thesis.text-5-3-3.3", "measured"] == pytest.approx(27.0)
    assert found.loc["thesis.table-5-6.22", "verdict"] == "not-run"


def _gaps(victims: dict[str, float], dataset: str) -> list[dict[str, Any]]:
    cell = {
        "dataset": dataset,
        "defence": "key-lock",
        "key": "own",
        "client": "",
        "metric": "gap_to_random",
        "rounds": 200,
    }
    large = ("resnet18-unpooled", "resnet34-unpooled", "vgg16-batch-norm")
    names = {victim: f"sgd-federated{'-224' if victim in large else ''}" for victim in victims}
    return [cell | {"victim": v, "training": names[v], "mean": mean} for v, mean in victims.items()]


def test_nothing_stands_in_for_cifar100_where_it_is_compared_with_cifar10() -> None:
    gaps = {
        "resnet20": 0.3,
        "resnet32": 0.2,
        "resnet18-unpooled": 0.12,
        "resnet34-unpooled": 0.07,
        "vgg16-batch-norm": 0.02,
    }
    ten = _gaps({victim: gap / 2 for victim, gap in gaps.items()}, "cifar10")

    def card(rows: list[dict[str, Any]]) -> pd.DataFrame:
        lines = {"thesis-table-5-3": world.lines("thesis-table-5-3", rows)}
        return world.verdicts(NAME, Evidence("paper", lines, known=KNOWN))

    found = card(ten)
    assert set(
        found.loc[["thesis.table-5-3.hundred-wider", "thesis.table-5-3.grows-with-share"], "verdict"]
    ) == {"not-run"}
    found = card(ten + _gaps(gaps, "cifar100"))
    assert found.loc["thesis.table-5-3.hundred-wider", "measured"] == pytest.approx(1.0)
    assert found.loc["thesis.table-5-3.grows-with-share", "measured"] == pytest.approx(5.0)


def test_only_the_last_half_of_a_curve_counts() -> None:
    cell = {
        "victim": "resnet20",
        "training": "sgd-centralised",
        "metric": "accuracy",
        "client": "",
        "baseline": "snapshot",
    }
    rows = []
    for dataset in ("cifar10", "cifar100"):
        for victim in ("resnet20", "resnet32"):
            for turn, gap in enumerate([0.3, 0.2, 0.01, 0.02], 1):
                place = cell | {"dataset": dataset, "victim": victim, "round": turn}
                rows += [
                    place | {"defence": "none", "key": "", "mean": 0.9},
                    place | {"defence": "key-lock", "key": "own", "mean": 0.9 - gap},
                ]
    lines = {"thesis-table-5-2": world.lines("thesis-table-5-2", rows)}
    found = world.verdicts(NAME, Evidence("paper", lines, known=KNOWN))
    assert found.loc["thesis.table-5-2.same-trend", "measured"] == pytest.approx(2.0)


def test_the_lock_has_the_printed_share_of_every_network() -> None:
    found = world.verdicts(NAME, Evidence("paper", {}, fact=reader(described(CONFIG), {}), known=KNOWN))
    shares = found[found["metric"] == "lock_parameter_percent"]
    assert shares["measured"].astype(float).tolist() == pytest.approx(
        [22.43, 10.49, 6.46, 1.15, 0.61, 0.097], rel=0.01
    )
    assert set(shares["class"]) == {"setting"}
