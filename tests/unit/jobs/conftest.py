"""The made cell with its known guesses."""

from pathlib import Path

import numpy as np
import pytest
from cell import Cell, known_guesses, make_cell, write_guesses


@pytest.fixture
def cell(tmp_path: Path) -> Cell:
    made = make_cell(tmp_path, np.zeros((3, 2, 4, 1, 8, 8), np.float32), np.zeros((3, 2, 4), bool))
    write_guesses(made, *known_guesses(made))
    return made
