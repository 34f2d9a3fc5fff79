"""Fitting: a killed run goes on to the very result of an undisturbed one; checkpoints; the optimisers by
hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from leakbench.base.artefacts import read_tensors
from leakbench.base.seeds import stream
from leakbench.federation.training import fit
from leakbench.networks import generators, victims

Loss = Callable[[Tensor, Tensor], Tensor]
OPTIMISERS = {
    "sgd": {"optimiser": "sgd", "lr": 0.05, "options": {}},
    "sgd with momentum": {"optimiser": "sgd", "lr": 0.05, "options": {"momentum": 0.9}},
    "adam": {"optimiser": "adam", "lr": 0.002, "options": {}},
    "adadelta": {"optimiser": "adadelta", "lr": 0.5, "options": {"rho": 0.95}},
}


class Killed(Exception):
    pass


def training(**changes: Any) -> dict[str, Any]:
    base = {"batch_size": 5, "epochs": 5, "checkpoints": [0, 1, 3, 5], "images": None, "settled": None}
    return base | OPTIMISERS["sgd"] | changes


def victim() -> tuple[nn.Module, Tensor, Tensor, Loss]:
    """Return a network with dropout, and 23 images: the last batch of five is short."""
    torch.manual_seed(0)
    model = victims.build("fcnn", (4, 4, 1), 3, {"width": 9, "dropout": 0.5})
    rng = torch.Generator().manual_seed(1)
    return (
        model,
        torch.rand(23, 1, 4, 4, generator=rng),
        torch.randint(0, 3, (23,), generator=rng),
        cross_entropy,
    )


def generator() -> tuple[nn.Module, Tensor, Tensor, Loss]:
    """Return a network with batch norm and transposed convolutions."""
    torch.manual_seed(0)
    model = generators.build("fidel-cifar10", (2, 5, 5), (12, 12, 3), {})
    rng = torch.Generator().manual_seed(1)
    inputs = torch.rand(7, 2, 5, 5, generator=rng).contiguous(memory_format=torch.channels_last)
    return model, inputs, torch.rand(7, 3, 12, 12, generator=rng), mse_loss


def test_images_limits_what_is_seen(tmp_path: Path) -> None:
    how = training(images=5, epochs=1, checkpoints=[1])
    model, inputs, targets, loss = victim()
    capped = fit(model, inputs, targets, loss, how, 7, tmp_path / "s", "t")
    again, *_ = victim()
    first = fit(again, inputs[:5], targets[:5], loss, how | {"images": None}, 7, tmp_path / "s", "t")
    assert all(torch.equal(capped[1][name], value) for name, value in first[1].items())


def dying(loss: Loss, calls: int) -> Loss:
    """Return `loss`, which kills the run at its `calls`-th call."""
    left = [calls]

    def deadly(output: Tensor, target: Tensor) -> Tensor:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return loss(output, target)

    return deadly


@pytest.mark.parametrize(
    ("network", "optimiser"), [*((victim, optimiser) for optimiser in OPTIMISERS), (generator, "adam")]
)
def test_a_killed_run_resumes_to_the_same_bits(
    tmp_path: Path, network: Callable[[], Any], optimiser: str
) -> None:
    how = training(**OPTIMISERS[optimiser], epochs=4, checkpoints=[0, 1, 4])
    model, inputs, targets, loss = network()
    whole = fit(model, inputs, targets, loss, how, 7, tmp_path / "whole.safetensors", "t", save_every=1e9)
    scratch = tmp_path / "killed.safetensors"
    batches = -(-len(inputs) // how["batch_size"])
    # Killed twice: within the second epoch, and within the fourth, after it had resumed.
    for calls in (batches + 1, 2 * batches + 1):
        again, *_ = network()
        with pytest.raises(Killed):
            fit(again, inputs, targets, dying(loss, calls), how, 7, scratch, "t", save_every=0)
        assert scratch.is_file()
    assert read_tensors(scratch)[1]["epoch"] == 3
    resumed, *_ = network()
    kept = fit(resumed, inputs, targets, loss, how, 7, scratch, "t", save_every=0)
    assert list(kept) == list(whole) == [0, 1, 4]
    for epoch, state in whole.items():
        assert set(kept[epoch]) == set(state)
        for name, value in state.items():
            assert kept[epoch][name].dtype == value.dtype
            assert torch.equal(kept[epoch][name], value), (epoch, name)
    for name, value in model.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value)
    assert not list(tmp_path.iterdir())


def test_a_run_killed_within_its_first_epoch_starts_again(tmp_path: Path) -> None:
    model, inputs, targets, loss = victim()
    whole = fit(model, inputs, targets, loss, training(), 7, tmp_path / "a", "t", save_every=0)
    with pytest.raises(Killed):
        fit(victim()[0], inputs, targets, dying(loss, 2), training(), 7, tmp_path / "b", "t", save_every=0)
    assert not (tmp_path / "b").exists()
    again = fit(victim()[0], inputs, targets, loss, training(), 7, tmp_path / "b", "t")
    assert all(torch.equal(again[5][name], value) for name, value in whole[5].items())


def test_checkpoints_are_the_weights_at_the_end_of_their_epochs(tmp_path: Path) -> None:
    model, inputs, targets, loss = victim()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    kept = fit(model, inputs, targets, loss, training(), 7, tmp_path / "s", "t")
    assert list(kept) == [0, 1, 3, 5]
    assert all(torch.equal(kept[0][name], value) for name, value in start.items())
    assert all(torch.equal(kept[5][name], value) for name, value in model.state_dict().items())
    for epoch in (1, 3):
        short, *_ = victim()
        stopped = fit(
            short, inputs, targets, loss, training(epochs=epoch, checkpoints=[epoch]), 7, tmp_path / "s", "t"
        )
        assert list(stopped) == [epoch]
        assert all(torch.equal(kept[epoch][name], value) for name, value in stopped[epoch].items())
    only = fit(victim()[0], inputs, targets, loss, training(checkpoints=[5]), 7, tmp_path / "s", "t")
    assert list(only) == [5]


def test_a_trained_network_evaluates(tmp_path: Path) -> None:
    model, inputs, targets, loss = victim()
    fit(model, inputs, targets, loss, training(), 7, tmp_path / "s", "t")
    assert not model.training
    layer = model.get_submodule("dropout")
    assert torch.equal(layer.keep, torch.ones(()))
    assert torch.equal(model(inputs), model(inputs))


def test_seeds_differ_and_one_seed_agrees(tmp_path: Path) -> None:
    results = []
    for seed in (1, 1, 2):
        model, inputs, targets, loss = victim()
        torch.manual_seed(len(results))
        results.append(fit(model, inputs, targets, loss, training(), seed, tmp_path / "s", "t")[5])
    assert all(torch.equal(results[0][n], results[1][n]) for n in results[0])
    assert not torch.equal(results[0]["dense1.weight"], results[2]["dense1.weight"])


def test_two_epochs_by_hand(tmp_path: Path) -> None:
    """Plain SGD over each epoch's own shuffle, each batch with the mask drawn after it."""
    model, inputs, targets, loss = victim()
    found = fit(model, inputs, targets, loss, training(epochs=2, checkpoints=[2]), 7, tmp_path / "s", "t")[2]
    expected, *_ = victim()
    layer = expected.get_submodule("dropout")
    for epoch in range(2):
        rng = torch.Generator().manual_seed(stream("epoch", 7, epoch))
        for batch in torch.randperm(23, generator=rng).split(5):
            layer.keep = layer.draw((len(batch),), rng)
            expected.zero_grad()
            cross_entropy(expected(inputs[batch]), targets[batch]).backward()
            with torch.no_grad():
                for parameter in expected.parameters():
                    parameter -= 0.05 * parameter.grad
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found[name], value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_fitting_lowers_the_loss(tmp_path: Path, optimiser: str) -> None:
    torch.manual_seed(0)
    model = victims.build("fcnn", (4, 4, 1), 3, {"width": 16})
    rng = torch.Generator().manual_seed(2)
    inputs, targets = torch.rand(30, 1, 4, 4, generator=rng), torch.randint(0, 3, (30,), generator=rng)
    before = cross_entropy(model(inputs), targets).item()
    how = training(**OPTIMISERS[optimiser], epochs=40, checkpoints=[40])
    fit(model, inputs, targets, cross_entropy, how, 0, tmp_path / "s", "t")
    assert cross_entropy(model(inputs), targets).item() < 0.8 * before


