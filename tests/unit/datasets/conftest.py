"""A place for data sets."""

from pathlib import Path

import pytest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "with a space").mkdir()
    return tmp_path / "with a space"
