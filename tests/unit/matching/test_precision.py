"""Products and convolutions in bfloat16: near float32 by what its rounding leaves, on any processor."""

from dataclasses import replace

import pytest
import torch
from trial_networks import distance_of, group

from leakbench.attacks.matching.objective import Objective
from leakbench.attacks.matching.trials import Group
from leakbench.base.errors import Unfit
from leakbench.networks import victims

# A number in bfloat16 has eight bits. A LeNet rounds one some ten times behind one another in each pass.
ROUNDING = 10 * 2**-8


def lenet() -> Group:
    torch.manual_seed(0)
    model = victims.build("lenet-dlg", (16, 16, 3), 10, {}).eval()
    return group(model, torch.rand(2, 1, 3, 16, 16), torch.randint(0, 10, (2, 1)))


def rounded(of: Group) -> Group:
    return replace(of, precision="bfloat16")


def test_gradients_are_off_by_rounding_alone_and_are_float32() -> None:
    of = lenet()
    images = of.draw("uniform", torch.Generator().manual_seed(1))["images"].requires_grad_()
    labels, rows = of.labels, torch.arange(2)
    assert labels is not None
    exact, found = (
        {name: value.detach() for name, value in each.caused(images, labels, rows, {}).items()}
        for each in (of, rounded(of))
    )
    for name, value in exact.items():
        assert found[name].dtype == torch.float32
        apart = float((found[name] - value).norm() / value.norm())
        assert 0 < apart < ROUNDING, name


def test_derivatives_are_off_by_rounding_alone_and_the_loss_is_float32() -> None:
    of = lenet()
    unknowns = of.draw("uniform", torch.Generator().manual_seed(1))
    (losses, exact), (near, found) = (
        Objective(each, [distance_of("cosine")]).evaluate(torch.arange(2))(unknowns)
        for each in (of, rounded(of))
    )
    assert near.dtype == found["images"].dtype == torch.float32
    torch.testing.assert_close(near, losses, rtol=ROUNDING, atol=0)
    assert 0 < float((found["images"] - exact["images"]).norm() / exact["images"].norm()) < 3 * ROUNDING


def test_steps_that_bfloat16_would_round_away_are_not_simulated() -> None:
    with pytest.raises(Unfit, match="set updates: one-batch"):
        replace(lenet(), steps=[slice(0, 1)], precision="bfloat16")


def test_cma_es_values_in_float32_alone() -> None:
    with pytest.raises(Unfit, match="precision: float32"):
        Objective(rounded(lenet()), [distance_of("squares")]).losses(torch.arange(2))
