"""`leakbench plan` prints the jobs of a run, and costs that add up to what a budget counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planning import MATCHING, planned

from leakbench.catalogue import costs
from leakbench.catalogue.load import load_kind
from leakbench.jobs import plan as module
from leakbench.jobs.plan import plan
from tests.unit.catalogue.conftest import ENTRIES

LONG = "an-experiment-with-a-name-of-more-than-28-characters"


@pytest.fixture
def printed(
    root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Return a function that gives the lines that `plan` prints of the small catalogue."""
    monkeypatch.setattr(module, "measured", lambda: costs.REFERENCE)
    monkeypatch.delenv("LEAKBENCH_DATA", raising=False)

    def lines(changes: dict[str, dict[str, Any]]) -> list[str]:
        load_kind.cache_clear()
        plan(root(changes), "quick")
        return capsys.readouterr().out.splitlines()

    return lines


def test_jobs_are_counted_and_not_specs(printed: Callable[..., list[str]]) -> None:
    found = printed({
        "datasets/unused": ENTRIES["datasets/d"],
        "experiments/nothing": ENTRIES["experiments/e"],
        "scales/quick": {"left_out": {"nothing": "for a test"}},
    })  # fmt: skip
    assert found[0] == "scale quick: 2 experiments, 8 cells on 1 data sets"
    counts = {verb: int(count) for count, verb in (line.split() for line in found[1 : found.index("")])}
    # Neither a data set that no cell uses nor an experiment without a result has a job.
    assert counts == {
        "fetch": 1, "train": 4, "capture": 4, "attack": 8, "score": 4, "table": 1, "figure": 1,
        "scorecard": 1,
    }  # fmt: skip


def test_the_costs_hold_the_overhead_that_a_budget_counts(
    printed: Callable[..., list[str]], root: Callable[..., Path]
) -> None:
    many = {"experiments/e": {"seeds": [*range(100)]}}
    (line,) = (line for line in printed(many) if line.startswith("all, shared jobs once"))
    specs = planned(root(many)).specs
    works = costs.works(specs, {"d": 60})
    jobs = len(works) + sum(name.startswith("score/") for name in specs)
    took = sum(work.seconds() for work in works.values()) + jobs * costs.JOB + costs.EXPERIMENT
    assert line.split()[-3:] == ["400", f"{took / 60:.1f}", f"{took / 60:.1f}"]
    assert jobs * costs.JOB > 60


def test_no_name_breaks_the_columns(printed: Callable[..., list[str]]) -> None:
    slow = {"attacks/slow": {"summary": "x"} | MATCHING}
    found = printed({f"experiments/{LONG}": ENTRIES["experiments/e"]} | slow)
    head, *lines = found[found.index("") + 1 :]
    assert [line.split()[0] for line in lines] == [LONG, "e", "all,"]
    assert all(line[: len(head)].rstrip()[-1].isdigit() and len(line) >= len(head) for line in lines)
    assert {line.index(" ", len(LONG)) for line in lines if line.startswith(LONG)} == {len(LONG)}


def test_each_reason_is_told_with_the_number_of_its_cells(printed: Callable[..., list[str]]) -> None:
    few = {"e/*/v/*/a/*": "too slow", "e/*/v/*/b/0": "too dull"}
    found = printed({"scales/quick": {"left_out": few}})
    lines = [line.split(maxsplit=2) for line in found if line.startswith("e ")]
    assert [line[1:] for line in lines[1:]] == [["2", "too slow"], ["1", "too dull"]]
    (alone,) = (
        line for line in printed({"scales/quick": {"left_out": {"e/*/v/*": "why"}}}) if line[:2] == "e "
    )
    assert alone.endswith("  why")
