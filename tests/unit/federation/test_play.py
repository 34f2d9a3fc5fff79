"""Rounds of a federation: who trains on what, from which model, and what the server does with it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from leakbench import defences
from leakbench.base.errors import Unfit
from leakbench.defences import Defence
from leakbench.federation import Private, generator, local_update, play, private_samples
from leakbench.federation import play as play_function
from leakbench.networks import victims
from leakbench.networks.layers import draw_masks

SHAPE, CLASSES, COUNT = (4, 4, 1), 3, 60
LABELS = np.random.default_rng(0).integers(0, CLASSES, COUNT)
IMAGES = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (COUNT, *SHAPE), dtype=np.uint8))


def settings(**changes: Any) -> dict[str, Any]:
    """Return a federation of clients with 2 and 6 samples over three rounds."""
    base = {
        "clients": [2, 6], "rounds": 3, "private": {"split": "test", "start": 20, "stop": 50},
        "local": {"lr": 0.2, "batch_size": None, "epochs": 1}, "update": "model", "server": "frozen",
        "local_set": "fresh", "distinct_labels": False, "passes": 1,
    }  # fmt: skip
    return base | changes


def network(dropout: float = 0.0, seed: int = 0) -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(seed)
    model = victims.build("fcnn", SHAPE, CLASSES, {"width": 7, "dropout": dropout})
    return model, {name: p.detach().clone() for name, p in model.named_parameters()}


def run(
    federation: dict[str, Any], origins: list[dict[str, Tensor]], dropout: float = 0.0,
    defence: Defence | None = None, seed: int = 0,
) -> tuple[dict[str, Tensor], list[dict[str, Tensor]], Private]:  # fmt: skip
    """Play and return parameter → [rounds, clients, *shape], the models sent out, and the truth."""
    truth = private_samples(federation, LABELS, ("made", "federation", 0))
    total, number = federation["rounds"] * len(origins), len(federation["clients"])
    updates = {n: torch.full((total, number, *v.shape), torch.nan) for n, v in origins[0].items()}

    def sink(part: slice, client: int, update: dict[str, Tensor]) -> None:
        for name, value in update.items():
            assert value.shape[0] == len(range(*part.indices(total)))
            updates[name][part, client] = value

    sent = play(network(dropout)[0], origins, IMAGES, truth, federation, defence or Defence(), seed, sink)
    assert not any(value.isnan().any() for value in updates.values())
    return updates, sent, truth


def test_samples_are_of_the_private_range_and_never_twice_in_an_update() -> None:
    truth = private_samples(settings(clients=[30, 7], rounds=40), LABELS, ("mnist", "f", 0))
    assert [images.shape for images in truth.images] == [(40, 30), (40, 7)]
    for images, labels in zip(truth.images, truth.labels, strict=True):
        assert 20 <= images.min() <= images.max() < 50
        assert all(len(set(row)) == len(row) for row in images.tolist())
        assert np.array_equal(labels, LABELS[images])
    # A client that holds the whole range has all of it, in another order each round.
    assert len(set(map(tuple, truth.images[0].tolist()))) == 40
    # Every image of the range is as likely as any other: 280 draws of 30.
    counts = np.bincount(truth.images[1].ravel(), minlength=50)[20:]
    assert 0 < counts.min() <= counts.max() < 30


def test_a_smaller_copy_of_the_set_gives_what_it_has_or_says_how_few_that_is() -> None:
    few = private_samples(settings(clients=[10], rounds=9), LABELS[:31], ("made", "f", 0))
    assert (few.images[0].min(), few.images[0].max()) == (20, 30)
    for count, there in ((25, 5), (10, 0)):
        with pytest.raises(
            Unfit, match=f"copy of made .* {there} private images of the split test, .* needs 6"
        ):
            private_samples(settings(), LABELS[:count], ("made", "f", 0))


def test_samples_depend_on_their_names_and_on_nothing_else() -> None:
    names = ("mnist", "f", 0)
    one = private_samples(settings(), LABELS, names)
    longer = private_samples(settings(rounds=9, clients=[2, 6, 4], server="fedavg"), LABELS, names)
    for client in (0, 1):
        assert np.array_equal(one.images[client], longer.images[client][:3])
    for other in (("cifar10", "f", 0), ("mnist", "g", 0), ("mnist", "f", 1)):
        assert not np.array_equal(one.images[1], private_samples(settings(), LABELS, other).images[1])
    assert not np.array_equal(one.images[1][:, :2], one.images[0])
    # A fixed set is the same every round.
    for images in private_samples(settings(local_set="fixed"), LABELS, names).images:
        assert images.shape[0] == 3
        assert (images == images[0]).all()


def test_a_frozen_server_restores_the_model_every_round() -> None:
    model, weights = network()
    updates, sent, truth = run(settings(), [weights])
    assert len(sent) == 1
    for client in (0, 1):
        pixels = IMAGES[torch.from_numpy(truth.images[client])].permute(0, 1, 4, 2, 3).float() / 255
        labels = torch.from_numpy(truth.labels[client])
        for turn in range(3):
            own = pixels[turn : turn + 1], labels[turn : turn + 1]
            alone = local_update(model, weights, *own, {}, settings()["local"], "model")
            for name, start in weights.items():
                # An update is new minus old weights, and the new ones are rounded to float32 first. Gradients
                # that differ in their last bits may land on neighbouring floats: those are at most eps times
                # the largest weight apart.
                room = torch.finfo(torch.float32).eps * (start.abs() + alone[name][0].abs()).max().item()
                torch.testing.assert_close(updates[name][turn, client], alone[name][0], rtol=1e-4, atol=room)
    for name, value in network()[1].items():
        assert torch.equal(sent[0][name], value)


def test_every_origin_is_played_on_the_same_samples() -> None:
    first, second = network()[1], network(seed=5)[1]
    both, sent, _ = run(settings(), [first, second])
    assert len(sent) == 2
    for number, weights in enumerate((first, second)):
        alone, _, _ = run(settings(), [weights])
        for name in weights:
            torch.testing.assert_close(both[name][3 * number : 3 * number + 3], alone[name], rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["model", "gradient"])
def test_fedavg_moves_by_the_mean_weighted_by_samples(kind: str) -> None:
    _, weights = network()
    updates, sent, _ = run(settings(server="fedavg", update=kind), [weights])
    assert len(sent) == 3
    factor = 1.0 if kind == "model" else -0.2
    for name, start in weights.items():
        assert torch.equal(sent[0][name], start)
        for turn in (0, 1):
            # Two and six samples: a quarter and three quarters.
            step = factor * (0.25 * updates[name][turn, 0] + 0.75 * updates[name][turn, 1])
            torch.testing.assert_close(sent[turn + 1][name], sent[turn][name] + step, rtol=1e-5, atol=1e-7)
    assert not torch.equal(sent[1]["dense1.weight"], sent[2]["dense1.weight"])


@pytest.mark.parametrize("defence", ["none", "withhold"])
@pytest.mark.parametrize(("epochs", "reshuffled"), [(1, False), (2, False), (2, True)])
def test_chunks_of_rounds_change_no_result(
    monkeypatch: pytest.MonkeyPatch, defence: str, epochs: int, reshuffled: bool
) -> None:
    _, weights = network()
    local = {"lr": 0.2, "batch_size": 4, "epochs": epochs, "reshuffled": reshuffled}
    federation = settings(rounds=5, local=local)
    results = []
    for size in (300_000_000, 200_000, 1):
        monkeypatch.setitem(play_function.__globals__, "WORKING_BYTES", size)
        results.append(run(federation, [weights], 0.5, defences.build(defence, {}))[0])
    for name in weights:
        for other in results[1:]:
            torch.testing.assert_close(other[name], results[0][name], rtol=1e-5, atol=1e-7)


def test_a_shuffling_client_has_a_new_order_in_each_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, weights = network()
    seen: list[Tensor] = []

    def noted(*arguments: Any) -> dict[str, Tensor]:
        seen.append(arguments[-1])
        return local_update(*arguments)

    monkeypatch.setitem(play_function.__globals__, "local_update", noted)
    local = {"lr": 0.2, "batch_size": 4, "epochs": 3}
    plain = run(settings(clients=[8], rounds=2, local=local), [weights])[0]
    mixed, _, truth = run(settings(clients=[8], rounds=2, local=local | {"reshuffled": True}), [weights])
    assert seen[0] is None
    assert seen[1].shape == (3, 2, 8)
    assert (seen[1].sort(2).values == torch.arange(8)).all()
    assert len({tuple(order) for order in seen[1].flatten(0, 1).tolist()}) == 6
    assert not torch.allclose(mixed["dense1.weight"], plain["dense1.weight"])
    # Who holds what does not change.
    assert (truth.images[0] == run(settings(clients=[8], rounds=2), [weights])[2].images[0]).all()


def test_dropout_is_on_while_clients_train() -> None:
    model, weights = network(0.5)
    updates, _, truth = run(settings(clients=[1], rounds=1), [weights], 0.5)
    masks = draw_masks(model, (1, 1, 1), generator("local", 0))
    x = IMAGES[torch.from_numpy(truth.images[0])].permute(0, 1, 4, 2, 3).float() / 255
    y = torch.from_numpy(truth.labels[0])
    expected = local_update(model, weights, x, y, masks, settings()["local"], "model")
    torch.testing.assert_close(updates["dense1.bias"][0], expected["dense1.bias"], rtol=1e-5, atol=1e-8)
    dropped = masks["dropout.keep"].flatten() == 0
    assert dropped.any()
    assert not updates["dense1.bias"][0, 0][dropped].any()
    # Chance comes from the seed, and with dropout a defence draws what it draws without.
    one, same, other = (run(settings(), [weights], 0.5, seed=seed)[0] for seed in (3, 3, 4))
    assert torch.equal(one["dense1.weight"], same["dense1.weight"])
    assert not torch.allclose(one["dense1.weight"], other["dense1.weight"])
    half = defences.build("withhold", {"share": 0.5})
    zeros = [run(settings(), [weights], rate, half)[0]["dense4.bias"] == 0 for rate in (0.0, 0.5)]
    assert torch.equal(*zeros)
    assert 0 < zeros[0].float().mean() < 1
