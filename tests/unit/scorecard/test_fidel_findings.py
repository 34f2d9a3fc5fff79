import copy
import math
from pathlib import Path

import pandas as pd
import pytest

from leakbench.errors import UserError
from leakbench.scorecard.fidel import findings
from leakbench.scorecard.measure import Measured
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard

PUBLISHED = Path(__file__).parents[3] / "published"


def fidel() -> pd.DataFrame:
    frame = read_published(PUBLISHED)
    return frame[frame["source"] == "fidel"]


def verdicts(tables, facts) -> pd.Series:
    return scorecard(fidel(), findings(tables, facts)).set_index("id")["verdict"]


def test_every_fidel_row_and_nothing_else_has_a_finding(tables, facts) -> None:
    assert set(findings(tables, facts)) == set(fidel()["id"])
    assert set(findings({}, {})) == set(fidel()["id"])


def test_full_tables_leave_nothing_unmeasured(tables, facts) -> None:
    found = findings(tables, facts)
    assert {key: finding.absent for key, finding in found.items() if finding.measured is None} == {}


def test_a_world_in_which_the_paper_holds(tables, facts) -> None:
    got = verdicts(tables, facts)
    # These contradict each other or the tables of that world, whatever is measured.
    other = {"fidel.fig-13.above-one", "fidel.table-4.5"}
    assert got[list(other)].tolist() == ["differs", "differs"]
    assert got[(got != "reproduced") & ~got.index.isin(other)].to_dict() == {}


def test_without_tables_and_facts_everything_is_not_run_with_a_reason() -> None:
    card = scorecard(
        fidel(), findings({}, {}, {"fidel-figure-13": {"every cell": "MNIST is not present"}})
    ).set_index("id")
    assert set(card["verdict"]) == {"not-run"}
    assert card.loc["fidel.text-abstract.1", "reason"] == "MNIST is not present"
    assert card.loc["fidel.fig-14.1", "reason"] == "no results of experiment fidel-figure-14"
    assert card.loc["fidel.text-III-B.2", "reason"] == "fact auxiliary_samples is not known"


def test_a_missing_condition_is_not_run_and_keeps_the_known_reason(tables, facts) -> None:
    tables["fidel-figure-13"] = tables["fidel-figure-13"].query("local_samples != 200")
    absent = {"fidel-figure-13": {"mnist/fcnn-relu-dropout/any/none/fidel/0": "quick scale stops at 100"}}
    finding = findings(tables, facts, absent)["fidel.fig-13.large-sets"]
    assert finding.measured is None
    assert finding.absent == "quick scale stops at 100"


def test_an_ambiguous_table_is_an_error(tables, facts) -> None:
    twice = pd.concat([tables["fidel-figure-9"], tables["fidel-figure-9"].assign(victim="fcnn-tanh")])
    with pytest.raises(UserError, match=r"fidel-figure-9: 2 rows match .* differ in victim"):
        findings(tables | {"fidel-figure-9": twice}, facts)


def scaled(table: pd.DataFrame, factor: float, **where: object) -> pd.DataFrame:
    chosen = pd.Series(True, index=table.index)
    for key, value in where.items():
        chosen &= table[key] == value
    table = table.copy()
    table.loc[chosen, ["mean", "ci_low", "ci_high"]] *= factor
    return table


