"""Fitting: a killed run goes on to the very same result; checkpoints; optimisers by hand."""

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
    images, labels = torch.rand(23, 1, 4, 4, generator=rng), torch.randint(0, 3, (23,), generator=rng)
    return model, images, labels, cross_entropy


def fitted(folder: Path, seed: int = 7, save_every: float = 1e9, **changes: Any) -> Any:
    """Return the checkpoints of a victim, and the victim."""
    model, inputs, targets, loss = victim()
    how = training(**changes)
    return fit(model, inputs, targets, loss, how, seed, folder / "s", "t", save_every=save_every), model


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())


def generator() -> tuple[nn.Module, Tensor, Tensor, Loss]:
    """Return a network with batch norm and transposed convolutions."""
    torch.manual_seed(0)
    model = generators.build("fidel-cifar10", (2, 5, 5), (12, 12, 3), {})
    rng = torch.Generator().manual_seed(1)
    inputs = torch.rand(7, 2, 5, 5, generator=rng).contiguous(memory_format=torch.channels_last)
    return model, inputs, torch.rand(7, 3, 12, 12, generator=rng), mse_loss


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
    # Killed three times: within the first epoch, the second, and the fourth, after it had resumed.
    for calls, left in ((1, False), (batches + 1, True), (2 * batches + 1, True)):
        with pytest.raises(Killed):
            fit(network()[0], inputs, targets, dying(loss, calls), how, 7, scratch, "t", save_every=0)
        assert scratch.is_file() == left
    assert read_tensors(scratch)[1]["epoch"] == 3
    resumed, *_ = network()
    kept = fit(resumed, inputs, targets, loss, how, 7, scratch, "t", save_every=0)
    assert list(kept) == list(whole) == [0, 1, 4]
    for epoch, state in whole.items():
        assert equal(kept[epoch], state), epoch
        assert all(kept[epoch][name].dtype == value.dtype for name, value in state.items())
    assert equal(resumed.state_dict(), model.state_dict())
    assert not list(tmp_path.iterdir())
    if optimiser != "adadelta":
        assert loss(model(inputs), targets) < loss(network()[0].eval()(inputs), targets)


def test_checkpoints_are_the_weights_at_the_end_of_their_epochs(tmp_path: Path) -> None:
    kept, model = fitted(tmp_path)
    assert list(kept) == [0, 1, 3, 5]
    assert equal(kept[0], victim()[0].state_dict())
    assert equal(kept[5], model.state_dict())
    for epoch in (1, 3):
        stopped, _ = fitted(tmp_path, epochs=epoch, checkpoints=[epoch])
        assert list(stopped) == [epoch]
        assert equal(kept[epoch], stopped[epoch])
    # One seed agrees, and seeds differ.
    assert equal(fitted(tmp_path, checkpoints=[5])[0][5], kept[5])
    assert not equal(fitted(tmp_path, seed=2)[0][5], kept[5])
    # A trained network evaluates.
    _, inputs, targets, loss = victim()
    assert not model.training
    assert torch.equal(model.get_submodule("dropout").keep, torch.ones(()))
    # `images` limits what is seen.
    capped, _ = fitted(tmp_path, images=5)
    first = fit(victim()[0], inputs[:5], targets[:5], loss, training(), 7, tmp_path / "s", "t")
    assert equal(capped[5], first[5])


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


def test_training_ends_with_the_epoch_that_changes_the_loss_no_more(tmp_path: Path) -> None:
    assert list(fitted(tmp_path, epochs=40, checkpoints=[40])[0]) == [40]
    settled, _ = fitted(tmp_path, epochs=40, checkpoints=[0, 40], settled=0.02)
    last = max(settled)
    assert set(settled) == {0, last}
    assert 1 < last < 40
    # It is the network of that epoch, and one epoch earlier the loss still moved.
    same, _ = fitted(tmp_path, epochs=last, checkpoints=[last])
    assert equal(settled[last], same[last])
    assert [max(fitted(tmp_path, epochs=40, checkpoints=[40], settled=each)[0]) for each in (1e9, 1e-9)] == [
        2,
        40,
    ]
    # A killed run settles where an undisturbed one does.
    model, inputs, targets, loss = victim()
    how = training(epochs=40, checkpoints=[0, 40], settled=0.02)
    with pytest.raises(Killed):
        fit(
            model, inputs, targets, dying(loss, 5 * (last - 1) + 2), how, 7, tmp_path / "s", "t", save_every=0
        )
    found, _ = fitted(tmp_path, save_every=0, **how)
    assert set(found) == {0, last}
    assert equal(found[last], settled[last])
