"""From experiments and a scale to cells and their specs."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from planning import planned

from leakbench.base.errors import UserError
from leakbench.base.parts import parts_of
from leakbench.catalogue import run
from leakbench.catalogue.entry import run_name
from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.spec import spec_of

# Of the small catalogue's cells, one attack on one capture.
OTHER = {
    "item": "i", "title": "t", "shows": "s", "metrics": ["mse"],
    "figure": {"drawing": "dots", "metrics": ["mse"]},
    "cells": [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["b"]}],
}  # fmt: skip


def write(found: Plan, place: Path) -> None:
    run.write(place, f"results/{found.run}/specs", found.texts)


def test_cells_are_the_product_of_names_and_seeds(root: Callable[..., Path]) -> None:
    found = planned(root())
    assert len(found.cells) == 2 * 2 * 2
    assert found.cells == sorted(found.experiments["e"])
    assert Counter(name.partition("/")[0] for name in found.specs) == {
        "fetch": 1, "train": 4, "capture": 4, "attack": 8, "score": 4, "table": 1, "figure": 1,
        "scorecard": 1,
    }  # fmt: skip


def test_whoever_asks_for_an_experiment_runs_every_attack_on_its_captures(root: Callable[..., Path]) -> None:
    found = planned(root({"experiments/other": OTHER}))
    own, beside = found.needed("other"), found.run_for("other")
    assert beside - own == {"attack/d/v/f/none/a/0"}
    assert own < beside
    assert found.run_for("e") == found.needed("e")


def test_only_one_experiment_runs_as_it_does_among_all(root: Callable[..., Path]) -> None:
    place = root({"experiments/other": OTHER})
    among, alone = planned(place), plan(place, "quick", only=["other"])
    assert alone.run_for("other") == alone.needed("other") == among.needed("other")
    assert all(alone.specs[name] == among.specs[name] for name in alone.needed("other"))
    assert alone.experiments["e"] == []
    assert alone.specs["table/e"]["left_out"].startswith("another experiment")
    with pytest.raises(UserError, match=r"--config only: no experiment 'othre' \(did you mean 'other'"):
        plan(place, "quick", only=["othre"])


def test_no_attack_spec_tells_the_truth(root: Callable[..., Path]) -> None:
    spec = planned(root()).specs["attack/d/v/f/none/a/0"]
    assert set(spec) == {"attack", "attack_name", "null_rounds", "seed"}


def test_unchanged_specs_are_not_written_again(root: Callable[..., Path]) -> None:
    place = root()
    write(planned(place), place)
    files = {path: path.stat().st_mtime_ns for path in place.rglob("*.json")}
    assert len(files) == len(planned(place).specs)
    write(planned(place), place)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*.json")} == files
    damaged = place / "results/quick/specs/attack/d/v/f/none/a/0.json"
    whole = damaged.read_text()
    damaged.write_text(whole[:20])
    write(planned(place), place)
    assert damaged.read_text() == whole


def test_fetch_specs_are_those_of_every_scale(root: Callable[..., Path]) -> None:
    place = root({"scales/paper": {"summary": "x", "null_rounds": 9}})
    for scale in ("quick", "paper"):
        write(plan(place, scale), place)
    assert [path.name for path in (place / "data" / "specs").iterdir()] == ["d.json"]
    assert not list(place.glob("results/*/specs/fetch"))


def test_a_local_folder_is_part_of_what_fetches(root: Callable[..., Path]) -> None:
    place = root()
    assert plan(place, "quick", frozenset({"d"})).specs["fetch/d"]["local"] is True
    assert planned(place).specs["fetch/d"]["local"] is False


def test_patterns_of_a_scale_are_of_the_experiments_own_seeds(root: Callable[..., Path]) -> None:
    """In a run with other seeds too."""
    place = root({"scales/quick": {"left_out": {"e": "x", "e/*/b/1": "z"}}})
    assert plan(place, "quick", seed=7).experiments == {"e": []}


@pytest.mark.parametrize("closed", ["papers", "papers/own", "papers/own/experiments"])
def test_no_experiment_is_missing_because_a_folder_may_not_be_read(
    closed: str, root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = root()
    monkeypatch.setattr(os, "access", lambda path, _: path != place / closed)
    with pytest.raises(UserError, match=rf"{closed}: may not be read \(make the folder readable\)"):
        planned(place)


def test_another_seed_raises_every_seed_and_has_folders_of_its_own(root: Callable[..., Path]) -> None:
    place = root({"experiments/e": {"seeds": [0, 2]}})
    own, other = plan(place, "quick"), plan(place, "quick", seed=5)
    assert {cell.seed for cell in own.cells} == {0, 2}
    assert {cell.seed for cell in other.cells} == {5, 7}
    assert other.specs["attack/d/v-tanh/f/none/b/7"]["seed"] == 7
    assert other.specs["table/e"]["experiment"]["seeds"] == [5, 7]
    # It is the same scale, whose recorded tables stand beside it.
    assert own.specs["figure/e"] == other.specs["figure/e"]
    write(other, place)
    assert [path.name for path in (place / "results").iterdir()] == ["quick-seed5"]
    assert (run_name("quick", None), run_name("quick", 0)) == ("quick", "quick-seed0")


def test_a_salt_that_is_short_or_not_there_is_one_line(root: Callable[..., Path]) -> None:
    place = root()
    file = place / "config/salt.yaml"
    file.write_text("salt: 'abc'")
    with pytest.raises(UserError, match=rf"^{file}: salt: String should match.*$"):
        planned(place)
    file.unlink()
    with pytest.raises(UserError, match=rf"^{file}: no such file.*$"):
        planned(place)


def test_clients_may_hold_samples_of_their_own_behind_each_defence(root: Callable[..., Path]) -> None:
    place = root()
    for apart in (False, True):
        specs = plan(place, "quick").specs
        found = next(each for name, each in specs.items() if name.startswith("capture/"))
        defended = found | {"defence": {"module": "gaussian", "parameters": {"scale": 0.1}}}
        one, other = (spec_of("capture", each, "").names() for each in (found, defended))
        assert (one != other) is apart is ("apart" in found)
        with (place / "config/salt.yaml").open("a") as salt:
            salt.write("apart: true\n")


def test_seeds_are_raised_no_further_than_jobs_take_them(root: Callable[..., Path]) -> None:
    place = root({"experiments/e": {"seeds": [0, 2]}})
    assert {cell.seed for cell in plan(place, "quick", seed=2**53 - 2).cells} >= {2**53}
    with pytest.raises(UserError, match=r"e\.yaml: seeds: raised by .* is beyond 9007199254740992 \(lower"):
        plan(place, "quick", seed=2**53 - 1)


def test_what_plays_or_watches_is_among_what_a_result_hangs_on(root: Callable[..., Path]) -> None:
    specs = planned(root({
        "defences/g": {"summary": "x", "module": "gaussian", "parameters": {"scale": 0.5}},
        "attacks/a": {"summary": "x", "module": "learned-inverter"}, "federations/f": {"watched": True},
        "experiments/e": {"cells": [OTHER["cells"][0] | {"attack": ["a"], "defence": ["g"]}]},
    })).specs  # fmt: skip
    spec, capture = specs["attack/d/v/f/g/a/0"], specs["capture/d/v/f/g/0"]
    assert "leakbench.defences.gaussian" in parts_of(spec)
    # The spec is one that the attack takes.
    assert spec_of("attack", spec, "x").attack.parameters["defence"] == spec["defence"]
    looking = {"leakbench.federation.detectors.isolation", "leakbench.federation.detectors.rows_alike"}
    assert looking <= set(parts_of(capture))
    assert not looking & set(parts_of(capture | {"federation": capture["federation"] | {"watched": False}}))


def test_a_figure_keeps_the_order_in_which_its_values_are_listed(root: Callable[..., Path]) -> None:
    columns = {"noise": {"by": "defence", "none": "0", "*-1e-2": "0.01", "else": "0.1"}}
    place = root()
    experiment = place / "papers/own/experiments/e.yaml"
    figure = {"figure": {"drawing": "dots", "metrics": ["mse"], "columns": columns}}
    experiment.write_text(yaml.safe_dump(yaml.safe_load(experiment.read_text()) | figure, sort_keys=False))
    write(planned(place), place)
    spec = json.loads((place / "results/quick/specs/figure/e.json").read_text())
    assert list(spec["figure"][0]["columns"]["noise"]) == ["by", "none", "*-1e-2", "else"]