@pytest.mark.parametrize(
    ("experiment", "factor", "where", "changed"),
    [
        (
            "fidel-figure-13", 0.9, {"victim": "fcnn-relu-dropout", "local_samples": 30},
            {"fidel.text-abstract.1": "direction", "fidel.text-V-B.1": "direction"},
        ),
        (
            "fidel-figure-13", 0.5, {"victim": "fcnn-relu-dropout"},
            {
                "fidel.text-abstract.1": "differs", "fidel.fig-13.dropout-raises": "differs",
                "fidel.text-VI.most-effective": "differs", "fidel.doubt-4.dropout-helps-attacker": "differs",
                "fidel.text-VII.complete": "differs",
            },
        ),
        (
            "fidel-figure-13", 40, {"victim": "fcnn-tanh"},
            {"fidel.fig-13.relu-above-others": "differs", "fidel.expectation.sigmoid-tanh": "differs"},
        ),
        (
            "fidel-figure-14", 0.9, {"local_samples": 20},
            {"fidel.text-abstract.2": "direction", "fidel.fig-14.thirteen-of-twenty": "differs"},
        ),
        (
            "fidel-figure-14", 0.0, {},
            {
                "fidel.text-abstract.2": "differs", "fidel.fig-14.falls-faster": "differs",
                "fidel.fig-14.small-sets": "differs",
            },
        ),
        (
            "fidel-figure-5", 0.9, {"metric": "pearson", "dataset": "cifar10"},
            {"fidel.fig-3.direction": "differs"},
        ),
        ("fidel-figure-9", 0.0, {"metric": "isolating_neurons"}, {"fidel.fig-9.isolates": "differs"}),
        (
            "fidel-figure-15", 0.5, {"metric": "usable_neurons"},
            {"fidel.fig-15.1": "direction", "fidel.fig-15.2": "direction"},
        ),
        ("fidel-training", 0.0, {"checkpoint": 30}, {"fidel.expectation.more-training": "differs"}),
        ("fidel-moving", 0.5, {}, {"fidel.expectation.moving-model": "differs"}),
    ],
)  # fmt: skip
def test_other_measurements_change_the_verdict(tables, facts, experiment, factor, where, changed) -> None:
    before = verdicts(tables, facts)
    assert set(before[list(changed)]) == {"reproduced"}
    tables[experiment] = scaled(tables[experiment], factor, **where)
    assert verdicts(tables, facts)[list(changed)].to_dict() == changed


def test_fewer_measurements_than_published_differ(tables, facts) -> None:
    tables["fidel-figure-13"]["n"] = 50
    assert verdicts(tables, facts)["fidel.fig-13.2"] == "differs"


def test_changed_facts_change_the_verdict(tables, facts) -> None:
    other = copy.deepcopy(facts)
    other["architectures"]["FCNN"]["layers"][1]["size"] = "64"
    other["architectures"]["CNN"]["layers"].pop()
    other["architectures"]["CNN"]["hyper"] = facts["architectures"]["CNN"]["hyper"] | {"batch_size": 128}
    other["architectures"]["generator-mnist"]["hyper"] = {"learning_rate": 0.001, "optimizer": "Adam"}
    other |= {"auxiliary_samples": 7000, "generator_minutes": {"mnist": 1.0, "cifar10": 11.0}}
    got, before = verdicts(tables, other), verdicts(tables, facts)
    assert set(got[got != before].index) == {
        "fidel.table-1.2", "fidel.text-III-A.1", "fidel.table-2.7", "fidel.table-2.11", "fidel.table-3.10",
        "fidel.table-3.11", "fidel.table-3.12", "fidel.text-III-B.2", "fidel.text-III-B.4",
    }  # fmt: skip


def test_table_4_as_printed_would_be_too_small(tables, facts) -> None:
    found = findings(tables, facts)
    measured = found["fidel.doubt-5.table-4-padding"].measured
    assert isinstance(measured, Measured)
    assert measured.value == 28
    reason = scorecard(fidel(), found).set_index("id").loc["fidel.table-4.5", "reason"]
    assert reason.startswith("padding is valid in ours")
    assert "CIFAR-10 needs 32" in reason


def test_an_undefined_ratio_does_not_pass(tables, facts) -> None:
    tables["fidel-figure-14"] = scaled(tables["fidel-figure-14"], 0.0)
    measured = findings(tables, facts)["fidel.fig-14.falls-faster"].measured
    assert isinstance(measured, Measured)
    assert math.isnan(measured.value)


def test_tables_read_back_from_csv_give_the_same(tables, facts, tmp_path: Path) -> None:
    def through_csv(name: str, table: pd.DataFrame) -> pd.DataFrame:
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        return pd.read_csv(tmp_path / f"{name}.csv")

    again = {name: through_csv(name, table) for name, table in tables.items()}
    assert verdicts(again, facts).equals(verdicts(tables, facts))