def test_training_ends_with_the_epoch_that_changes_the_loss_no_more(tmp_path: Path) -> None:
    def run(**changes: Any) -> dict[int, dict[str, Tensor]]:
        model, inputs, targets, loss = victim()
        return fit(model, inputs, targets, loss, training(**changes), 7, tmp_path / "s", "t")

    whole = run(epochs=40, checkpoints=[40])
    assert list(whole) == [40]
    settled = run(epochs=40, checkpoints=[0, 40], settled=0.02)
    assert set(settled) == {0, max(settled)}
    assert 1 < max(settled) < 40
    # It is the network of that epoch, and one epoch earlier the loss still moved.
    same = run(epochs=max(settled), checkpoints=[max(settled)])
    assert all(torch.equal(v, same[max(settled)][n]) for n, v in settled[max(settled)].items())
    assert max(run(epochs=40, checkpoints=[40], settled=1e9)) == 2
    assert max(run(epochs=40, checkpoints=[40], settled=1e-9)) == 40


def test_a_killed_run_settles_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    how = training(epochs=40, checkpoints=[40], settled=0.02)

    def run(kill: int | None) -> dict[int, dict[str, Tensor]]:
        model, inputs, targets, loss = victim()
        steps = iter(range(10**9))

        def killing(x: Tensor, y: Tensor) -> Tensor:
            if next(steps) == kill:
                raise Killed
            return loss(x, y)

        return fit(model, inputs, targets, killing, how, 7, tmp_path / "s", "t", save_every=0)

    expected = run(None)
    with pytest.raises(Killed):
        run(5 * (max(expected) - 1) + 2)
    found = run(None)
    assert set(found) == set(expected)
    assert all(torch.equal(v, found[max(found)][n]) for n, v in expected[max(expected)].items())
