"""What a budget pays for: trials, lengths, and what is left out with its reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import MATCHING, PAPER, real

from leakbench.base.errors import UserError
from leakbench.catalogue import costs
from leakbench.catalogue.budget import counted
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.resolve import Plan, plan
from tests.unit.catalogue.conftest import ENTRIES

ROOT = Path(__file__).parents[3]
ROOMY = {"length": 0.5, "trials": {100: 1e6, 10: 1e7}, "training": 1e6, "total": 1e6}
SLOW = {"summary": "x", **MATCHING, "labels": "joint", "parameters": {"iterations": 101}}
CELLS = {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["a", "m"]}
STEM = "d/v/f/none"


@pytest.fixture
def paid(root: Callable[..., Path]) -> Callable[..., Plan]:
    """Return a planner of the small catalogue with a slow attack `m`: keyword arguments change the budget.

    `paper` is what paper.yaml says of its experiments; without it they are a stranger's own.
    """

    def planned(
        changes: dict[str, dict[str, Any]] | None = None, paper: dict[str, Any] | None = PAPER, **budget: Any
    ) -> Plan:
        own = {"attacks/m": SLOW, "experiments/e": {"cells": [CELLS], "seeds": [0]}} | (changes or {})
        own["scales/quick"] = {"budget": ROOMY | budget}
        load_kind.cache_clear()
        place = root(own)
        if paper:
            (place / "papers/own/paper.yaml").write_text(yaml.safe_dump(paper))
        return plan(place, "quick")

    return planned


def reasons(found: Plan) -> dict[str, str]:
    return found.specs["table/e"]["cells_left_out"]


def seconds(found: Plan, **changed: Any) -> float:
    """Return what the slow cell takes, with its capture, where keys of its federation are changed."""
    capture = found.specs[f"capture/{STEM}/0"]
    capture = capture | {"federation": capture["federation"] | changed}
    slow = costs.of_attack(found.specs[f"attack/{STEM}/m/0"], capture)
    return slow.plus(costs.of_capture(capture)).seconds()


def test_everything_runs_for_the_share_of_its_length(paid: Callable[..., Plan]) -> None:
    found = paid()
    assert found.specs[f"attack/{STEM}/m/0"]["attack"]["parameters"]["iterations"] == 51
    victim = found.specs["train/d/v/0"]["victim"]["training"]
    assert (victim["epochs"], victim["checkpoints"]) == (15, [0, 5, 15])
    assert found.specs["table/e"]["shares"][f"{STEM}/m/0"] == {"victim": 0.5}
    assert found.specs[f"capture/{STEM}/0"]["federation"]["rounds"] == 100
    assert reasons(found) == {}


def test_a_cell_gets_as_many_trials_as_it_can_pay_for(paid: Callable[..., Plan]) -> None:
    ten = seconds(paid(), rounds=10)
    for limit, rounds in ((1.01 * ten, 10), (0.99 * ten, 5)):
        found = paid(trials={100: 1e-9, 10: limit, 5: 1e6})
        # The attacks on a capture are compared, so they share its rounds.
        assert found.specs[f"capture/{STEM}/0"]["federation"]["rounds"] == rounds
        assert len(found.cells) == 2


def test_never_more_trials_than_are_published(paid: Callable[..., Plan]) -> None:
    found = paid({"federations/f": {"rounds": 7}})
    assert found.specs[f"capture/{STEM}/0"]["federation"]["rounds"] == 7


def test_a_moving_server_runs_for_the_share_of_its_rounds(paid: Callable[..., Plan]) -> None:
    found = paid({"federations/f": {"server": "fedavg"}}, trials={5: 1e6})
    assert found.specs[f"capture/{STEM}/0"]["federation"]["rounds"] == 100


def test_a_cell_that_can_pay_for_no_trials_says_what_it_takes(paid: Callable[..., Plan]) -> None:
    least = seconds(paid(), rounds=5)
    found = paid(trials={5: 0.99 * least})
    assert [cell.attack for cell in found.cells] == ["a"]
    (reason,) = reasons(found).values()
    assert reason.startswith("takes about ")
    assert "for 5 trials; scale quick gives a cell" in reason


def test_a_victim_that_trains_too_long_takes_its_cells_along(paid: Callable[..., Plan]) -> None:
    (once,) = (costs.of_training(paid().specs["train/d/v/0"], there=60).seconds(),)
    assert len(paid(training=1.01 * once).cells) == 2
    with pytest.raises(UserError, match=r"budget\.training: pays for no cell \(raise it\)$"):
        paid(training=0.99 * once)


def test_published_lengths_count_where_a_work_states_them(paid: Callable[..., Plan]) -> None:
    found = paid(paper=PAPER | {"lengths": {"m": 40}})
    assert found.specs[f"attack/{STEM}/m/0"]["attack"]["parameters"]["iterations"] == 20


def test_an_experiment_of_ones_own_competes_with_none_and_runs_whole(paid: Callable[..., Plan]) -> None:
    """No limit leaves out a cell of it. A dear one gets the fewest trials and half of its length."""
    longer = MATCHING | {"adaptive": True}
    changes = {
        "attacks/m": {"summary": "x", **MATCHING, "variants": {"adapted": longer}},
        "defences/clip": {"summary": "x", "parameters": {"norm": 1.0}},
        "experiments/e": {
            "cells": [CELLS | {"defence": ["clip"], "attack": ["a", "m", "m-adapted"]}], "seeds": [0],
        },
    }  # fmt: skip
    nothing = {"trials": {100: 1e-9, 10: 1e-9, 5: 1e-9}, "training": 1e-9, "total": 1e-9}
    found = paid(changes, paper=None, **nothing)
    assert {cell.attack for cell in found.cells} == {"a", "m", "m-adapted"}
    assert reasons(found) == {}
    assert found.specs["capture/d/v/f/clip/0"]["federation"]["rounds"] == 5
    assert found.specs["train/d/v/0"]["victim"]["training"]["epochs"] == 15


def test_the_total_goes_to_the_cheaper_captures(paid: Callable[..., Plan]) -> None:
    slower = {"attacks/n": SLOW | {"parameters": {"iterations": 5000}}}
    cells = [CELLS, CELLS | {"victim": ["v-tanh"], "attack": ["n"]}]
    changes = {**slower, "experiments/e": {"cells": cells, "seeds": [0]}}
    whole = paid(changes)
    took = sum(work.seconds() for work in costs.works(whole.specs, {"d": 60}).values())
    found = paid(changes, total=(took * 0.6 + 12 * costs.JOB + costs.EXPERIMENT) / 60)
    assert {cell.attack for cell in found.cells} == {"a", "m"}
    (reason,) = reasons(found).values()
    assert "go to cheaper trials first" in reason


def test_an_experiment_beside_the_total_has_its_own_minutes(paid: Callable[..., Plan]) -> None:
    changes = {"experiments/e": {"cells": [CELLS], "seeds": [0], "own_minutes": True}}
    assert paid(changes, total=costs.EXPERIMENT / 60, own_minutes=1000).experiments["e"]


@pytest.mark.parametrize("paid_elsewhere", [False, True])
def test_one_experiment_takes_no_more_than_its_share(paid: Callable[..., Plan], paid_elsewhere: bool) -> None:
    slower = {
        f"attacks/{name}": SLOW | {"parameters": {"iterations": steps}}
        for name, steps in {"m": 40_000, "n": 50_000}.items()
    }
    cells = [CELLS, CELLS | {"victim": ["v-tanh"], "attack": ["n"]}]
    changes = {**slower, "experiments/e": {"cells": cells, "seeds": [0]}}
    if paid_elsewhere:
        changes["experiments/b"] = ENTRIES["experiments/e"] | {"cells": cells[1:], "seeds": [0]}
    whole = paid(changes)
    works = costs.works(whole.specs, {"d": 60})
    took = sum(work.seconds() for work in works.values())
    found = paid(changes, experiment=0.75 * took / 60)
    assert {cell.attack for cell in found.experiments["e"]} == {"a", "m", *(["n"] if paid_elsewhere else [])}
    assert all("of one experiment go to cheaper" in reason for reason in reasons(found).values())


@pytest.mark.parametrize("first", [True, False])
def test_data_that_not_everybody_has_may_come_last(paid: Callable[..., Plan], first: bool) -> None:
    slower = {
        "attacks/n": SLOW | {"parameters": {"iterations": 500}},
        "datasets/r": ENTRIES["datasets/d"],
        "datasets/d": ENTRIES["datasets/d"] | {"sources": [{"torchvision": ["MNIST"]}]},
    }
    cells = [CELLS | {"dataset": ["r"]}, CELLS | {"attack": ["n"]}]
    changes = {**slower, "experiments/e": {"cells": cells, "seeds": [0]}}
    works = costs.works(paid(changes).specs, {"d": 60, "r": 60})
    took = sum(work.seconds() for work in works.values())
    found = paid(changes, total=(took * 0.95 + 12 * costs.JOB + costs.EXPERIMENT) / 60, common_first=first)
    assert {cell.dataset for cell in found.cells} == {"d" if first else "r"}


def test_no_plain_attacker_stands_without_the_adaptive_one(paid: Callable[..., Plan]) -> None:
    longer = SLOW | {"adaptive": True, "parameters": {"iterations": 5000}}
    changes = {
        "attacks/m": SLOW | {"variants": {"adapted": longer}},
        "defences/clip": {"summary": "x", "parameters": {"norm": 1.0}},
        "experiments/e": {
            "cells": [CELLS | {"defence": ["none", "clip"], "attack": ["a", "m", "m-adapted"]}],
            "seeds": [0],
        },
    }
    every = paid(changes)
    assert len(every.cells) == 5
    assert reasons(every) == {f"{STEM}/m-adapted/0": "without a defence there is nothing to adapt to"}
    found = paid(changes, trials={5: 1.01 * seconds(every, rounds=5)})
    assert {(cell.defence, cell.attack) for cell in found.cells} == {("none", "a"), ("none", "m")}
    assert reasons(found)["d/v/f/clip/m/0"].startswith("would flatter the defence")


@pytest.mark.parametrize("scale", ["quick", "standard"])
def test_the_real_scales_keep_to_their_budget(scale: str) -> None:
    found = real(scale)
    budget = yaml.safe_load((ROOT / f"config/scales/{scale}.yaml").read_text())["budget"]
    works = costs.works(found.specs, counted(ROOT / "config"))
    jobs = len(works) + sum(name.startswith("score/") for name in found.specs)
    took = sum(work.seconds() for work in works.values()) + jobs * costs.JOB
    own = sum(each.own_minutes for each in found.definitions.values()) * budget["own_minutes"]
    assert took + len(found.experiments) * costs.EXPERIMENT <= 60 * (budget["total"] + own)
    for name, spec in found.specs.items():
        if name.startswith("capture/"):
            # Published code draws one update.
            assert spec["federation"]["rounds"] >= 5 or spec["federation"]["drawn"]
    if scale == "quick":
        # One seed more changes nothing of what is chosen.
        other = plan(ROOT, scale, seed=1)
        chosen = [sorted(cell.name for cell in each.cells) for each in (found, other)]
        assert chosen[0] == chosen[1]
