"""Why a statement has no measurement, as the scorecard says it."""

from pathlib import Path

from tests_world import CLAIMS, card, evidence, paper, tabled

from leakbench.papers.scorecard.evidence import Evidence


def test_why_nothing_was_measured_names_absent_data_and_the_cost(tmp_path: Path) -> None:
    run = evidence({}, absent={"tiny-table-1": {"every cell": "needs a longer run"}})
    costs = {"tiny-table-1": {"digits/v/f/none/fast/0": 600.0, "photos/v/f/none/fast/0": 60.0}}
    found = card(paper(tmp_path), run, costs=costs, missing={"digits": "nobody has it"})
    reason = found.loc["tiny.table-1.1", "reason"]
    assert reason == (
        "needs a longer run; digits is absent too: nobody has it; at most about 10 core-minutes at the "
        "published size"
    )


def test_a_statement_on_many_cells_does_not_cost_its_whole_experiment(tmp_path: Path) -> None:
    run = evidence({}, absent={"tiny-table-1": {"every cell": "needs a longer run"}})
    costs = {"tiny-table-1": {"digits/v/f/none/fast/0": 600.0}}
    claim = CLAIMS["claims"][0] | {"read": {"experiment": "tiny-table-1", "metric": "psnr"}}
    found = card(paper(tmp_path, claims={"claims": [claim]}), run, costs=costs)["reason"]
    assert "10 core-minutes" in found["tiny.table-1.1"]
    assert "core" not in found["tiny.table-1.fast-better"]


def test_why_nothing_was_measured_is_said_by_the_longest_run_that_states_it(tmp_path: Path) -> None:
    short = evidence({}, absent={"tiny-table-1": {"every cell": "this scale stops at a minute"}})
    stated = evidence({}, "paper", absent={"tiny-table-1": {"digits/v/f/none/fast/0": "nobody has digits"}})
    silent = evidence({}, "paper")

    def found(*scales: Evidence) -> str:
        return str(card(paper(tmp_path), *scales).loc["tiny.table-1.1", "reason"])

    assert found(stated, short) == "nobody has digits"
    assert found(silent, short) == "this scale stops at a minute"
    # Whatever is measured, however short, is shown.
    measured = tabled()
    assert card(paper(tmp_path), stated, measured).loc["tiny.table-1.1", "verdict"] != "not-run"


def test_a_statement_has_the_reasons_of_its_own_cell(tmp_path: Path) -> None:
    cells = {f"digits/v/f/none/{attack}/0": f"{attack} takes an hour" for attack in ("fast", "slow")}
    found = card(paper(tmp_path), evidence({}, absent={"tiny-table-1": cells}))["reason"]
    assert found["tiny.table-1.1"] == "fast takes an hour"
    assert found["tiny.table-1.2"] == "slow takes an hour"
    # Where nothing is known of its own cell, the others may say why the experiment did not run.
    others = {"digits/v/f/none/other/0": "no time"}
    assert card(paper(tmp_path), evidence({}, absent={"tiny-table-1": others}))["reason"].iloc[0] == "no time"


def test_many_reasons_are_counted_instead_of_listed() -> None:
    def why(number: int) -> str:
        cells = {f"digits/v/f/none/a{cell}/0": f"reason {cell}" for cell in range(number)}
        return evidence({}, absent={"tiny-table-1": cells | {"again": "reason 0"}}).why("tiny-table-1")

    assert why(1) == "reason 0"
    assert why(3) == "reason 0; reason 1; reason 2"
    assert why(7) == "reason 0; reason 1; 5 more reasons"
