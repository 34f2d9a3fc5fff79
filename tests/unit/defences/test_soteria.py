"""Soteria: which features it hides, and that an attacker sees which."""

import numpy as np
import pytest
import torch
from torch import nn

from leakbench import defences
from leakbench.adaptive.soteria import soteria as known
from leakbench.defences import Batch
from leakbench.defences.soteria import sensitivity
from leakbench.errors import UserError

IMAGES = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def batch() -> Batch:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 5, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(80, 12), nn.ReLU(),
                          nn.Linear(12, 4))  # fmt: skip
    weights = {name: value.detach() for name, value in model.named_parameters()}
    return Batch(model, weights, IMAGES, torch.tensor([0, 1, 2]))


def test_scores_are_those_of_the_authors_loop() -> None:
    own = batch()
    images = IMAGES.clone().requires_grad_()
    features = own.model[:5](images)  # type: ignore[index]
    by_hand = torch.zeros(12)
    for feature in range(12):
        for sample in range(3):
            (slope,) = torch.autograd.grad(features[sample, feature], images, retain_graph=True)
            by_hand[feature] += slope[sample].norm() / (features[sample, feature].detach() + 0.1)
    torch.testing.assert_close(sensitivity(own, 0.1), by_hand)
    assert by_hand.unique().numel() > 6


def test_the_columns_of_low_scores_are_hidden_and_nothing_else() -> None:
    defence = defences.build("soteria", {"share": 0.6})
    assert defence.examples is not None
    sent, plain = defence.examples(batch(), torch.Generator()), batch().mean()
    hidden = sent["5.weight"].eq(0).all(0) & plain["5.weight"].ne(0).any(0)
    score = sensitivity(batch(), 0.1).numpy()
    wanted = np.abs(score) < np.percentile(score, 60)
    assert hidden.tolist() == (torch.from_numpy(wanted) & plain["5.weight"].ne(0).any(0)).tolist()
    assert hidden.any()
    for name, value in plain.items():
        same = sent[name] == value
        assert same.all() if name != "5.weight" else same[:, ~hidden].all()


def test_the_adaptive_attacker_matches_what_was_not_hidden() -> None:
    defence = defences.build("soteria", {})
    assert defence.examples is not None
    sent = {n: v[None] for n, v in defence.examples(batch(), torch.Generator()).items()}
    plain = {n: v[None] for n, v in batch().mean().items()}
    mechanism = known().mechanism
    assert mechanism is not None
    found = mechanism(sent)(plain, {})
    assert all(torch.equal(found[name], value) for name, value in sent.items())
    assert not torch.equal(plain["5.weight"], sent["5.weight"])


def test_a_network_without_a_dense_layer_is_refused() -> None:
    with pytest.raises(UserError, match="has no dense layer"):
        defences.build("soteria", {}).model(nn.Conv2d(1, 4, 6), torch.Generator())
