"""Soteria: which features it hides, and that an attacker sees which."""

import numpy as np
import pytest
import torch
from torch import nn

from leakbench import defences
from leakbench.attacks.adaptive.soteria import soteria as known
from leakbench.defences import Batch
from leakbench.defences.soteria import _of_copies as of_copies
from leakbench.defences.soteria import _of_vectors as of_vectors
from leakbench.defences.soteria import sensitivity
from leakbench.networks import victims

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
    features = own.model[:5](images)
    by_hand = torch.zeros(12)
    for feature in range(12):
        for sample in range(3):
            (slope,) = torch.autograd.grad(features[sample, feature], images, retain_graph=True)
            by_hand[feature] += slope[sample].norm() / (features[sample, feature].detach() + 0.1)
    torch.testing.assert_close(sensitivity(own, 0.1), by_hand)
    assert by_hand.unique().numel() > 6


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("module", ["lenet_dlg", "mlp"])
def test_vectors_and_copies_have_the_same_norms(module: str, samples: int) -> None:
    torch.manual_seed(2)
    model = victims.build(module, (12, 12, 3), 7, {}).eval()
    images = torch.rand(samples, 3, 12, 12)
    weights = {name: value.detach() for name, value in model.named_parameters()}
    own = Batch(model, weights, images, torch.zeros(samples, dtype=torch.int64))
    (norms, features), (again, same) = of_vectors(own), of_copies(own)
    torch.testing.assert_close(norms, again, rtol=1e-4, atol=1e-7)
    assert torch.equal(features, same)
    # More features than are taken at once.
    assert norms.shape == features.T.shape
    assert norms.shape[0] > 100


def test_the_columns_of_low_scores_are_hidden_and_nothing_else() -> None:
    defence = defences.build("soteria", {"share": 0.6})
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
    sent = {n: v[None] for n, v in defence.examples(batch(), torch.Generator()).items()}
    plain = {n: v[None] for n, v in batch().mean().items()}
    mechanism = known().mechanism
    found = mechanism(sent)(plain, {})
    assert all(torch.equal(found[name], value) for name, value in sent.items())
    assert not torch.equal(plain["5.weight"], sent["5.weight"])
