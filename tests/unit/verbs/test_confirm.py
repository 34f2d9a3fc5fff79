"""Recorded tables of older code: the same program or a sample with the same numbers keeps them valid, and
nothing else does."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from cell import ORIGIN, SHARES, STEM, Cell, make_table
from project import ROOT

from leakbench.artefacts import read_json, read_table, write_table
from leakbench.catalogue.cell import Cell as CellOf
from leakbench.catalogue.cell import capture_of
from leakbench.catalogue.digest import digest
from leakbench.catalogue.resolve import Plan
from leakbench.catalogue.study import Study
from leakbench.errors import UserError
from leakbench.provenance import machine
from leakbench.reference import kept_digests
from leakbench.verbs import confirm as module
from leakbench.verbs import record as module_of_record
from leakbench.verbs.confirm import confirm
from leakbench.verbs.record import digests, outdated, planned

SPEC = {
    "cells": [STEM], "scale": "quick", "left_out": "", "cells_left_out": {}, "shares": SHARES,
    "experiment": {"seeds": [0], "metrics": ["mse"], "success": [], "client": None, "exhibit": None},
}  # fmt: skip


@pytest.fixture
def recorded(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the record of a table whose code is older than today's."""
    cell.score("mse")
    make_table(cell, [STEM], [cell.scores], metrics=["mse"])
    folder = cell.root / "reference/quick"
    folder.mkdir(parents=True)
    (folder / "x.csv").write_text((cell.results / "x.csv").read_text())
    made = {"device": machine(), "commit": "abc", "date": "2026-01-01", "specs": "same", "code": "old"}
    made |= {"versions": {}, "absent": {}, "files": kept_digests(folder / "x.csv")}
    (folder / "x.json").write_text(json.dumps(made))
    asked = Plan("quick", {"x": []}, {}, {"table/x": SPEC}, {"x": []})
    for where in (module, outdated.__globals__):
        for name, value in (("planned", lambda *given: asked), ("digests", lambda *given: ("same", "new"))):
            if isinstance(where, dict):
                monkeypatch.setitem(where, name, value)
            else:
                monkeypatch.setattr(where, name, value)
    monkeypatch.setattr(module, "changes", lambda *given: ("", []))
    monkeypatch.setattr(module, "sources", lambda asked, experiment: [])
    return folder / "x.json"


def changed(cell: Cell, factor: float) -> None:
    """Let today's code give other errors."""
    rows, facts = read_table(cell.scores)
    write_table(cell.scores, rows.assign(mse=rows["mse"] * factor), facts)


def age(cell: Cell, made: Path) -> str:
    return outdated(cell.root, "quick", "x", read_json(made, "", ""))


def test_a_sample_with_the_recorded_numbers_confirms_the_record(cell: Cell, recorded: Path) -> None:
    assert age(cell, recorded) == "recorded with an older version"
    confirm(cell.root, "quick")
    (entry,) = read_json(recorded, "", "")["confirmed"].values()
    assert entry["sampled"] == [STEM]
    assert entry["numbers"]["identical"] > 0
    assert entry["numbers"]["different"] == 0
    assert age(cell, recorded) == ""


