"""FedKL's accuracy: every number and claim has its finding, in a world in which the thesis holds and in others."""

from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from leakbench.drawing.printed_trainings import printed
from leakbench.scorecard.evidence import Absent
from leakbench.scorecard.fedkl_accuracy import CLAIMS, NUMBERS, findings
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard

PUBLISHED = Path(__file__).parents[3] / "published"
SHARES = {
    "LeNet": 0.2243,
    "ResNet-20": 0.1049,
    "ResNet-32": 0.0646,
    "ResNet-18": 0.0115,
    "ResNet-34": 0.0061,
    "VGG-16": 0.00097,
}
Tables = dict[str, pd.DataFrame]


def row(condition: dict[str, Any], metric: str, value: float, **more: Any) -> dict[str, Any]:
    own = condition | {
        "metric": metric,
        "mean": value,
        "std": 0.005,
        "ci_low": float("nan"),
        "ci_high": float("nan"),
        "n": 1,
    }
    return (
        own
        | {"baseline": "", "convention": "standard", "round": float("nan"), "rounds": 200, "images": 45_000}
        | more
    )


def tables() -> Tables:
    """Return what our experiments would have measured if every printed accuracy were theirs, and twins were the released."""
    rows: dict[str, list[dict[str, Any]]] = {
        "thesis-table-5-1": [],
        "thesis-table-5-2": [],
        "thesis-table-5-3": [],
    }
    frame = printed(PUBLISHED)
    released = {
        "lenet-dlg": "lenet-dlg-running-norm",
        "resnet20-padded": "resnet20",
        "resnet32-padded": "resnet32",
    }
    released |= {
        "resnet18-imagenet": "resnet18-unpooled",
        "resnet34": "resnet34-unpooled",
        "vgg16": "vgg16-batch-norm",
    }
    for each in frame.to_dict("records"):
        value = each.pop("value")
        twins = [each, each | {"victim": released[each["victim"]]}] if each["defence"] == "none" else [each]
        names = ["thesis-table-5-1"] if each["defence"] == "none" else []
        names += (
            ["thesis-table-5-1", "thesis-table-5-3"]
            if each["defence"] == "key-lock" and pd.isna(each["client"])
            else []
        )
        names += [] if pd.isna(each["client"]) else ["thesis-table-5-3"]
        at = {key: each[key] for key in ("dataset", "victim", "training", "defence")}
        random = frame[(frame["key"] == "random") & (frame[list(at)] == pd.Series(at)).all(axis=1)]["value"]
        for name, condition, convention in product(names, twins, ("standard", "published")):
            rows[name].append(row(condition, "accuracy", value, convention=convention))
            if each["key"] == "own" and name == "thesis-table-5-3" and len(random):
                rows[name].append(
                    row(condition, "gap_to_random", value - random.iloc[0], convention=convention)
                )
        for name, condition in product(names, twins):
            if pd.isna(each["client"]) and each["key"] != "random":
                rows[name].append(row(condition | {"key": ""}, "lock_share", 0.608))
        if each["training"].startswith("sgd-centralised"):
            for condition, turn in product(twins, (100, 150, 200)):
                rows["thesis-table-5-2"].append(
                    row(condition, "accuracy", value, baseline="snapshot", round=turn)
                )
    single = {
        "dataset": "mnist-32",
        "victim": "lenet-dlg-running-norm",
        "training": "sgd-centralised",
        "defence": "none",
    }
    single |= {"key": "", "client": float("nan")}
    spread = [row(single, "accuracy", 0.98, n=30, std=0.008), row(single, "lock_share", 0.0)]
    return {name: pd.DataFrame(content) for name, content in (rows | {"thesis-single-runs": spread}).items()}


def facts() -> dict[str, Any]:
    return {
        "defences": {"key-lock": {"key_length": 1024}},
        "studies": {"thesis-table-5-1": 44},
        "lock_shares": SHARES,
        "printed": read_published(PUBLISHED).set_index("id")["value"].to_dict(),
    }


