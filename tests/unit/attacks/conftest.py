"""Runs that die."""

import pytest
from deaths import Death

from leakbench.attacks import inverter
from leakbench.attacks.matching import loop


@pytest.fixture
def death(monkeypatch: pytest.MonkeyPatch) -> Death:
    """What lets a run die; every run saves its work before each iteration."""
    found = Death()
    monkeypatch.setattr(loop, "track", found.track)
    monkeypatch.setattr(inverter, "track", found.track)
    return found
