"""How long victims and generators are trained in a plan, and on what."""

from collections.abc import Callable
from pathlib import Path

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