def card(measured: Tables, absent: Absent | None = None) -> pd.DataFrame:
    found = findings(measured, facts(), absent)
    return scorecard(read_published(PUBLISHED), found).set_index("id").loc[list(found)]


def test_every_published_row_of_these_tables_has_a_finding() -> None:
    ids = set(read_published(PUBLISHED)["id"])
    wanted = {
        key for key in ids if key.startswith(("thesis.table-5-1.", "thesis.table-5-2.", "thesis.table-5-3."))
    }
    wanted |= {
        key for key in ids if key.startswith(("thesis.text-5-3-1.", "thesis.text-5-3-2.", "thesis.doubt-22."))
    }
    wanted |= {key for key in ids if key.startswith(("thesis.doubt-23.", "thesis.doubt-27."))}
    assert wanted == (NUMBERS | CLAIMS).keys()


def test_in_a_world_in_which_the_thesis_holds_numbers_are_reproduced() -> None:
    found = card(tables())
    lost = found[~found["verdict"].isin(["reproduced"])]
    # Quoted from other papers.
    assert set(lost.index) == {f"thesis.table-5-1.{row}" for row in (45, 46, 47)}


def change(measured: Tables, name: str, value: float, **where: Any) -> None:
    rows = measured[name]
    chosen = pd.Series(True, index=rows.index)
    for column, wanted in where.items():
        chosen &= rows[column] == wanted
    assert chosen.any()
    rows.loc[chosen, "mean"] = value


@pytest.mark.parametrize(
    ("name", "where", "value", "key", "verdict"),
    [
        ("thesis-table-5-1", {"victim": "vgg16", "training": "sgd-federated-224", "dataset": "cifar100"}, 0.9, "thesis.table-5-1.33", "differs"),
        ("thesis-table-5-1", {"metric": "accuracy", "defence": "key-lock"}, 0.6, "thesis.text-5-3-2.no-loss", "differs"),
        ("thesis-table-5-3", {"metric": "gap_to_random", "victim": "resnet20"}, -0.1, "thesis.table-5-3.wrong-key", "differs"),
        ("thesis-table-5-3", {"metric": "gap_to_random", "victim": "resnet20"}, 0.5, "thesis.doubt-23.lock-share-gap", "differs"),
        ("thesis-table-5-2", {"defence": "key-lock", "victim": "resnet20"}, 0.3, "thesis.table-5-2.same-trend", "differs"),
        ("thesis-table-5-1", {"victim": "lenet-dlg", "training": "sgd-federated"}, 0.9, "thesis.doubt-22.mnist-fedavg-best", "differs"),
    ],
)  # fmt: skip
def test_other_measurements_change_the_verdict(
    name: str, where: dict[str, Any], value: float, key: str, verdict: str
) -> None:
    measured = tables()
    change(measured, name, value, **where)
    assert card(measured).loc[key, "verdict"] == verdict


def test_a_network_that_has_learnt_nothing_decides_no_claim() -> None:
    measured = tables()
    rows = measured["thesis-table-5-1"]
    rows.loc[rows["metric"] == "accuracy", "mean"] = 0.2
    rows["rounds"] = 2
    found = card(measured).loc["thesis.text-5-3-2.no-loss"]
    assert found["verdict"] == "not-run"
    assert "after 2 of 200 rounds" in found["reason"]
    assert "right on 20 %" in found["reason"]


def test_what_is_left_out_is_the_reason_and_a_twin_stands_in() -> None:
    measured = tables()
    for name, rows in measured.items():
        measured[name] = rows[rows["dataset"].eq("mnist-32") & rows["victim"].ne("lenet-dlg")]
    found = card(measured, {name: {"any": "needs paper scale: too long"} for name in measured})
    assert "too long" in found.loc["thesis.table-5-1.2", "reason"]
    assert found.loc["thesis.table-5-1.2", "verdict"] == "not-run"
    assert "twin" in found.loc["thesis.table-5-1.1", "reason"]
    assert "LeNet on MNIST" in found.loc["thesis.table-5-3.wrong-key", "reason"]
