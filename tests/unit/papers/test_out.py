"""No file of the scorecard takes the place of another."""

from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.jobs.scorecard import scorecard


@pytest.mark.parametrize(
    ("out", "seeds", "words"),
    [
        ("n.json", "seeds.csv", r"--out n\.json: its summary has this place"),
        ("n.csv", "n.json", r"--seeds n\.json: is also the place"),
        ("n.csv", "n.csv", r"--seeds n\.csv: is also the place"),
    ],
)
def test_two_files_of_one_place_are_one_line(tmp_path: Path, out: str, seeds: str, words: str) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text("{}")
    with pytest.raises(UserError, match=words):
        scorecard([], [], [], [], [], tmp_path, spec, Path(out), tmp_path, Path(seeds))
