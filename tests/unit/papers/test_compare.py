"""Two scorecards: which verdicts changed."""

from pathlib import Path

import pandas as pd
import pytest

from leakbench.jobs.cli import main
from leakbench.papers.verdicts.compare import compared, counts

OLD = {
    "a": "reproduced", "b": "reproduced", "c": "differs", "d": "inconclusive", "e": "not-run",
    "f": "direction",
}  # fmt: skip
NEW = OLD | {"b": "differs", "c": "inconclusive", "d": "direction"}
KIND = {"a": "result", "b": "result", "c": "setting", "d": "result", "e": "result", "f": "setting"}


def card(path: Path, words: dict[str, str], classes: bool = True) -> Path:
    rows = pd.DataFrame({"id": list(words), "verdict": list(words.values())})
    if classes:
        rows["class"] = rows["id"].map(KIND)
    rows.to_csv(path, index=False)
    return path


def run(folder: Path, old: dict[str, str], new: dict[str, str], *more: str, classes: bool = True) -> int:
    files = [card(folder / f"{name}.csv", words, classes) for name, words in (("old", old), ("new", new))]
    return main(["compare", *map(str, files), *more])


def test_what_changed_is_counted() -> None:
    old, new = (pd.DataFrame({"id": list(w), "verdict": list(w.values())}) for w in (OLD, NEW))
    # Rows are compared by id, in whatever order.
    rows = compared(old.iloc[::-1], new)
    assert rows["id"].tolist() == list(NEW)
    assert counts(rows) == {"rows": 6, "measured": 5, "decided": 3, "turned": 1, "changed": 3}
    assert counts(compared(old, old)) == {"rows": 6, "measured": 5, "decided": 4, "turned": 0, "changed": 0}


def test_it_is_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, OLD, NEW) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("1 of 3 (33.3 %) rows that both decide have another decided word")
    assert "3 of 6 (50.0 %) rows changed at all, 3 of 5 (60.0 %) of those measured" in first
    assert [line.split(":")[0].strip() for line in rest[:2]] == ["result", "setting"]
    assert sorted(line.split(maxsplit=1)[1] for line in rest[2:5]) == [
        "differs -> inconclusive", "inconclusive -> direction", "reproduced -> differs"]  # fmt: skip
    assert rest[5:] == ["b: reproduced -> differs"]


def test_a_scorecard_without_classes_will_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, OLD, OLD, classes=False) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 of 4 (0.0 %) rows that both decide have another decided word; "
        "0 of 6 (0.0 %) rows changed at all, 0 of 5 (0.0 %) of those measured"
    ]


def cards(folder: Path) -> list[str]:
    third = OLD | {"a": "differs", "b": "differs"}
    found = []
    for name, words in (("quick", OLD), ("quick-seed1", NEW), ("quick-seed2", third)):
        (folder / name).mkdir()
        found.append(str(card(folder / name / "scorecard.csv", words)))
    return found


def test_several_seeds_have_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "seeds.csv"
    assert main(["compare", *cards(tmp_path), "--out", str(out)]) == 0
    # Decided by all three: a, b and f. Of these a and b change.
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        "all 3: 2 of 3 (66.7 %) rows that each scorecard decides change their word; "
        "4 of 6 (66.7 %) rows change at all"
    )
    rows = pd.read_csv(out, keep_default_na=False)
    assert rows.columns.tolist() == ["id", "class", "quick", "quick-seed1", "quick-seed2"]
    assert rows["id"].tolist() == ["a", "b", "c", "d"]
    assert rows.iloc[1].tolist() == ["b", "result", "reproduced", "differs", "differs"]


def test_scorecards_of_one_folder_have_no_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(card(tmp_path / f"{name}.csv", OLD)) for name in "abc"]
    assert main(["compare", *files]) == 2
    assert "put the files in other folders" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["id", "class"])
def test_a_folder_of_a_columns_name_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    files = cards(tmp_path)
    (tmp_path / "quick").rename(tmp_path / name)
    assert main(["compare", str(tmp_path / name / "scorecard.csv"), *files[1:]]) == 2
    assert "or one is id or class (put the files in other folders)" in capsys.readouterr().err


def test_nothing_decided_is_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, {"a": "not-run"}, {"a": "not-run"}) == 0
    assert capsys.readouterr().out.startswith("0 of 0 rows that both decide")


def test_rows_of_one_scorecard_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, OLD | {"x": "differs"}, NEW | {"y": "differs", "z": "differs"}) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path / 'old.csv'}: 1 rows are in this scorecard alone, and left out"
    assert lines[1] == f"{tmp_path / 'new.csv'}: 2 rows are in this scorecard alone, and left out"
    assert "3 of 6 (50.0 %) rows changed at all" in lines[2]


def test_the_changes_are_written(tmp_path: Path) -> None:
    out = tmp_path / "changes.csv"
    assert run(tmp_path, OLD, NEW, "--out", str(out)) == 0
    rows = pd.read_csv(out)
    assert rows.columns.tolist() == ["id", "class", "old", "new"]
    assert rows.to_dict("list") == {
        "id": ["b", "c", "d"], "class": ["result", "setting", "result"],
        "old": ["reproduced", "differs", "inconclusive"], "new": ["differs", "inconclusive", "direction"],
    }  # fmt: skip
