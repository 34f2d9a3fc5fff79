"""FedBoosting: every row of chapter 4 has its finding, in a world in which the thesis holds and in others."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakbench.artefacts import write_tensors
from leakbench.catalogue.resolve import described
from leakbench.scorecard.evidence import Absent
from leakbench.scorecard.fedboosting import CLAIMS, NUMBERS, findings
from leakbench.scorecard.fedboosting_evidence import boundary_length
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard
from leakbench.verbs.scorecard import gather_fedboosting

ROOT = Path(__file__).parents[3]
PUBLISHED = read_published(ROOT / "published")
TESTS = {"IIIT5K": "iiit5k", "SVT": "svt", "SCUT": "scut-foru", "IC15": "icdar2015"}
SETS = {"ST": "synthtext", "90K": "synth90k", "ST & 90K": "synth90k"}
WORDS = 12_500_000
Tables = dict[str, pd.DataFrame]


def row(dataset: str, training: str, metric: str, value: float, **more: Any) -> dict[str, Any]:
    own = {
        "dataset": dataset,
        "victim": "perceptron" if dataset == "gaussians" else "crnn",
        "training": training,
    }
    own |= {"defence": "none", "client": math.nan, "key": "", "tested": "", "baseline": "", "round": math.nan}
    own |= {
        "metric": metric,
        "convention": "standard",
        "mean": value,
        "ci_low": math.nan,
        "ci_high": math.nan,
    }
    return own | {"n": 1, "rounds": 100, "images": WORDS} | more


def study(
    dataset: str, training: str, read: dict[str, float], curve: list[float] | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of a study that reads a share of the words of each test set, and of its own."""
    yield row(dataset, training, "lock_share", 0)
    for tested, value in {dataset: 0.9, **read}.items():
        for convention in ("standard", "published"):
            yield row(dataset, training, "accuracy", value, tested=tested, convention=convention)
        for turn, factor in enumerate(curve or [1.0], 1):
            yield row(
                dataset, training, "accuracy", factor * value, tested=tested, baseline="snapshot", round=turn
            )


def trainings(record: dict[str, str]) -> str:
    batch, epochs = record["batch_size"], record["epochs"]
    if epochs == "-":
        return f"text-both-{batch}" if "&" in record["train_dataset"] else f"text-{batch}"
    return f"text-{record['method'].lower()}-{epochs}e{batch}b"


def looked_at() -> list[dict[str, Any]]:
    """What an attacker at each point of a round reads, if encryption and fusion protect and a conspiracy undoes them."""
    seen = {"none": 0.9, "encrypted": 0.05, "encrypted-colluding": 0.9, "fused": 0.6, "fused-known": 0.9}
    return [
        {
            "dataset": "mnist-32", "victim": "fcnn-relu-untrained", "attack": attack, "defence": defence, "metric": "pearson",
            "convention": "standard", "baseline": "", "mean": r, "ci_low": r - 0.01, "ci_high": r + 0.01, "n": 9,
            "iterations": steps,
        }
        for attack, steps in (("fidel", 0), ("invg", 120))
        for defence, r in seen.items()
    ]  # fmt: skip


