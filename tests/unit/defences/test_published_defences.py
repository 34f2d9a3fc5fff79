"""Defences of single papers (CENSOR, DGP, Soteria), and what their released versions do."""

import numpy as np
import pytest
import torch
from torch import nn

from leakbench import defences
from leakbench.attacks.adaptive.censor import censor as known
from leakbench.attacks.adaptive.soteria import soteria as known_soteria
from leakbench.defences import Batch, Update, protected, sent_bytes
from leakbench.defences.censor import orthogonal
from leakbench.defences.dgp import middle
from leakbench.defences.soteria import _of_copies as of_copies
from leakbench.defences.soteria import _of_vectors as of_vectors
from leakbench.defences.soteria import sensitivity
from leakbench.networks import victims

IMAGES, LABELS = torch.rand(8, 20, generator=torch.Generator().manual_seed(1)), torch.arange(8) % 4


def batch(scale: float = 1.0) -> Batch:
    """Return a batch; `scale` multiplies its loss, and so its gradient."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 4)).double()
    weights = {name: value.detach() for name, value in model.named_parameters()}
    loss = nn.functional.cross_entropy
    return Batch(model, weights, IMAGES.double(), LABELS, loss=lambda z, y: scale * loss(z, y))


def sent(steps: int, scale: float = 1.0, **parameters: object) -> list[Update]:
    """Return the gradients of steps of one client, whose weights stay as they are."""
    defence = defences.build("censor", parameters)
    rng = torch.Generator().manual_seed(0)
    return [defence.examples(batch(scale), rng) for _ in range(steps)]


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), 0))


def test_a_direction_is_orthogonal_to_each_tensor_and_as_long() -> None:
    (found,), plain = sent(1), batch().mean()
    for name, value in plain.items():
        assert abs(cosine(found[name], value)) < 1e-9
        assert float(found[name].norm()) == pytest.approx(float(value.norm()))


@pytest.mark.parametrize(("norm", "deviation"), [(1e-3, 0.1), (1.0, 0.0), (1000.0, 0.6)])
def test_the_released_projection_is_right_for_tensors_of_norm_one(norm: float, deviation: float) -> None:
    rng = torch.Generator().manual_seed(0)
    value = torch.randn(100, generator=rng, dtype=torch.float64)
    value *= norm / value.norm()
    found = torch.tensor([cosine(orthogonal(value, rng, True), value) for _ in range(500)])
    # A random direction has a deviation of 1 / sqrt(100); a long tensor is subtracted many times over.
    assert float(found.square().mean().sqrt()) == pytest.approx(deviation, rel=0.75, abs=1e-9)


def test_the_released_version_leans_towards_the_gradient_and_the_mean_of_rounds_tells_it() -> None:
    plain, pooled = batch(0.01).mean()["2.weight"], known().pooled
    released, published = (
        torch.stack([each["2.weight"] for each in sent(150, 0.01, trials=5, released=old)])
        for old in (True, False)
    )
    assert cosine(pooled(released), plain) > 0.5
    assert abs(cosine(pooled(published), plain)) < 1e-9


def test_the_released_version_sends_the_gradient_where_no_direction_lowers_the_loss() -> None:
    plain = batch().mean()
    defence = defences.build("censor", {"released": True, "rate": 1e9})
    found = defence.examples(batch(), torch.Generator().manual_seed(0))
    assert all(torch.equal(value, plain[name]) for name, value in found.items())
    (published,) = sent(1, rate=1e9)
    assert abs(cosine(published["0.weight"], plain["0.weight"])) < 1e-9


RNG = torch.Generator()
TEN = torch.tensor([1.0, -2, 3, -4, 5, -6, 7, -8, 9, -10])


def test_the_middle_is_sent_and_something_is_left_of_a_small_tensor() -> None:
    assert middle(TEN, 0.2, 0.5).tolist() == [0, 0, 0, 0, 0, -6, 7, -8, 0, 0]
    assert torch.equal(middle(TEN, 0, 0), TEN)
    assert middle(TEN.view(2, 5), 0.1, 0).tolist() == [[1, -2, 3, -4, 5], [-6, 7, -8, 9, 0]]
    assert all(middle(TEN[:count], 0.45, 0.54).any() for count in (1, 2, 3))


def test_what_was_dropped_is_added_to_the_next_round() -> None:
    given = {"largest": 0.25, "smallest": 0.5}
    update, memory = {"a": torch.tensor([[8.0, 4.0, 2.0, 1.0], [0.0, 0.0, 7.0, 0.0]])}, Update()
    first = protected(defences.build("dgp", given), update, memory, RNG)["a"]
    # The second round stands at 8, 0, 9 and 1: of these 8 is neither the largest nor of the smaller half.
    assert first.tolist() == [[0, 4, 0, 0], [8, 0, 0, 0]]
    assert memory["a"].tolist() == [[0, 0, 9, 1]]
    # What was sent and what is kept add up to the updates.
    assert torch.equal(first.sum(0) + memory["a"][0], update["a"].sum(0))
    # Without feedback rounds know nothing of each other.
    alone, nothing = defences.build("dgp", given | {"feedback": False}), Update()
    sent = protected(alone, {"a": torch.tensor([[8.0, 4, 2, 1], [1, 2, 4, 8]])}, nothing, RNG)
    assert sent["a"].tolist() == [[0, 4, 0, 0], [0, 0, 4, 0]]
    assert not nothing


def test_clients_and_tensors_have_memories_of_their_own_and_zeros_are_not_sent() -> None:
    defence, memories = defences.build("dgp", {}), (Update(), Update())
    update = {"a": torch.randn(1, 1000), "b": torch.randn(1, 5, 8)}
    one, other = (protected(defence, update, memory, RNG) for memory in memories)
    assert [memories[0][name].shape for name in update] == [value.shape for value in update.values()]
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    # A fifth at 32 bits, and a bit for each place.
    assert sent_bytes(defence, {"a": one["a"]}).tolist() == [(200 * 32 + 1000) // 8]


PICTURES = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def pictured() -> Batch:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 5, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(80, 12), nn.ReLU(),
                          nn.Linear(12, 4))  # fmt: skip
    weights = {name: value.detach() for name, value in model.named_parameters()}
    return Batch(model, weights, PICTURES, torch.tensor([0, 1, 2]))


def test_scores_are_those_of_the_authors_loop() -> None:
    own = pictured()
    images = PICTURES.clone().requires_grad_()
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
    sent, plain = defence.examples(pictured(), torch.Generator()), pictured().mean()
    hidden = sent["5.weight"].eq(0).all(0) & plain["5.weight"].ne(0).any(0)
    score = sensitivity(pictured(), 0.1).numpy()
    wanted = np.abs(score) < np.percentile(score, 60)
    assert hidden.tolist() == (torch.from_numpy(wanted) & plain["5.weight"].ne(0).any(0)).tolist()
    assert hidden.any()
    for name, value in plain.items():
        same = sent[name] == value
        assert same.all() if name != "5.weight" else same[:, ~hidden].all()


def test_the_adaptive_attacker_matches_what_was_not_hidden() -> None:
    defence = defences.build("soteria", {})
    sent = {n: v[None] for n, v in defence.examples(pictured(), torch.Generator()).items()}
    plain = {n: v[None] for n, v in pictured().mean().items()}
    mechanism = known_soteria().mechanism
    found = mechanism(sent)(plain, {})
    assert all(torch.equal(found[name], value) for name, value in sent.items())
    assert not torch.equal(plain["5.weight"], sent["5.weight"])