def test_another_number_leaves_the_record_as_it_is(
    cell: Cell, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recorded.read_bytes()
    changed(cell, 3.0)
    confirm(cell.root, "quick")
    assert recorded.read_bytes() == before
    assert "x: not confirmed" in capsys.readouterr().out


def test_on_the_recorded_device_near_is_not_enough(cell: Cell, recorded: Path) -> None:
    changed(cell, 1.0002)
    confirm(cell.root, "quick")
    assert "confirmed" not in read_json(recorded, "", "")
    made: dict[str, Any] = read_json(recorded, "", "") | {"device": "another"}
    recorded.write_text(json.dumps(made))
    confirm(cell.root, "quick")
    assert read_json(recorded, "", "")["confirmed"]["new"]["numbers"]["within tolerance"] > 0


def test_the_same_program_confirms_a_record_and_nothing_is_run(
    cell: Cell, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def same(
        names: Sequence[str], commits: Sequence[str], known: Callable[[Mapping[str, bytes]], bool], *_: Any
    ) -> tuple[str, list[str]]:
        assert (names, commits) == (["a.py"], ["abc", "HEAD"])
        assert not known({"a.py": b"another"})
        return ("abc" if known({"a.py": b"its text"}) else "", [])

    monkeypatch.setattr(module, "sources", lambda asked, experiment: ["a.py"])
    monkeypatch.setattr(module, "changes", same)
    made = read_json(recorded, "", "") | {"code": digest({"a.py": hashlib.sha256(b"its text").hexdigest()})}
    recorded.write_text(json.dumps(made))
    cell.scores.unlink()
    confirm(cell.root, "quick", targets=True)
    assert capsys.readouterr().out == ""
    assert read_json(recorded, "", "") == made
    confirm(cell.root, "quick")
    assert "x: confirmed, the same program as abc" in capsys.readouterr().out
    assert read_json(recorded, "", "")["confirmed"]["new"]["same_program"] == "abc"
    assert age(cell, recorded) == ""


def test_what_attacks_alone_run_does_not_age_an_experiment_that_only_trains(
    cell: Cell, recorded: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study("plane", "perceptron", "code", "none", 0)
    specs = {
        "table/x": SPEC | {"cells": [], "studies": [study.stem]},
        f"study/{study.stem}": {"victim": {"module": "perceptron"}, "study": {}},
    }
    trains = Plan("quick", {"x": []}, {}, specs, {"x": [study]})
    monkeypatch.setattr(module, "planned", lambda *given: trains)
    monkeypatch.setattr(module, "Workflow", lambda *given, **more: SimpleNamespace(root=cell.root))
    monkeypatch.setattr(module, "differing", lambda *given: ["table"])
    for file in ("training/study.py", "victims/perceptron.py", "verbs/train.py", "tables/trained.py"):
        monkeypatch.setattr(module, "changes", lambda *given, file=file: ("abc", ["matching/loop.py", file]))
        confirm(cell.root, "quick", iterations=30)
        assert "x: not confirmed, by abc another table" in capsys.readouterr().out
    monkeypatch.setattr(module, "changes", lambda *given: ("abc", ["verbs/attack.py", "matching/loop.py"]))
    confirm(cell.root, "quick")
    assert "x: confirmed, the same program as abc" in capsys.readouterr().out


@pytest.fixture
def changed_code(cell: Cell, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let the code of an attack's engine and of scores change. Return what both programs are asked for.

    The first time they make the same, and then another table.
    """
    asked: list[dict[str, Any]] = []

    def both(flow: Any, experiment: str, samples: list[list[str]], commit: str, iterations: int) -> list[str]:
        asked.append({"of": experiment, "samples": samples, "commit": commit, "iterations": iterations})
        return ["table"] if len(asked) > 1 else []

    attack = {"attack": {"module": "gradient-matching", "objective": {"cosine": {}}, "generator": None}}
    victim = {"victim": {"module": "fcnn"}}
    needed = {f"attack/{STEM}": attack, f"capture/{ORIGIN}": victim, "train/made/victim/0": victim}
    specs = {"table/x": SPEC, f"score/{ORIGIN}": {"judges": []}} | needed
    plan = Plan("quick", {"x": [CellOf(*STEM.split("/")[:-1], 0)]}, {}, specs, {"x": []})
    for name, value in (
        ("changes", lambda *given: ("abc", ["matching/chain.py", "scoring/attack.py"])),
        ("planned", lambda *given: plan),
        ("Workflow", lambda *given, **more: SimpleNamespace(root=cell.root)),
        ("inputs_of", lambda flow, experiment, cells: [f"data of {' '.join(cells)}"]),
        ("differing", both),
    ):
        monkeypatch.setattr(module, name, value)
    return asked


def test_the_same_contents_after_a_few_iterations_confirm_a_record(
    cell: Cell, recorded: Path, changed_code: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    confirm(cell.root, "quick", targets=True, iterations=30)
    assert capsys.readouterr().out.splitlines() == ["only=x", f"data of {STEM}"]
    confirm(cell.root, "quick", iterations=30)
    assert changed_code == [{"of": "x", "samples": [[STEM]], "commit": "abc", "iterations": 30}]
    (entry,) = read_json(recorded, "", "")["confirmed"].values()
    assert (entry["same_bytes"], entry["iterations"], entry["sampled"]) == ("abc", 30, [STEM])
    assert age(cell, recorded) == ""


def test_other_contents_confirm_nothing(
    cell: Cell, recorded: Path, changed_code: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    changed_code.append({})
    before = recorded.read_bytes()
    confirm(cell.root, "quick", iterations=30)
    assert "x: not confirmed, by abc another table after 30 iterations" in capsys.readouterr().out
    assert recorded.read_bytes() == before


@pytest.mark.parametrize(
    ("commit", "file", "words"),
    [
        ("", "matching/chain.py", "git lacks the code"),
        ("abc", "generators/cvae.py", "none of its samples runs generators/cvae.py"),
    ],
)
def test_both_programs_are_no_proof_of_what_they_do_not_run(
    cell: Cell, recorded: Path, changed_code: list[dict[str, Any]], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, commit: str, file: str, words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "changes", lambda *given: (commit, [file]))
    confirm(cell.root, "quick", iterations=30)
    assert f"x: not compared, {words}" in capsys.readouterr().out
    assert not changed_code
    assert "confirmed" not in read_json(recorded, "", "")


def test_the_sample_grows_until_it_runs_what_has_changed_and_has_every_victim_and_federation(
    recorded: Path,
) -> None:
    stems = [f"{of}/victim/p/none/a/0" for of in "abcd"]
    others = ["a/other/p/none/a/0", "a/victim/q/none/a/0"]
    kinds = ["cosine", "cosine", "squares", "squares", "cosine", "cosine", "norm"]
    of_victim = {"victim": {"module": "fcnn"}}
    cells = [*stems, *others, STEM]
    specs: dict[str, Any] = {"table/x": {"cells": cells}, "train/a/other/0": of_victim}
    for stem, kind in zip(cells, kinds, strict=True):
        attack = {"module": "gradient-matching", "objective": {kind: {}}, "generator": None}
        origin, of = capture_of(stem), stem[: stem.index("/")]
        specs |= {f"attack/{stem}": {"attack": attack}, f"capture/{origin}": of_victim, f"score/{origin}": {}}
        specs |= {f"train/{of}/victim/0": of_victim}
    asked = Plan("quick", {"x": []}, {}, specs, {"x": []})
    older = module._Older(recorded.with_suffix(".csv"), {"absent": {STEM: "why"}}, asked, "new")
    changed = ["objectives/squares.py", "objectives/norm.py", "no.py"]
    samples, left = module._covering(older, changed)
    found = [stem for (stem,) in samples]
    assert {*others} <= {*found}
    assert sum(stem in stems[2:] for stem in found) == 1
    assert STEM not in found
    assert left == {"no.py"}


def test_a_study_of_every_victim_and_regime_is_sampled(recorded: Path) -> None:
    stems = [f"a/{victim}/{how}/none/{seed}" for victim in "vw" for how in "rs" for seed in (0, 1)]
    absent = "a/x/r/none/0"
    of_victim = {"victim": {"module": "fcnn"}}
    specs: dict[str, Any] = {f"study/{stem}": of_victim for stem in [*stems, absent]}
    specs["table/x"] = {"cells": [], "studies": [*stems, absent]}
    older = module._Older(
        recorded.with_suffix(".csv"), {"absent": {absent: "why"}},
        Plan("quick", {"x": []}, {}, specs, {"x": []}), "new",
    )  # fmt: skip
    samples, left = module._covering(older, ["victims/fcnn.py", "no.py"])
    assert 2 <= len(samples) <= 3
    assert {part for (stem,) in samples for part in stem.split("/")[1:3]} == {*"vwrs"}
    assert left == {"no.py"}


def test_what_must_be_made_first_is_listed_and_asked_for(
    cell: Cell, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    confirm(cell.root, "quick", targets=True)
    # Without the setting, attacks of other experiments on the same capture would run too.
    assert capsys.readouterr().out.split() == ["only=x", f"results/quick/scores/{ORIGIN}.parquet"]
    confirm(cell.root, "quick", targets=True, only=["x"])
    assert "only=x" in capsys.readouterr().out
    with pytest.raises(UserError, match="--only z: not recorded at scale quick"):
        confirm(cell.root, "quick", only=["z"])
    cell.scores.unlink()
    with pytest.raises(UserError, match="missing"):
        confirm(cell.root, "quick")


@pytest.mark.parametrize("scale", ["nosuch", "../results/quick", "../reference/quick", "."])
def test_a_scale_that_nothing_is_recorded_at_is_one_line(cell: Cell, recorded: Path, scale: str) -> None:
    with pytest.raises(UserError, match=r"--scale .*: nothing is recorded at it \(.*quick"):
        confirm(cell.root, scale, targets=True)


def test_a_record_whose_table_is_gone_is_not_left_out(cell: Cell, recorded: Path) -> None:
    recorded.with_suffix(".csv").unlink()
    with pytest.raises(UserError, match=r"x\.csv: is not the file that was recorded"):
        confirm(cell.root, "quick")


def test_a_record_of_other_settings_is_not_sampled(
    cell: Cell, recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded.write_text(json.dumps(read_json(recorded, "", "") | {"specs": "other"}))
    confirm(cell.root, "quick", targets=True)
    assert capsys.readouterr().out == ""


def test_a_record_follows_from_the_specs_that_its_experiment_needs_alone() -> None:
    asked = planned(ROOT, "quick")
    before = digests(asked, "fidel-figure-13")
    beside = replace(asked, specs=asked.specs | {"generator/mnist/_any/other/0": {"generator": {}}})
    assert digests(beside, "fidel-figure-13") == before
    own = next(name for name in asked.needed("fidel-figure-13") if name.startswith("capture/"))
    changed = replace(asked, specs=asked.specs | {own: asked.specs[own] | {"more": 1}})
    assert digests(changed, "fidel-figure-13")[0] != before[0]


@pytest.mark.parametrize(
    ("file", "ages"),
    [
        ("tables/of_attacks.py", True),
        ("matching/loop.py", True),
        # Verdicts on Figure 4.2 read its boundaries.
        ("tables/drawn.py", True),
        ("tables/pictures.py", False),
        ("catalogue/schema.py", False),
        ("errors.py", False),
    ],
)
def test_a_record_follows_from_all_code_that_makes_numbers(
    file: str, ages: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = planned(ROOT, "quick")
    before, read = digests(asked, "leakbench-matrix"), module_of_record.file_digest
    monkeypatch.setattr(
        module_of_record, "file_digest", lambda root, name: name if name == file else read(root, name)
    )
    assert (digests(asked, "leakbench-matrix") != before) is ages


def test_a_column_that_other_conditions_need_does_not_hide_a_line(cell: Cell, recorded: Path) -> None:
    table = recorded.with_suffix(".csv")
    table.write_text(pd.read_csv(table).assign(iterations=0).to_csv(index=False))
    recorded.write_text(json.dumps(json.loads(recorded.read_text()) | {"files": kept_digests(table)}))
    confirm(cell.root, "quick")
    (entry,) = read_json(recorded, "", "")["confirmed"].values()
    assert entry["numbers"]["identical"] > 0
    assert entry["numbers"]["new"] == 0


def test_all_seeds_of_a_condition_are_sampled_together() -> None:
    studies = [f"plane/perceptron/{kind}/none/{seed}" for kind in ("code", "equations") for seed in range(3)]
    asked = Plan("quick", {"x": []}, {}, {"table/x": {"cells": [], "studies": studies}}, {"x": []})
    spec, studied, _ = module._sampled(asked, "x", "code", 1)
    assert len({stem.rpartition("/")[0] for stem in spec["studies"]}) == 1
    assert [path.rpartition("/")[2] for path in studied] == [f"{seed}.parquet" for seed in range(3)]
