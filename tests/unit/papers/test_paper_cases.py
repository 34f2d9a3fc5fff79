"""What the checks and claims of the thesis' works decide on small tables (paper_cases.yaml)."""

from pathlib import Path
from typing import Any

import grnn_tables
import pytest
import thesis_world
import yaml
from spread import spread
from worlds import KNOWN, judged

from leakbench.papers.scorecard.evidence import Evidence

CASES = yaml.safe_load(Path(__file__).with_name("paper_cases.yaml").read_text())


def of_grnn(experiment: str, half: float = 1e-3, **said: Any) -> dict[str, Any]:
    """Return a line of ten trials, or of as many as it says."""
    mean = said.pop("mean")
    ends = {"ci_low": mean - half, "ci_high": mean + half}
    return grnn_tables.line(experiment, said.pop("metric"), mean, **ends | said)


def card_of(case: dict[str, Any]) -> Any:
    told = {name: spread(rows) for name, rows in case["lines"].items()}
    if case["work"] == "grnn":
        lines = [of_grnn(name, **row) for name, rows in told.items() for row in rows]
        return grnn_tables.card(lines).frame().set_index("id")
    tables = {name: thesis_world.lines(name, rows) for name, rows in told.items()}
    return judged(case["work"], Evidence("paper", tables, known=KNOWN))


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["shows"]))
def test_a_work_says_of_tables(case: dict[str, Any]) -> None:
    found = card_of(case)
    for key, wanted in case["rows"].items():
        number = isinstance(wanted.get("measured"), float | int)
        told = wanted | ({"measured": pytest.approx(wanted["measured"])} if number else {})
        assert found.loc[key, [*wanted]].to_dict() == told, key
