"""Recorded results: read with what made them, told beside a run's own, refused where they do not say of what device."""

import json
from pathlib import Path

import pandas as pd
import pytest

from leakbench.errors import UserError
from leakbench.reference import files, recorded

ROW = {"metric": "psnr", "mean": 20.0, "baseline": "", "seeds": "0", "n": 2}


def record(root: Path, scale: str, experiment: str = "some", facts: object = None) -> None:
    folder = root / "reference" / scale
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame([ROW | {"scale": scale}]).to_csv(folder / f"{experiment}.csv", index=False)
    (folder / "recorded.json").write_text(
        json.dumps({"device": f"the {scale} machine"} if facts is None else facts)
    )


def test_other_scales_are_read_with_their_device(tmp_path: Path) -> None:
    for scale in ("long", "paper", "quick"):
        record(tmp_path, scale)
    found = recorded(tmp_path, "some", but="quick")
    assert found["scale"].tolist() == ["long", "paper"]
    assert found["device"].tolist() == ["the long machine", "the paper machine"]
    assert found["baseline"].tolist() == ["", ""]


def test_what_was_not_recorded_is_empty(tmp_path: Path) -> None:
    assert recorded(tmp_path, "some", but="quick").empty
    record(tmp_path, "quick")
    assert recorded(tmp_path, "some", but="quick").empty
    assert recorded(tmp_path, "other", but="paper").empty


def test_facts_are_files_of_the_figure_too(tmp_path: Path) -> None:
    record(tmp_path, "long")
    record(tmp_path, "long", "other")
    assert [path.name for path in files(tmp_path, "some")] == ["some.csv", "recorded.json"]
    assert len(set(files(tmp_path, "*"))) == 3


@pytest.mark.parametrize("facts", [{}, [], 3])
def test_a_record_without_a_device_is_refused(facts: object, tmp_path: Path) -> None:
    record(tmp_path, "long", facts=facts)
    with pytest.raises(UserError, match=r"recorded\.json: must tell the `device`"):
        recorded(tmp_path, "some", but="quick")


def test_a_record_cut_short_is_refused(tmp_path: Path) -> None:
    record(tmp_path, "long")
    path = tmp_path / "reference" / "long" / "some.csv"
    path.write_text(path.read_text()[:-5])
    with pytest.raises(UserError, match=r"some\.csv: not a whole table"):
        recorded(tmp_path, "some", but="quick")
    (path.parent / "recorded.json").unlink()
    with pytest.raises(UserError, match=r"recorded\.json"):
        recorded(tmp_path, "some", but="quick")


def test_what_the_project_has_recorded_can_be_read() -> None:
    root = Path(__file__).parents[2]
    for table in sorted((root / "reference").glob("*/*.csv")):
        found = recorded(root, table.stem, but="")
        assert {"metric", "mean", "n", "scale", "device", "ci_low", "ci_high"} <= set(found)
        assert table.parent.name in set(found["scale"])
