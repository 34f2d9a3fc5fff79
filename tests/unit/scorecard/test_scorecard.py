from pathlib import Path

import pandas as pd
import pytest

from leakbench.scorecard.fidel import findings
from leakbench.scorecard.measure import Measured
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import COLUMNS, scorecard
from leakbench.scorecard.verdict import Finding

PUBLISHED = Path(__file__).parents[3] / "published"


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return read_published(PUBLISHED)


def test_every_number_and_claim_is_there_once_and_in_order(published: pd.DataFrame, tables, facts) -> None:
    card = scorecard(published, findings(tables, facts))
    assert list(card.columns) == COLUMNS
    assert card["id"].tolist() == published["id"].tolist()
    assert set(card["verdict"]) == {"reproduced", "differs", "not-run"}
    assert (card["reason"] != "").all()
    others = card[card["source"] != "fidel"]
    assert set(others["verdict"]) == {"not-run"}
    assert set(others["reason"]) == {"not implemented"}


def test_reasons_go_to_the_longest_prefix(published: pd.DataFrame) -> None:
    reasons = {"thesis": "later", "thesis.table-5-6": "needs GGL", "thesis.table-5-6.2": "needs this"}
    card = scorecard(published, {}, reasons).set_index("id")["reason"]
    assert card["thesis.table-5-6.1"] == "needs GGL"
    assert card["thesis.table-5-6.2"] == "needs this"
    assert card["thesis.table-5-6.20"] == "needs GGL"
    assert card["thesis.table-5-1.1"] == "later"
    assert card["agic.table-1.1"] == "not implemented"


def test_numbers_are_judged_by_their_print_and_claims_are_not(published: pd.DataFrame) -> None:
    def close(value: float) -> Measured:
        return Measured(value, value, value, 7)

    found = {
        "agic.table-4.1": Finding(close(19.9084)),
        "agic.table-4.2": Finding(close(0.7276), direction_holds=True, note="DLG below InvG"),
        "fidel.text-abstract.2": Finding(close(13.4)),
        "fidel.text-III-B.4": Finding(close(10.0)),
        "fidel.fig-14.thirteen-of-twenty": Finding(close(13.6), against=13, relation="="),
        "thesis.table-5-6.1": Finding(close(49.97), convention="published"),
    }
    card = scorecard(published, found).set_index("id")
    assert card.loc[list(found), "verdict"].tolist() == [
        "reproduced", "direction", "reproduced", "reproduced", "differs", "reproduced",
    ]  # fmt: skip
    assert card.loc["agic.table-4.2", "reason"].endswith("(DLG below InvG)")
    row = card.loc["agic.table-4.1"]
    assert (row["measured"], row["ci_low"], row["ci_high"], row["n"]) == (19.9084, 19.9084, 19.9084, 7)


def test_conventions_are_never_mixed(published: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"table-5-6\.1: .* standard convention, .* published one"):
        scorecard(published, {"thesis.table-5-6.1": Finding(Measured(49.0, 48.0, 50.0, 5))})


def test_a_finding_must_belong_to_a_published_row(published: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"without a published row: fidel\.fig-99\.1"):
        scorecard(published, {"fidel.fig-99.1": Finding("1")})


def test_the_scorecard_survives_csv(published: pd.DataFrame, tables, facts, tmp_path: Path) -> None:
    card = scorecard(published, findings(tables, facts))
    card.to_csv(tmp_path / "scorecard.csv", index=False)
    again = pd.read_csv(tmp_path / "scorecard.csv", keep_default_na=False)
    assert again["published"].tolist() == card["published"].tolist()
    assert again["verdict"].tolist() == card["verdict"].tolist()
    assert len(again) == len(card)
