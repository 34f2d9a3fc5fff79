"""The cell of a table's line."""

import pandas as pd
import pytest

from leakbench.base.cellname import CELL, named, of_lines


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_cells_of_lines_are_those_of_each_line(count: int) -> None:
    table = pd.DataFrame({name: [f"{name}-{n}" for n in range(count)] for name in CELL} | {"mean": 0.5})
    assert of_lines(table).tolist() == [named(row) for row in table.to_dict("records")]
