"""No file of the scorecard takes the place of another."""

from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.jobs.scorecard import scorecard


def test_two_files_of_one_place_are_one_line(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text("{}")
    for out, seeds, words in (
        ("n.json", "seeds.csv", r"--out n\.json: its summary has this place"),
        ("n.csv", "n.json", r"--seeds n\.json: is also the place"),
        ("n.csv", "n.csv", r"--seeds n\.csv: is also the place"),
    ):
        with pytest.raises(UserError, match=words):
            scorecard([], [], [], [], [], tmp_path, spec, Path(out), tmp_path, Path(seeds))
