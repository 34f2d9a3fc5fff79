"""How long victims and generators are trained in a plan, and on what."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planning import capping, planned

from leakbench.catalogue.resolve import Plan


def shares_of(plan: Plan) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = plan.spec("table/e")["shares"]
    return found


@pytest.mark.parametrize(("epochs", "images", "share"), [(3, 20, 0.033333), (30, 20, 0.333333), (30, 70, 1)])
def test_a_table_is_told_how_long_a_victim_was_trained(
    epochs: int, images: int, share: float, root: Callable[..., Path]
) -> None:
    caps = {"victims": {"v-*": {"training.epochs": epochs, "training.images": images}}}
    found = shares_of(planned(root(capping(caps))))
    # Of thirty epochs on sixty images; the other victim is trained as long as the catalogue says.
    stems = [f"d/v-tanh/f/none/{attack}/{seed}" for attack in "ab" for seed in (0, 1)]
    assert found == ({} if share == 1 else {stem: {"victim": share} for stem in stems})


def test_an_untrained_victim_was_trained_as_long_as_the_catalogue_says(root: Callable[..., Path]) -> None:
    cells = [{"dataset": ["d"], "victim": ["v-raw"], "federation": ["f"], "attack": ["a"]}]
    more = {"federations/f": {"checkpoints": [0]}, "experiments/e": {"cells": cells}}
    assert shares_of(planned(root(more | capping({"victims": {"v": {"training.epochs": 3}}})))) == {}


def test_a_table_is_told_how_long_a_generator_was_trained(root: Callable[..., Path]) -> None:
    generator = {
        "summary": "x", "module": "cvae", "reads": "latent", "validation": 0.2,
        "auxiliary": {"split": "train", "start": 0, "stop": 50},
        "training": {"optimiser": "adam", "lr": 0.1, "batch_size": 5, "epochs": 10},
    }  # fmt: skip
    cells = [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["m"]}]
    more: dict[str, dict[str, Any]] = {
        "generators/g": generator,
        "attacks/m": {"summary": "x", "module": "class-mean", "labels": "counted", "generator": {"d": "g"}},
        "experiments/e": {"cells": cells, "seeds": [0]},
    }
    found = planned(
        root(more | capping({"generators": {"g": {"training.epochs": 5, "training.images": 10}}}))
    )
    # Half of the epochs on a quarter of the forty images that are not held out.
    assert shares_of(found) == {"d/v/f/none/m/0": {"generator": 0.125}}


def test_a_federation_takes_what_a_capped_training_keeps(root: Callable[..., Path]) -> None:
    asked = {"federations/f": {"checkpoints": [0, 5, 30]}}
    found = planned(root(asked | capping({"victims": {"v*": {"training.epochs": 7}}})))
    assert found.specs["capture/d/v/f/none/0"]["federation"]["checkpoints"] == [0, 5, 7]


@pytest.mark.parametrize(("split", "free"), [("train", 40), ("test", 20)])
def test_a_model_is_evaluated_on_test_images_that_are_not_private(
    split: str, free: int, root: Callable[..., Path]
) -> None:
    asked = {"private": {"split": split, "start": 20, "stop": 40}, "server": "fedavg", "evaluate": free}
    found = planned(root({"federations/f": asked}))
    assert found.specs["capture/d/v/f/none/0"]["federation"]["evaluate"] == free


def test_the_last_epoch_is_always_kept(root: Callable[..., Path]) -> None:
    found = planned(root({"victims/w": {"summary": "x", "module": "fcnn", "training": {
        "optimiser": "sgd", "lr": 0.1, "batch_size": 1, "epochs": 4}},
        "experiments/e": {"cells": [{"dataset": ["d"], "victim": ["w"], "federation": ["f"],
        "attack": ["a"]}]}}))  # fmt: skip
    assert found.specs["train/d/w/0"]["victim"]["training"]["checkpoints"] == [4]