def tables() -> Tables:
    """What our experiments would have measured if every printed number were theirs."""
    read: dict[tuple[str, str], dict[str, float]] = {}
    printed = pd.read_csv(ROOT / "published/thesis_table-4-1.csv", dtype=str)
    for each in printed[printed["method"] != "CRNN*"].to_dict("records"):
        value = 0.1 if each["value"] == "diverged" else float(each["value"]) / 100
        read.setdefault((SETS[each["train_dataset"]], trainings(each)), {})[TESTS[each["test_dataset"]]] = (
            value
        )
    first = [
        line
        for (dataset, name), found in read.items()
        for line in study(dataset, name, found, [0.5, 3.0, 1.0] if min(found.values()) < 0.2 else None)
    ]
    for client, weight, loss in ((0, 0.55, 1.0), (1, 0.45, 4.0)):
        own = {"client": client, "baseline": "snapshot", "round": 1}
        first += [
            row("synth90k", "text-fedboosting-1e800b", metric, value, **own)
            for metric, value in (("weight", weight), ("training_loss", loss))
        ]
    third: list[dict[str, Any]] = []
    ends = {"N/A": "", "HE": "-he", "HE+DP": "-he-fused"}
    secured = pd.read_csv(ROOT / "published/thesis_table-4-3.csv", dtype=str, keep_default_na=False)
    for (method, defence), group in secured.groupby(["method", "defence"]):
        found = {TESTS[each["test_dataset"]]: float(each["value"]) / 100 for each in group.to_dict("records")}
        third += study("synth90k", f"text-{method.lower()}-1e800b{ends[defence]}", found)
    fourth = {
        "text-fedavg-1e800b": 0.8,
        "text-fedavg-3e256b": 0.1,
        "text-fedboosting-1e800b": 0.8,
        "text-fedboosting-3e256b": 0.795,
    }
    boosted = "text-fedboosting-1e256b"
    sixth = [*study("synth90k", boosted, {"svt": 0.8}, [1.0] * 30)]
    sixth += study("synth90k", f"{boosted}-validation", {"svt": 0.8}, [0.2] * 23 + [1.0] * 7)
    sixth += study("synth90k", "text-fedboosting-1e800b", {"svt": 0.8})
    sixth += study("synth90k", "text-fedboosting-1e800b-validation", {"svt": 0.78})
    plane = [
        line
        for name in ("code", "code-fused", "code-paillier", "code-paillier-fused", "code-ckks")
        for line in study("gaussians", f"gaussians-{name}", {"gaussians": 0.93})
    ]
    rows = {
        "thesis-table-4-1": first,
        "thesis-table-4-2": list(study("synth90k", "text-fedboosting-3e512b", {"svt": 0.8})),
        "thesis-table-4-3": third,
        "thesis-figure-4-2": plane,
        "thesis-figure-4-4": [
            *(line for name, value in fourth.items() for line in study("synth90k", name, {"svt": value})),
            row("synth90k", "text-fedavg-1e800b", "told_apart", 0.97),
        ],
        "thesis-figure-4-6": sixth,
        "leakbench-observers": looked_at(),
    }
    return {name: pd.DataFrame(content) for name, content in rows.items()}


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The facts of the catalogue, and of a drawing in which FedBoosting's boundary is straight and FedAvg's is not."""
    exhibit = tmp_path_factory.mktemp("exhibits") / "thesis-figure-4-2.safetensors"
    x, y = np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-3, 3, 61))
    bends = {"gaussians-fedavg": 1.0, "gaussians-code": 0.0, "gaussians-equations": 1.5}
    drawn = {
        f"{i}/surface": (1 / (1 + np.exp(b * np.sin(3 * x) - y))).astype(np.float32)
        for i, b in enumerate(bends.values())
    }
    about = [
        {"training": name, "seed": 0, "extent": [-3.0, 3.0, -3.0, 3.0], "apart": b / 20}
        for name, b in bends.items()
    ]
    write_tensors(exhibit, drawn, {"boundaries": about})
    shown = {"dataset": "synth90k", "tested": "svt", "words": [str(number) for number in range(20)]}
    words = exhibit.with_name("thesis-table-4-2.safetensors")
    boosted = [*shown["words"][:18], "WORKSHOPE", "1800G0GE1CO"]
    examples = [
        shown | {"training": "text-fedboosting-3e512b", "read": boosted},
        shown | {"training": "text-fedavg-3e512b", "read": [""] * 20},
    ]
    write_tensors(words, {}, {"examples": examples})
    catalogue = described(ROOT / "config")
    told = {
        kind: dict(zip(PUBLISHED["id"], PUBLISHED[column], strict=True))
        for kind, column in (("printed", "value"), ("print", "published"))
    }
    return (
        catalogue
        | gather_fedboosting({"thesis-figure-4-2": exhibit, "thesis-table-4-2": words}, catalogue)
        | told
    )


def card(measured: Tables, facts: dict[str, Any], absent: Absent | None = None) -> pd.DataFrame:
    found = findings(measured, facts, absent)
    # The chapter alone: judging every other row as not implemented takes the time of all of these.
    own = PUBLISHED[PUBLISHED["id"].isin(found.keys())]
    return scorecard(own, found).set_index("id").loc[list(found)]


def test_every_row_of_the_chapter_has_a_finding() -> None:
    wanted = {
        key
        for key in PUBLISHED["id"]
        if key.startswith(
            ("thesis.table-4-", "thesis.text-4-", "thesis.fig-4-", "thesis.doubt-20.", "thesis.doubt-21.")
        )
    }
    assert wanted == (NUMBERS | CLAIMS).keys()


def test_in_a_world_in_which_the_thesis_holds_numbers_are_reproduced(facts: dict[str, Any]) -> None:
    found = card(tables(), facts)
    verdicts = found["verdict"]
    unmeasured = {f"thesis.table-4-1.{place}" for place in range(1, 5)}
    unmeasured |= {f"thesis.text-4-3-2-1.{place}" for place in (1, 2, 5, 6)}
    assert set(verdicts.index[verdicts == "not-run"]) == unmeasured
    # The thesis' own Table 4.3 refutes what it says of Figure 4.5.
    assert set(verdicts.index[~verdicts.isin(["reproduced", "not-run"])]) == {
        "thesis.fig-4-5.close",
        "thesis.text-4-2-3.1",
    }
    assert found.loc["thesis.fig-4-5.close", "measured"] == pytest.approx(3.62)
    assert found.loc["thesis.table-4-2.mostly-right", "measured"] == pytest.approx(0.9)
    assert (found.loc[["thesis.table-4-1.29", "thesis.table-4-1.36"], "measured"] == "diverged").all()


@pytest.mark.parametrize(
    ("defence", "key"),
    [("encrypted-colluding", "thesis.text-4-4.conspiracy"), ("fused", "thesis.text-4-2-3.fusion-protects")],
)
def test_a_claim_about_what_is_seen_holds_for_every_attack_or_not_at_all(
    facts: dict[str, Any], defence: str, key: str
) -> None:
    measured = tables()
    rows = measured["leakbench-observers"]
    one = (rows["defence"] == defence) & (rows["attack"] == "invg")
    rows.loc[one, ["mean", "ci_low", "ci_high"]] = (
        [[0.04, 0.03, 0.05]] if "colluding" in defence else [[0.95, 0.94, 0.96]]
    )
    assert card(measured, facts).loc[key, "verdict"] == "differs"


def test_a_network_that_converged_has_not_diverged(facts: dict[str, Any]) -> None:
    measured = tables()
    rows = measured["thesis-table-4-1"]
    rows.loc[(rows["training"] == "text-fedavg-1e256b") & (rows["baseline"] == "snapshot"), "mean"] = 0.7
    found = card(measured, facts)
    assert found.loc["thesis.table-4-1.29", "verdict"] == "differs"
    assert found.loc["thesis.table-4-1.33", "verdict"] == "reproduced"


def test_a_network_that_reads_nothing_decides_nothing(facts: dict[str, Any]) -> None:
    measured = tables()
    for rows in measured.values():
        own = rows["dataset"] != "gaussians"
        rows.loc[own & (rows["metric"] == "accuracy"), "mean"] /= 10
        rows.loc[own, "rounds"] = 8
    found = card(measured, facts)
    assert (found.filter(regex=r"table-4-[13]|fig-4-[46]", axis=0)["verdict"] == "not-run").all()
    assert found.loc["thesis.table-4-1.45", "reason"].startswith("needs paper scale: after 8 of 100 rounds")
    # Points in the plane speak instead, and say so.
    assert found.loc["thesis.fig-4-5.close", "verdict"] == "reproduced"
    assert "points in the plane" in found.loc["thesis.fig-4-5.close", "reason"]
    # But for no number.
    assert found.loc["thesis.text-4-2-3.1", "verdict"] == "not-run"
    assert "prints up to 3.62" in found.loc["thesis.text-4-2-3.1", "reason"]


def test_a_stand_in_that_reads_decides_claims_and_no_number(facts: dict[str, Any]) -> None:
    measured = tables()
    del measured["leakbench-observers"]
    absent: dict[str, dict[str, str]] = {}
    for name, rows in measured.items():
        for dataset, training in rows[["dataset", "training"]].drop_duplicates().itertuples(index=False):
            if dataset in ("synth90k", "synthtext"):
                absent.setdefault(name, {})[f"{dataset}/crnn/{training}/none/0"] = f"{dataset} is not there"
        rows["dataset"] = rows["dataset"].replace("synth90k", "words-plain")
        rows["tested"] = rows["tested"].replace("synth90k", "words-plain")
    found = card(measured, facts, absent)
    numbers = found.filter(regex=r"table-4-[13]\.|fig-4-6\.1$|4-3-2-3", axis=0)
    assert set(numbers["verdict"].drop([f"thesis.table-4-1.{place}" for place in range(5, 13)])) == {
        "not-run"
    }
    assert "synth90k is not there" in numbers.loc["thesis.table-4-3.1", "reason"]
    assert "synthtext" not in numbers.loc["thesis.table-4-3.1", "reason"]
    claims = found.loc[["thesis.fig-4-4.fedavg-suffers", "thesis.fig-4-6.late-without"]]
    assert (claims["verdict"] == "reproduced").all()
    assert claims["reason"].str.contains("stand in for synth90k").all()


def test_where_nothing_ran_the_catalogue_and_the_print_speak_alone(facts: dict[str, Any]) -> None:
    found = card({}, facts, {"thesis-figure-4-6": {"every study": "needs paper scale: because"}})
    assert "not implemented" not in set(found["reason"])
    assert found.loc["thesis.fig-4-6.1", "reason"] == "needs paper scale: because"
    assert found.loc["thesis.text-4-2-2.1", "measured"] == "1e32"
    assert found.loc["thesis.doubt-21.fedboosting-everywhere", "measured"] == 2
    assert found.loc["thesis.doubt-20.he-loss", "verdict"] == "not-run"


def test_another_setting_differs(facts: dict[str, Any]) -> None:
    slow = facts["trainings"]["text-fedavg-1e800b-slow"]
    others = facts | {
        "pieces": 64,
        "trainings": facts["trainings"] | {"text-fedavg-1e800b-slow": slow | {"optimiser": "sgd"}},
    }
    found = card({}, others)
    assert list(found.loc[["thesis.text-4-3-2-1.9", "thesis.text-4-3-2-1.7"], "verdict"]) == ["differs"] * 2


@pytest.mark.parametrize(
    ("accuracy", "verdict"), [(0.9305, "reproduced"), (0.935, "differs"), (0.92, "differs")]
)
def test_encryption_that_changes_the_accuracy_is_not_lossless(
    accuracy: float, verdict: str, facts: dict[str, Any]
) -> None:
    measured = {"thesis-figure-4-2": tables()["thesis-figure-4-2"]}
    rows = measured["thesis-figure-4-2"]
    rows.loc[(rows["training"] == "gaussians-code-ckks") & (rows["metric"] == "accuracy"), "mean"] = accuracy
    assert card(measured, facts).loc["thesis.doubt-20.he-loss", "verdict"] == verdict


def test_a_scale_that_leaves_trainings_out_is_judged_by_the_others(facts: dict[str, Any]) -> None:
    measured = {"thesis-figure-4-2": tables()["thesis-figure-4-2"]}
    rows = measured["thesis-figure-4-2"]
    measured["thesis-figure-4-2"] = rows[
        ~rows["training"].isin(["gaussians-code-fused", "gaussians-code-ckks"])
    ]
    found = card(measured, facts)
    assert found.loc["thesis.doubt-20.he-loss", "verdict"] == "reproduced"
    assert "the largest of 1 that differ" in found.loc["thesis.doubt-20.he-loss", "reason"]
    assert "code-paillier, code-paillier-fused against" in found.loc["thesis.fig-4-5.close", "reason"]


def test_a_boundary_is_as_long_as_its_circle() -> None:
    x, y = np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-3, 3, 61))
    found = boundary_length(1 / (1 + np.exp(np.hypot(x, y) - 2)), [-3, 3, -3, 3])
    assert found == pytest.approx(4 * math.pi, rel=0.005)
    # A plane twice as wide has an ellipse, here of half-axes 4 and 2 by Ramanujan's sum.
    wide = boundary_length(1 / (1 + np.exp(np.hypot(x, y) - 2)), [-6, 6, -3, 3])
    assert wide == pytest.approx(math.pi * (18 - math.sqrt(14 * 10)), rel=0.005)
    assert boundary_length(np.zeros((61, 61)), [-3, 3, -3, 3]) == 0
