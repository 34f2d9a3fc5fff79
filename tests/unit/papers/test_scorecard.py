"""From a paper's folder and our tables to verdicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests_world import CLAIMS, MAP, PAPER, PRINT, TRUE, card, evidence, lines, paper, tabled, trials

from leakbench.base.errors import UserError
from leakbench.papers.scorecard.evidence import Lines
from leakbench.papers.scorecard.recorded import joined
from leakbench.papers.scorecard.scorecard import COLUMNS


def test_a_world_in_which_the_paper_is_true_reproduces_it(tmp_path: Path) -> None:
    found = card(paper(tmp_path), tabled())
    assert [*found.columns] == [name for name in COLUMNS if name != "id"]
    assert found["verdict"].tolist() == ["reproduced", "reproduced", "reproduced", "not-run", "reproduced"]
    assert found["measured"].tolist()[:3] == pytest.approx([30, 20, 25])
    assert found.loc["tiny.table-1.4", "reason"].startswith("not run by the source either")
    assert set(found["class"]) == {"result"}
    assert found["scale"].tolist()[0] == "quick"


def test_a_headline_has_the_measured_value_and_stands_only_where_there_is_an_interval(tmp_path: Path) -> None:
    claim = CLAIMS["claims"][0] | {"headline": "Fast is {value:.0f} dB better."}
    papers = paper(tmp_path, claims=CLAIMS | {"claims": [claim]})
    found = card(papers, tabled())
    row = found.loc["tiny.table-1.fast-better"]
    assert row["headline"] == f"Fast is {row['measured']:.0f} dB better."
    assert set(found["headline"]) == {"", row["headline"]}
    few = TRUE | {
        ("digits", kind, "psnr"): trials(level, 1, 2) for kind, level in (("fast", 30), ("slow", 20))
    }
    assert set(card(papers, tabled(few))["headline"]) == {""}


def test_a_changed_cell_changes_its_own_rows_alone(tmp_path: Path) -> None:
    papers = paper(tmp_path)
    cells = TRUE | {("photos", "fast", "psnr"): trials(5, 1, 20, 2)}
    before, after = (card(papers, tabled(each)) for each in (TRUE, cells))
    changed = before["verdict"] != after["verdict"]
    assert changed[changed].index.tolist() == ["tiny.table-1.3"]
    assert after.loc["tiny.table-1.3", "verdict"] == "differs"


def test_a_value_that_is_off_keeps_its_direction_against_the_row_that_it_is_ordered_against(
    tmp_path: Path,
) -> None:
    cells = TRUE | {("digits", "fast", "psnr"): trials(40, 1, 20)}
    found = card(paper(tmp_path), tabled(cells))
    assert found.loc["tiny.table-1.1", "verdict"] == "direction"
    # The order is read from the print: were slow printed better, the same numbers would have no direction.
    turned = PRINT.replace(",20.0,", ",35.0,")
    found = card(paper(tmp_path, print=turned), tabled(cells))
    assert found.loc["tiny.table-1.1", "verdict"] in ("differs", "inconclusive")


def test_an_interval_of_a_share_ends_where_shares_end(tmp_path: Path) -> None:
    claim = CLAIMS["claims"][0] | {
        "read": {"experiment": "tiny-table-1", "dataset": "digits", "attack": "fast"},
        "quantity": "at(metric='label_accuracy')", "threshold": 0.5,
    }  # fmt: skip
    shares = {("digits", "fast", "label_accuracy"): np.array([1.0] * 9 + [0.97])}
    made = lines("tiny-table-1", TRUE | shares)
    place = made.frame["metric"] == "label_accuracy"
    made.frame.loc[place, ["ci_low", "ci_high"]] = [0.99, 1.004]
    row = card(paper(tmp_path, claims={"claims": [claim]}), evidence({"tiny-table-1": made})).loc[claim["id"]]
    assert (row["measured"], row["ci_low"], row["ci_high"]) == (pytest.approx(0.997), 0.99, 1.0)
    # PSNR may be above the 60 dB that verdicts assume.
    exact = TRUE | {("digits", "fast", "psnr"): trials(59, 6, 10)}
    row = card(paper(tmp_path), tabled(exact)).loc["tiny.table-1.1"]
    assert row["ci_high"] > 60


def test_a_row_that_is_measured_on_a_part_of_a_set_says_which_and_what_follows(tmp_path: Path) -> None:
    part = {"partial": {"photo*": "62 of 5,749 people, so that labels are easier"}}
    own = tabled()
    found = card(paper(tmp_path, paper=PAPER | part), own)["reason"]
    words = "photos is a part: 62 of 5,749 people, so that labels are easier"
    assert [key for key, reason in found.items() if words in reason] == ["tiny.table-1.3"]
    assert not card(paper(tmp_path), own)["reason"].str.contains("is a part").any()


WHY = {
    "hypothesis": "the print is of longer runs",
    "variant": "a run of twice the length",
    "outcome": "no change",
}


def test_a_row_that_differs_says_what_was_suspected_and_what_the_test_showed(tmp_path: Path) -> None:
    cells = TRUE | {("photos", "fast", "psnr"): trials(5, 1, 20, 2)}
    own = tabled(cells)

    def examined(**files: object) -> pd.Series:
        return card(paper(tmp_path, **files), own)["examined"]

    assert examined()["tiny.table-1.3"] == "Not examined yet."
    # An entry of a row that does not differ here says nothing here.
    found = examined(differs={"tiny.table-1.3": WHY, "tiny.table-1.1": WHY})
    assert found["tiny.table-1.3"] == (
        "Hypothesis: the print is of longer runs. Tested by: a run of twice the length. Outcome: no change."
    )
    assert set(found.drop("tiny.table-1.3")) == {""}
    untested = examined(differs={"tiny.table-1.3": {"hypothesis": WHY["hypothesis"]}})
    assert untested["tiny.table-1.3"] == "Hypothesis: the print is of longer runs. Not tested yet."


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"values": trials(30, 1, 4)}, "4 independent trials"),
        ({"values": trials(30, 1, 20), "iterations": 30}, "30 % of the published length"),
    ],
)
def test_too_few_trials_or_too_short_a_run_decide_nothing(change: dict, reason: str, tmp_path: Path) -> None:
    cells = TRUE | {("digits", "fast", "psnr"): change}
    found = card(paper(tmp_path), tabled(cells))
    assert found.loc["tiny.table-1.1", "verdict"] == "inconclusive"
    assert reason in found.loc["tiny.table-1.1", "reason"]
    # Nor does an ordering with unequal budgets.
    assert found.loc["tiny.table-1.fast-better", "verdict"] == "inconclusive"


def test_lengths_bind_in_a_table_as_it_is_read_from_its_file(tmp_path: Path) -> None:
    """An empty cell of a CSV file is NaN, and stands for no baseline."""
    short = {"values": TRUE["digits", "fast", "psnr"], "iterations": 30}
    made = lines("tiny-table-1", TRUE | {("digits", "fast", "psnr"): short})
    made.frame["baseline"] = float("nan")
    row = card(paper(tmp_path), evidence({"tiny-table-1": made})).loc["tiny.table-1.1"]
    assert row["verdict"] == "inconclusive"
    assert "after 30 of 100 iterations" in row["reason"]


STEM = "digits/v/f/none/fast/0"


def test_a_short_run_that_is_shown_to_have_settled_decides_and_says_so(tmp_path: Path) -> None:
    short = {"values": TRUE["digits", "fast", "psnr"], "iterations": 3}
    made = lines("tiny-table-1", TRUE | {("digits", "fast", "psnr"): short})

    def fast(falls: list[float], stem: str = STEM) -> pd.Series:
        own = evidence({"tiny-table-1": made}, falls={"tiny-table-1": {stem: falls}})
        return card(paper(tmp_path), own).loc["tiny.table-1.1"]

    found = fast([0.0, 0.005])
    assert found["verdict"] == "reproduced"
    assert "after 3 of 100 iterations, when it had settled" in found["reason"]
    for found in (fast([0.0, 0.02]), fast([]), fast([0.0], "digits/v/f/none/slow/0")):
        assert found["verdict"] == "inconclusive"
        assert "settled" not in found["reason"]


@pytest.mark.parametrize(("moved", "word"), [(0.1, "reproduced"), (1.0, "inconclusive")])
def test_images_on_the_way_must_have_settled_too(moved: float, word: str, tmp_path: Path) -> None:
    values = TRUE["digits", "fast", "psnr"]
    made = lines("tiny-table-1", TRUE | {("digits", "fast", "psnr"): {"values": values, "iterations": 40}})
    made.frame.loc[len(made.frame)] = made.frame.iloc[0].to_dict() | {
        "baseline": "snapshot",
        "iterations": 20,
    }
    way = made._trials[made._trials["line"] == 0].assign(
        line=len(made.frame) - 1, value=lambda t: t["value"] + moved
    )
    made = Lines(made.name, made.frame, pd.concat([made._trials, way], ignore_index=True))
    own = evidence({"tiny-table-1": made}, falls={"tiny-table-1": {STEM: [0.0]}})
    assert card(paper(tmp_path), own).loc["tiny.table-1.1", "verdict"] == word


def test_a_success_must_beat_the_null_baselines(tmp_path: Path) -> None:
    table = MAP["table-1"] | {"success": True}
    made = lines("tiny-table-1", TRUE)
    made.frame.loc[len(made.frame)] = made.frame.iloc[0].to_dict() | {
        "baseline": "dataset-mean",
        "mean": 31.0,
    }
    found = card(paper(tmp_path, measured={"table-1": table}), evidence({"tiny-table-1": made}))
    assert found.loc["tiny.table-1.1", "verdict"] == "inconclusive"
    assert "null baselines" in found.loc["tiny.table-1.1", "reason"]
    assert found.loc["tiny.table-1.2", "verdict"] == "reproduced"


def test_the_longest_evidence_that_decides_wins_and_the_run_stands_beside_it(tmp_path: Path) -> None:
    short = {key: {"values": value[:2], "iterations": 30} for key, value in TRUE.items()}
    run = tabled(short)
    long = tabled({("digits", "fast", "psnr"): TRUE["digits", "fast", "psnr"]}, 
        "paper",
        origins={"tiny-table-1": ("paper", "a large machine", "abc")})  # fmt: skip
    found = card(paper(tmp_path), long, run)
    row = found.loc["tiny.table-1.1"]
    assert (row["verdict"], row["scale"], row["device"], row["commit"]) == (
        "reproduced",
        "paper",
        "a large machine",
        "abc",
    )
    assert row["here"] == pytest.approx(TRUE["digits", "fast", "psnr"][:2].mean())
    assert row["here_n"] == 2
    assert found.loc["tiny.table-1.2", "scale"] == "quick"


def test_a_shorter_run_is_no_second_chance_for_what_a_longer_one_left_open(tmp_path: Path) -> None:
    """Enough trials at full length, too wide for a verdict, against a short run that would be reproduced."""
    place = ("digits", "fast", "psnr")
    wide = {place: trials(31, 9, 20)}
    long = tabled(wide, "paper")
    short = tabled()
    papers = paper(tmp_path)
    assert card(papers, short).loc["tiny.table-1.1", "verdict"] == "reproduced"
    row = card(papers, long, short).loc["tiny.table-1.1"]
    assert (row["verdict"], row["scale"]) == ("inconclusive", "paper")
    assert "too wide" in row["reason"]
    assert row["here"] == pytest.approx(TRUE[place].mean())
    # Too few trials are no look at all.
    few = tabled({place: wide[place][:4]}, "paper")
    row = card(papers, few, short).loc["tiny.table-1.1"]
    assert (row["verdict"], row["scale"]) == ("reproduced", "quick")


def test_recorded_rows_of_the_same_cell_count_for_another_experiment(tmp_path: Path) -> None:
    """One cell is one job, whatever table shows it."""
    table = MAP["table-1"] | {"victim": "v", "federation": "f"}
    cells = {("digits", "fast", "psnr"): TRUE["digits", "fast", "psnr"]}
    origins = {"tiny-longer": ("paper", "large", "abc")}
    long = evidence({"tiny-longer": lines("tiny-longer", cells)}, "paper", origins=origins)
    found = card(paper(tmp_path, measured={"table-1": table}), long, evidence({}))
    assert (found.loc["tiny.table-1.1", "verdict"], found.loc["tiny.table-1.1", "scale"]) == (
        "reproduced",
        "paper",
    )


def test_a_statement_may_rest_on_experiments_that_are_recorded_at_different_scales(tmp_path: Path) -> None:
    """No scale has both experiments of the claim; together they have."""
    parts = [{key: value for key, value in TRUE.items() if key[1] == name} for name in ("fast", "slow")]
    claim = CLAIMS["claims"][0] | {
        "read": {"dataset": "digits", "metric": "psnr"},
        "quantity": "at(experiment=of['fast'], attack='fast') - at(experiment=of['slow'], attack='slow')",
    }  # fmt: skip
    scales = [
        evidence({name: lines(name, cells)}, scale, known=None, origins={name: (scale, device, "abc")})
        for name, cells, scale, device in [
            ("tiny-table-1", parts[0], "paper", "large"), ("tiny-longer", parts[1], "standard", "small"),
        ]
    ]  # fmt: skip
    of = {"fast": "tiny-table-1", "slow": "tiny-longer"}
    papers = paper(tmp_path, claims={"let": {"of": of}, "claims": [claim]})
    assert card(papers, *scales, evidence({}, known=None)).loc[claim["id"], "verdict"] == "not-run"
    row = card(papers, *scales, joined(scales), evidence({}, known=None)).loc[claim["id"]]
    assert (row["verdict"], row["scale"], row["device"]) == ("reproduced", "paper; standard", "large; small")
    # A record of a longer run stands before that of a shorter one.
    lower = {key: value - 15 for key, value in parts[0].items()}
    more = tabled(lower, "standard", known=None)
    assert joined([*scales, more]).lines["tiny-table-1"] is scales[0].lines["tiny-table-1"]


def test_a_stand_in_serves_claims_alone_and_is_counted_once(tmp_path: Path) -> None:
    claim = CLAIMS["claims"][0] | {
        "read": {"experiment": "tiny-table-1", "metric": "psnr", "attack": "fast"},
        "quantity": "mean([at(dataset='digits'), at(dataset='photos')])", "threshold": 29,
    }  # fmt: skip
    papers = paper(tmp_path, claims={"claims": [claim]}, paper=PAPER | {"stand_ins": {"photos": "digits"}})
    cells = {("digits", "fast", "psnr"): TRUE["digits", "fast", "psnr"]}
    found = card(papers, tabled(cells))
    row = found.loc["tiny.table-1.fast-better"]
    assert row["measured"] == pytest.approx(30)
    assert "digits stands in for photos" in row["reason"]
    assert found.loc["tiny.table-1.3", "verdict"] == "not-run"


def test_a_value_of_a_map_may_be_a_map(tmp_path: Path) -> None:
    def measured(attack: dict[str, Any]) -> pd.DataFrame:
        papers = paper(tmp_path, measured={"table-1": MAP["table-1"] | {"attack": attack}}, claims=None)
        return card(papers, tabled())

    flat = {"by": "attack", "Fast": "fast", "Slow": "slow"}
    inner = {"by": "dataset", "Digits": flat, "else": flat}
    assert measured(inner)["measured"].tolist()[:3] == measured(flat)["measured"].tolist()[:3]
    with pytest.raises(
        UserError, match=r"table-1\.attack\.Digits: no value for 'Slow', which tiny\.table-1\.2"
    ):
        measured(inner | {"Digits": {"by": "attack", "Fast": "fast"}})


def test_printed_outcomes_are_judged_update_by_update(tmp_path: Path) -> None:
    text = PRINT.replace("psnr,30.0", "psnr,success").replace("psnr,20.0", "psnr,failure")
    metric = {"by": "printed", "success": "ssim", "failure": "ssim", "number": "psnr", "else": None}
    cells = {
        ("digits", attack, metric): np.full(10, value)
        for attack, value in (("fast", 0.9), ("slow", 0.1))
        for metric in ("ssim", "identified")
    } | {("photos", "fast", "psnr"): TRUE["photos", "fast", "psnr"]}
    papers = paper(
        tmp_path,
        print=text,
        measured={"table-1": MAP["table-1"] | {"metric": metric, "against": {}}},
        claims=None,
    )
    found = card(papers, tabled(cells))
    assert found["measured"].tolist()[:2] == ["success", "failure"]
    assert found["verdict"].tolist()[:2] == ["reproduced", "reproduced"]
    # They say what they rest on as numbers do.
    assert found["n"].tolist()[:2] == [10, 10]
    assert len(found[["scale", "device", "commit"]][:3].drop_duplicates()) == 1


def test_settings_arithmetic_and_doubts_are_classes_of_their_own(tmp_path: Path) -> None:
    rows = {
        "tiny.table-1.1": {"fact": "attacks.fast.lr"},
        "tiny.table-1.2": {
            "quantity": "printed('tiny.table-1.1') - 10",
            "class": "arithmetic",
            "tolerance": 0.5,
        },
    }
    doubt = CLAIMS["claims"][0] | {"id": "tiny.doubt-1.x", "item": "doubt-1"}
    papers = paper(
        tmp_path, measured={"table-1": MAP["table-1"] | {"rows": rows}}, claims={"claims": [doubt]}
    )
    found = card(papers, tabled(facts={"attacks.fast.lr": 30}))
    assert found["class"].tolist()[:2] == ["setting", "arithmetic"]
    assert found.loc["tiny.doubt-1.x", "class"] == "doubt"
    assert found["verdict"].tolist()[:2] == ["reproduced", "reproduced"]


def test_a_guard_leaves_the_value_and_takes_the_verdict(tmp_path: Path) -> None:
    table = MAP["table-1"] | {"needs": "own(attack='slow') >= 25 : the slow attack has found nothing"}
    found = card(paper(tmp_path, measured={"table-1": table}), tabled())
    row = found.loc["tiny.table-1.1"]
    assert (row["verdict"], row["measured"]) == ("inconclusive", pytest.approx(30))
    assert row["reason"].startswith("the slow attack has found nothing (measured 20)")


@pytest.mark.parametrize(
    ("quantity", "published", "measured"),
    [
        ('f\'{own(attack="fast"):.1f} to {own(attack="slow"):.2f}\'', "30.0 to 20.00", "30.0 to 20.00"),
        ("f'{values(\"attack\", attack=None)}'", "fast,slow", "fast,slow"),
        ('f\'{len(values("dataset", "attack", attack=None, dataset=None))}\'', "3", "3"),
        ("f'{word(\"attack\")}/{round(own() / 7)}'", "Fast/4", "Fast/4"),
        ("f'{printed(\"tiny.table-1.2\", 1) - 1}'", "19", "19"),
        ("'more' if own() > 29 else 'less'", "more", "more"),
    ],
)
def test_an_expression_may_give_words(quantity: str, published: str, measured: str, tmp_path: Path) -> None:
    rows = {"tiny.table-1.1": {"quantity": quantity}, "tiny.table-1.2": {"absent": "a list"}}
    papers = paper(
        tmp_path,
        print=PRINT.replace("psnr,30.0", f'psnr,"{published}"').replace("psnr,20.0", "psnr,10/20"),
        measured={"table-1": MAP["table-1"] | {"rows": rows, "against": {}}},
    )
    row = card(papers, tabled()).loc["tiny.table-1.1"]
    assert (row["measured"], row["verdict"]) == (measured, "reproduced")


def test_only_a_data_set_itself_counts_where_it_says_so(tmp_path: Path) -> None:
    claim = CLAIMS["claims"][0] | {"read": CLAIMS["claims"][0]["read"] | {"dataset": "paintings"}}
    for function, word in (("at", "reproduced"), ("only", "not-run")):
        claims = {"claims": [claim | {"quantity": f"{function}(attack='fast')"}]}
        papers = paper(tmp_path, claims=claims, paper=PAPER | {"stand_ins": {"paintings": "digits"}})
        found = card(papers, tabled())
        assert found.loc["tiny.table-1.fast-better", "verdict"] == word


CHECK = """from leakbench.papers.scorecard.checking import NotMeasured, exactly

