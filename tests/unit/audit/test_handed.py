"""Clients that are handed over as data: the same client comes out, and nothing but data goes in."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import mlp
from torch import Tensor, nn
from torch.nn import functional
from torchvision.models import resnet18

from leakbench.audit.client import client
from leakbench.audit.handed import Traced, hand_over, taken
from leakbench.base.errors import UserError


class Block(nn.Module):
    """A module of the client's own, within one of torch's and within another of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.norm(self.conv(x))) * self.scale + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.last = nn.Sequential(Block(), Block()), nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(x)
        scores: Tensor = self.last(x.view(x.size(0), -1)[:, :48])
        return scores


def batch(rows: int = 4) -> tuple[Tensor, Tensor]:
    return torch.rand(8, 3, rows, rows), torch.arange(8)


@pytest.mark.parametrize(
    "net", [lambda: mlp(9, inputs=48, classes=10), Net, lambda: resnet18(num_classes=10)]
)
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(label_smoothing=0.1), functional.cross_entropy])
def test_a_client_is_the_same_after_it_was_handed_over(
    net: Callable[[], nn.Module], loss: Any, tmp_path: Path
) -> None:
    own = client((net(), loss, batch(), batch()), 6, 2, 0.5)
    assert hand_over(own, tmp_path / "x")
    found = taken(tmp_path / "x")
    assert list(found.model.state_dict()) == list(own.model.state_dict())
    assert (found.records, found.local_steps, found.lr) == (6, 2, 0.5)
    assert found.validation is not None
    update, again = own.play().update, found.play().update
    assert update.keys() == again.keys()
    assert all(torch.equal(update[name], again[name]) for name in update)


class Drops(nn.Linear):
    """A layer that drops some of its scores while it trains."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(super().forward(x.flatten(1)), training=self.training)


class Looks(nn.Linear):
    """A layer that looks at what it is asked."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(1) if float(x.sum()) > 0 else 0 * x)


@pytest.mark.parametrize(("kind", "data"), [(Drops, True), (Looks, False)])
def test_a_network_that_looks_at_its_inputs_is_no_data(kind: Any, data: bool, tmp_path: Path) -> None:
    """One that depends on its mode alone has calls for each."""
    own = client((kind(48, 10), nn.CrossEntropyLoss(), batch()))
    assert hand_over(own, tmp_path / "x") is (tmp_path / "x").exists() is data
    if data:
        again = taken(tmp_path / "x").play().update
        assert all(torch.equal(value, again[name]) for name, value in own.play().update.items())


def test_code_of_the_clients_own_stays(tmp_path: Path) -> None:
    hooked = mlp(9, inputs=48, classes=10)
    hooked.register_forward_hook(lambda *given: None)
    for made in (
        (mlp(9, inputs=48, classes=10), lambda scores, y: functional.cross_entropy(scores, y), batch()),
        (hooked, nn.CrossEntropyLoss(), batch()),
    ):
        assert not hand_over(client(made), tmp_path / "x")


@pytest.mark.parametrize("calls", [
    [("x", "placeholder", "x", (), {}), ("a", "call_function", "getattr", ({"node": "x"}, "__class__"), {})],
    [("x", "placeholder", "x", (), {}), ("a", "call_method", "__reduce__", ({"node": "x"},), {})],
    [("a", "call_function", "os.system", ("x",), {})],
])  # fmt: skip
def test_calls_that_no_tracing_gives_are_refused(calls: Any) -> None:
    with pytest.raises((KeyError, AttributeError)):
        Traced(nn.Linear(2, 2), {True: calls})(torch.ones(1, 2))


def test_a_file_with_code_is_refused(tmp_path: Path) -> None:
    torch.save(([Block(), nn.CrossEntropyLoss(), batch()], 1, 1, 0.1), tmp_path / "x")
    with pytest.raises(UserError, match=r"test_handed\.Block is the client's own code"):
        taken(tmp_path / "x")
