"""Recorded tables: valid by specs and numerics alone, and held to a sampled cell that is measured again."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cell import STEM, Cell
from nightly import daily
from project import ROOT
from recording import record_table

from leakbench.base.artefacts import read_csv, read_json, read_table, write_table
from leakbench.base.errors import UserError
from leakbench.base.provenance import machine
from leakbench.catalogue.resolve import Plan
from leakbench.jobs import again
from leakbench.jobs import recheck as module
from leakbench.jobs.recheck import recheck
from leakbench.jobs.record import numerics_of, outdated, planned, specs_digest
from leakbench.papers.reference import kept_digests, read_record

NUMERICS: dict[str, int] = {}


@pytest.fixture
def recorded(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the record of a table that today's code makes too. A test may raise NUMERICS."""
    made, _ = record_table(cell, [STEM], ["mse"], module, monkeypatch)
    monkeypatch.setattr(again, "numerics", lambda modules: NUMERICS)
    for place in (outdated.__globals__, vars(module)):
        monkeypatch.setitem(place, "numerics_of", lambda *given: NUMERICS)
    monkeypatch.setattr(module, "FEWEST", 2)
    NUMERICS.clear()
    return made


def changed(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Let today's code give other errors."""
    score = again.score

    def other(*given: Any, **more: Any) -> None:
        score(*given, **more)
        rows, facts = read_table(given[5])
        write_table(given[5], rows.assign(mse=rows["mse"] * factor), facts)

    monkeypatch.setattr(again, "score", other)


def age(cell: Cell, made: Path) -> str:
    return outdated(cell.root, "quick", "x", read_json(made, "", ""))


def found(cell: Cell) -> pd.DataFrame:
    return read_csv(cell.root / "reference/rechecked.csv", dtype=str)


def test_a_sample_with_the_recorded_numbers_is_noted(cell: Cell, recorded: Path) -> None:
    before = recorded.read_bytes()
    recheck(cell.root, "quick")
    recheck(cell.root, "quick")
    (line,) = found(cell).to_dict("records")
    told = {"scale": "quick", "experiment": "x", "sampled": STEM, "commit": "now", "device": machine()}
    assert (told | {"different": "0"}).items() <= line.items()
    assert int(line["identical"]) > 0
    assert recorded.read_bytes() == before


def test_another_number_is_noted_and_named_unless_it_is_within_a_thousandth(
    cell: Cell, recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        changed(patch, 1.0002)
        recheck(cell.root, "quick")
    assert int(found(cell)["within tolerance"].iloc[0]) > 0
    changed(monkeypatch, 3.0)
    with pytest.raises(UserError, match=r"x\.csv: 1 recorded tables have other numbers today.*NUMERICS"):
        recheck(cell.root, "quick")
    assert "mse: " in capsys.readouterr().out
    assert int(found(cell)["different"].iloc[0]) > 0


def test_inputs_are_listed_and_asked(cell: Cell, recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recheck(cell.root, "quick", targets=True)
    # Without the setting, attacks of other experiments on the same capture would run too.
    only, *files = capsys.readouterr().out.split()
    assert only == "only=x"
    assert f"results/quick/guesses/{STEM}.safetensors" in files
    recheck(cell.root, "quick", targets=True, only=["x"])
    assert "only=x" in capsys.readouterr().out
    with pytest.raises(UserError, match="--only z: not recorded at scale quick"):
        recheck(cell.root, "quick", only=["z"])
    (cell.results / f"guesses/{STEM}.safetensors").unlink()
    with pytest.raises(UserError, match="missing"):
        recheck(cell.root, "quick")


def no_table(made: Path) -> None:
    (made.parents[1] / "rechecked.csv").write_text("a,b\n1,2\n")


def other_settings(made: Path) -> None:
    made.write_text(json.dumps(read_json(made, "", "") | {"specs": "other"}))


def no_fault(made: Path) -> None: ...


NOTHING = r"--scale .*: nothing is recorded at it \(.*quick"


@pytest.mark.parametrize(
    ("fault", "asked", "says"),
    [
        (no_table, {}, r"rechecked\.csv: column 'scale' is missing"),
        (lambda made: made.with_suffix(".csv").unlink(), {}, r"x\.csv: is not the file that was recorded"),
        *(
            (other_settings, {"targets": True, "equivalent": equivalent},
             r"x\.json: recorded with other settings \(run it, then")
            for equivalent in (False, True)
        ),
        *(
            (no_fault, {"scale": scale, "targets": True}, NOTHING)
            for scale in ("nosuch", "../results/quick", "../reference/quick", ".")
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_again_is_one_line(
    fault: Any, asked: dict[str, Any], says: str, cell: Cell, recorded: Path
) -> None:
    fault(recorded)
    with pytest.raises(UserError, match=says):
        recheck(cell.root, **{"scale": "quick"} | asked)


def test_a_record_of_other_numerics_is_named_and_no_evidence(cell: Cell, recorded: Path) -> None:
    assert age(cell, recorded) == ""
    NUMERICS["peel"] = 2
    assert age(cell, recorded) == "measured with numerics 1 of peel, today's is 2"
    with pytest.raises(UserError, match=r"x\.json: measured with numerics 1 of peel, today's is 2 \(run it"):
        recheck(cell.root, "quick", targets=True)
    recorded.write_text(json.dumps(read_json(recorded, "", "") | {"numerics": {"peel": 3}}))
    assert age(cell, recorded) == "measured with numerics 3 of peel, today's is 2"


def test_equivalent_numerics_keep_a_record_valid(
    cell: Cell, recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    NUMERICS["peel"] = 2
    # A paired difference wants trials: those of each round and client count here.
    monkeypatch.setattr(module, "paired", lambda a, b, fate: (0.0, *bounds, 10))
    bounds = (-1e-9, 1e-9)
    recheck(cell.root, "quick", equivalent=True)
    (shown,) = read_record(recorded.with_suffix(".csv"))["equivalent"]
    assert (shown["numerics"], shown["sampled"]) == ({"peel": 2}, STEM)
    assert shown["differences"]["attack, mse"]["n"] == 10
    assert age(cell, recorded) == ""
    NUMERICS["peel"] = 3
    assert age(cell, recorded) == "measured with numerics 1 of peel, today's is 3"
    monkeypatch.setattr(module, "FEWEST", 11)
    before = recorded.read_bytes()
    few = {"a, mse": module.Difference(difference=0.0, low=0.0, high=0.0, n=10, bound=1.0)}
    assert not module._keep(cell.root, recorded.with_suffix(".csv"), "a", few, {"peel": 3})
    assert recorded.read_bytes() == before
    monkeypatch.setattr(module, "FEWEST", 2)
    bounds = (-1.0, 1e-9)
    before = recorded.read_bytes()
    with pytest.raises(UserError, match=r"x\.csv: 1 recorded tables have other numbers"):
        recheck(cell.root, "quick", equivalent=True)
    assert "not equivalent" in capsys.readouterr().out
    assert recorded.read_bytes() == before


def test_the_paired_difference_is_of_the_same_trials(cell: Cell, recorded: Path) -> None:
    kept = module._trials(recorded.with_suffix(".csv"))
    other = kept.sample(frac=1.0, random_state=1).assign(value=kept["value"] + 0.25)
    (found,) = module._paired(other, kept).values()
    assert found.difference == pytest.approx(0.25)
    assert found.bound == pytest.approx(kept["value"].mean() / 8)
    assert module._paired(other.assign(trial="another"), kept) == {}


def test_too_few_trials_show_nothing(cell: Cell, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    NUMERICS["peel"] = 2
    monkeypatch.setattr(module, "FEWEST", 1000)
    with pytest.raises(UserError, match=r"x\.csv: no attack of 1000 trials to pair"):
        recheck(cell.root, "quick", equivalent=True)
    recorded.with_suffix(".parquet").unlink()
    made = read_json(recorded, "", "") | {"files": kept_digests(recorded.with_suffix(".csv"))}
    recorded.write_text(json.dumps(made))
    with pytest.raises(UserError, match=r"x\.csv: has no trials to pair"):
        recheck(cell.root, "quick", equivalent=True)


def test_a_record_follows_from_the_specs_that_its_experiment_needs_alone() -> None:
    asked = planned(ROOT, "quick")
    before = specs_digest(asked, "fidel-figure-13")
    beside = replace(asked, specs=asked.specs | {"generator/mnist/_any/other/0": {"generator": {}}})
    assert specs_digest(beside, "fidel-figure-13") == before
    own = next(name for name in asked.needed("fidel-figure-13") if name.startswith("capture/"))
    changed = replace(asked, specs=asked.specs | {own: asked.specs[own] | {"more": 1}})
    assert specs_digest(changed, "fidel-figure-13") != before


def test_numerics_of_a_part_concern_the_records_that_used_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from leakbench.base import numerics as rule
    from leakbench.base.code import PACKAGE

    used = "attacks/fidel", "metrics/pearson", "federation/training/fit", "networks/victims/fcnn"
    others = "attacks/spear", "metrics/lpips", "datasets/idx"
    files = {name: PACKAGE / f"{name}.py" for name in (*used, *others)}
    assert all(file.is_file() for file in files.values())
    monkeypatch.setattr(rule, "declared", lambda: dict.fromkeys(files.values(), 2))
    found = numerics_of(planned(ROOT, "quick"), "fidel-figure-13")
    assert found == {files[name].stem: 2 for name in used}


RUNS = sorted(path.name for path in (ROOT / "reference").glob("*/"))


# To plan a whole scale with other seeds takes seconds. By day one of these stands for all.
@pytest.mark.parametrize(
    "run", daily(RUNS, [run for run in RUNS if "-seed" not in run or run.endswith("-seed1")])
)
def test_every_record_is_valid_today(run: str) -> None:
    """A change of numbers that is meant is measured before it lands: NUMERICS and new records go together."""
    tables = module.recorded(ROOT / "reference" / run)
    ages = {table.stem: outdated(ROOT, run, table.stem, read_record(table)) for table in tables}
    assert {name: age for name, age in ages.items() if age} == {}


def test_a_column_that_other_conditions_need_does_not_hide_a_line(cell: Cell, recorded: Path) -> None:
    table = recorded.with_suffix(".csv")
    table.write_text(pd.read_csv(table).assign(iterations=0).to_csv(index=False))
    recorded.write_text(json.dumps(json.loads(recorded.read_text()) | {"files": kept_digests(table)}))
    recheck(cell.root, "quick")
    (line,) = found(cell).to_dict("records")
    assert int(line["identical"]) > 0


def test_all_seeds_of_a_condition_are_sampled_together() -> None:
    studies = [f"plane/perceptron/{kind}/none/{seed}" for kind in ("code", "equations") for seed in range(3)]
    asked = Plan("quick", {"x": []}, {}, {"table/x": {"cells": [], "studies": studies}}, {"x": []})
    sample = module._sampled(asked, "x", random.Random(1))
    assert len(sample) == 3
    assert len({stem.rpartition("/")[0] for stem in sample}) == 1
