"""The gap of gradients against autograd, one trial at a time, in float64."""

import pytest
import torch
from trial_networks import CLASSES, everything, gradient, group, network

from leakbench.attacks.matching.gap import gradient_gap


@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_it_is_the_mean_square_over_all_parameters(chunk: int) -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(3, 2, 3, 16, 16).double(), torch.randint(0, CLASSES, (3, 2))
    of = group(model, images, labels)
    dummies = torch.randn(3, 2, 3, 16, 16).double()
    found = gradient_gap(of, {"images": dummies}, chunk)
    for trial in range(3):
        mine = gradient(model, dummies[trial] * of.deviation + of.mean, labels[trial])
        theirs = {name: value[trial] for name, value in everything(of).items()}
        apart = torch.cat([(mine[name] - theirs[name]).flatten() for name in theirs])
        assert float(found[trial]) == pytest.approx(float(apart.square().mean()), rel=1e-9)


def test_the_private_images_leave_no_gap_and_labels_may_be_unknown() -> None:
    model = network("lenet_dlg", {}, (16, 16, 3))
    torch.manual_seed(1)
    images, labels = torch.rand(2, 1, 3, 16, 16).double(), torch.randint(0, CLASSES, (2, 1))
    of = group(model, images, labels, known=False)
    own = {"images": (images - of.mean) / of.deviation}
    right = torch.nn.functional.one_hot(labels, CLASSES).double() * 100
    assert gradient_gap(of, own | {"labels": right}, 2).max() < 1e-20
    assert gradient_gap(of, own | {"labels": -right}, 2).min() > 1e-6
