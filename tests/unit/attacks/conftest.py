"""Observations of one server, and a network small enough to be computed by hand."""

import sys
from collections import OrderedDict
from types import SimpleNamespace

import pytest
from observations import Make, observe
from torch import nn


@pytest.fixture
def make() -> Make:
    return observe


@pytest.fixture
def two_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a victim of two inputs, two ReLU neurons and two classes."""

    def tiny(shape: tuple[int, int, int], classes: int) -> nn.Module:
        return nn.Sequential(
            OrderedDict(
                flatten=nn.Flatten(), dense1=nn.Linear(2, 2), activation1=nn.ReLU(), dense2=nn.Linear(2, 2)
            )
        )

    monkeypatch.setitem(sys.modules, "leakbench.networks.victims.tiny", SimpleNamespace(tiny=tiny))
