"""What a row says of networks, null baselines, rivals, failures and unstated lengths, from files to words."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests_world import CLAIMS, MAP, PAPER, TRUE, card, evidence, lines, paper, tabled, trials

from leakbench.papers.scorecard.kinds import kinds

CLAIM = CLAIMS["claims"][0]
TABLE = MAP["table-1"]


def judged(folder: Path, cells: dict[tuple[str, ...], Any], **files: Any) -> pd.DataFrame:
    return card(paper(folder, **files), tabled(cells))


def cut(values: Any, ran: int, **more: Any) -> dict[str, Any]:
    return {"values": values, "iterations": ran, **more}


def test_a_shorter_run_that_succeeds_refutes_a_printed_failure(tmp_path: Path) -> None:
    # The print says 20 dB of a slow attack, and a twentieth of its length gives 45.
    cells = TRUE | {
        ("digits", "slow", "psnr"): cut(trials(45, 1, 20), 5),
        ("digits", "slow", "psnr-null"): cut([8.0] * 20, 5, metric="psnr", baseline="random-noise"),
    }
    hidden = {"table-1": TABLE | {"hidden": {"by": "attack", "Slow": True, "else": False}}}
    found = judged(tmp_path, cells, measured=hidden).loc["tiny.table-1.2"]
    assert found["verdict"] == "differs"
    assert "an attacker may stop early" in found["reason"]
    assert judged(tmp_path, cells).loc["tiny.table-1.2", "verdict"] == "inconclusive"
    # Without a null baseline nothing shows that 45 dB is a success.
    cells.pop(("digits", "slow", "psnr-null"))
    assert judged(tmp_path, cells, measured=hidden).loc["tiny.table-1.2", "verdict"] == "inconclusive"


def test_a_shorter_run_refutes_a_claim_that_an_attack_fails(tmp_path: Path) -> None:
    cells = {key: cut(values, 5) for key, values in TRUE.items()}
    claim = CLAIM | {"quantity": "at(attack='fast')", "relation": "<", "threshold": 10}
    for more, word in (({"hidden": True}, "differs"), ({}, "inconclusive")):
        found = judged(tmp_path, cells, claims={"claims": [claim | more]})
        assert found.loc["tiny.table-1.fast-better", "verdict"] == word


@pytest.mark.parametrize(
    ("falls", "word"), [((), "inconclusive"), ((0.5,) * 20, "inconclusive"), ((0.0,) * 20, "differs")]
)
def test_a_failure_after_an_unstated_length_refutes_a_success_only_where_it_has_settled(
    falls: tuple[float, ...], word: str, tmp_path: Path
) -> None:
    cells = TRUE | {("digits", "fast", "psnr"): trials(5, 1, 20)}
    success = {"table-1": TABLE | {"success": True, "against": {}}}
    own = tabled(cells, falls={"tiny-table-1": {"digits/v/f/none/fast/0": list(falls)}})
    code = PAPER | {"unstated": ["iterations"]}
    assert card(paper(tmp_path, measured=success), own).loc["tiny.table-1.1", "verdict"] == "differs"
    found = card(paper(tmp_path, measured=success, paper=code), own).loc["tiny.table-1.1"]
    assert found["verdict"] == word
    assert ("the source states no length" in found["reason"]) == (word == "inconclusive")


def test_the_kind_of_a_reproduced_row_knows_nulls_and_rivals(tmp_path: Path) -> None:
    def kind(cells: dict[tuple[str, ...], Any], **keys: Any) -> str:
        return str(judged(tmp_path, cells, measured={"table-1": TABLE | keys}).loc["tiny.table-1.1", "kind"])

    null = ("digits", "fast", "psnr-null")
    assert kind(TRUE) == "success"
    assert kind(TRUE, rival="attack") == "success"
    assert kind(TRUE, rival="attack", tolerance=10.5) == "as-rival"
    assert kind(TRUE, hidden=True) == "failure"
    for value, word in ((29.0, "as-null"), (12.0, "success")):
        cells = TRUE | {null: {"values": [value] * 5, "metric": "psnr", "baseline": "unrelated-image"}}
        assert kind(cells) == word
    # A rival in another condition is none.
    assert kind(TRUE, rival="dataset", tolerance=4.9) == "success"
    assert kind(TRUE, rival="dataset", tolerance=5.1) == "as-rival"


def test_a_claim_that_says_little_says_so(tmp_path: Path) -> None:
    found = judged(tmp_path, TRUE, claims={"claims": [CLAIM | {"trivial": "true by construction"}]})
    row = found.loc["tiny.table-1.fast-better"]
    assert (row["verdict"], row["kind"]) == ("reproduced", "as-null")
    assert "true by construction" in row["reason"]


def test_a_row_has_the_number_of_its_networks(tmp_path: Path) -> None:
    found = judged(tmp_path, {key: {"values": values, "seeds": "0"} for key, values in TRUE.items()})
    assert found.loc["tiny.table-1.1", "networks"] == 1
    assert ", on one network" in found.loc["tiny.table-1.1", "reason"]
    found = judged(tmp_path, {key: {"values": values, "seeds": "0 1 2"} for key, values in TRUE.items()})
    assert found.loc["tiny.table-1.1", "networks"] == 3
    assert "on one network" not in found.loc["tiny.table-1.1", "reason"]
    found = judged(tmp_path, {key: {"values": values, "seeds": ""} for key, values in TRUE.items()})
    assert pd.isna(found.loc["tiny.table-1.1", "networks"])


def test_outcomes_of_two_kinds_come_from_the_trials_of_a_row(tmp_path: Path) -> None:
    mixed = [*trials(30, 0.2, 45), *[0.0] * 5]
    found = judged(tmp_path, TRUE | {("digits", "fast", "psnr"): mixed}).loc["tiny.table-1.1"]
    assert found["verdict"] == "reproduced"
    assert "the median is 29.97" in found["reason"]
    assert found["measured"] == pytest.approx(27)


def test_a_condition_of_a_training_is_read_from_another_table_that_has_it(tmp_path: Path) -> None:
    study = {"training": "sgd", "defence": "none", "key": "", "client": "", "victim": "v"}
    cells = {("digits", "", "accuracy"): {"values": trials(0.9, 0.01, 5), **study}}
    where = ", ".join(f"{key}='{value}'" for key, value in study.items())
    claim = CLAIM | {
        "read": {"experiment": "umbrella", "metric": "accuracy", "dataset": "digits"},
        "quantity": f"at({where})", "threshold": 0.5,
    }  # fmt: skip
    files = paper(tmp_path, claims={"claims": [claim]})
    known = frozenset({"umbrella", "tiny-table-1", "variant"})
    own = evidence({"variant": lines("variant", cells)}, known=known)
    assert card(files, own).loc["tiny.table-1.fast-better", "verdict"] == "reproduced"
    # A condition that the claim does not name whole may be another one.
    claim["quantity"] = "at(training='sgd')"
    assert (
        card(paper(tmp_path, claims={"claims": [claim]}), own).loc["tiny.table-1.fast-better", "verdict"]
        == "not-run"
    )


def test_kinds_are_counted_of_core_works_and_of_others() -> None:
    rows = [
        ("a", "result", "reproduced", "success"), ("a", "result", "reproduced", "as-null"),
        ("b", "result", "reproduced", "success"), ("a", "doubt", "reproduced", "success"),
        ("a", "result", "differs", ""),
    ]  # fmt: skip
    found = kinds(pd.DataFrame(rows, columns=["work", "class", "verdict", "kind"]), ["a"])
    assert found == {
        "core": {"success": 1, "failure": 0, "as-rival": 0, "as-null": 1},
        "others": {"success": 1, "failure": 0, "as-rival": 0, "as-null": 0},
    }