def counted(evidence, row):
    if row.get("dataset") == "Photos":
        raise NotMeasured("nobody counts photos")
    return exactly(len(evidence.rows(dataset="digits", attack=None)))
"""


def test_a_check_says_what_no_expression_can(tmp_path: Path) -> None:
    rows = {"tiny.table-1.1": {"check": "counted", "tolerance": 50}, "tiny.table-1.3": {"check": "counted"}}
    papers = paper(tmp_path, checks=CHECK, measured={"table-1": MAP["table-1"] | {"rows": rows}})
    found = card(papers, tabled())
    assert (found.loc["tiny.table-1.1", "measured"], found.loc["tiny.table-1.1", "verdict"]) == (
        2.0,
        "reproduced",
    )
    assert found.loc["tiny.table-1.3", "reason"].startswith("nobody counts photos")


def test_rows_may_be_measured_by_way_of_each_other_but_not_in_a_circle(tmp_path: Path) -> None:
    rows = {"tiny.table-1.1": {"quantity": "measured('tiny.table-1.2') + 10"}}
    papers = paper(tmp_path, measured={"table-1": MAP["table-1"] | {"rows": rows}})
    found = card(papers, tabled())
    assert found.loc["tiny.table-1.1", "measured"] == pytest.approx(30)
    rows["tiny.table-1.2"] = {"quantity": "measured('tiny.table-1.1') - 10"}
    papers = paper(tmp_path, measured={"table-1": MAP["table-1"] | {"rows": rows}})
    with pytest.raises(UserError, match=r"depends on itself through \S+ → \S+"):
        card(papers, tabled())
