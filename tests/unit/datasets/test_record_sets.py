"""Tables of records: what is read, and what is refused with its line."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from catalogued import spec

from leakbench.base.errors import UserError
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.columns import columns_of, decode, encode
from leakbench.datasets.records import records

COLUMNS: list[dict[str, list[float | str]]] = [
    {"age": [17, 90, 1]},
    {"work": ["Private", "State-gov", "?"]},
    {"rate": [0, 0.4268, 0.0000001]},
]
CLASSES = [["<=50K", "<=50K."], [">50K", ">50K."]]
GIVEN = {"columns": COLUMNS, "classes": CLASSES, "files": {"train": "a.data"}}
SOUND = "|a comment\n39, State-gov, 0.3001, <=50K\n\n17, ?, 0, >50K.\n90,Private,0.4268,<=50K\n"


def made(folder: Path, text: str, **changes: object) -> dict[str, np.ndarray]:
    (folder / "a.data").write_text(text)
    return records(folder, **(GIVEN | changes)).tensors  # type: ignore[arg-type]


def test_a_record_is_read_as_it_would_be_by_hand(tmp_path: Path) -> None:
    found = made(tmp_path, SOUND)
    by_hand = [[22 / 73, 0, 1, 0, 0.3001 / 0.4268], [0, 0, 0, 1, 0], [1, 1, 0, 0, 1]]
    assert found["train/images"].shape == (3, 1, 5, 1)
    np.testing.assert_allclose(found["train/images"][:, 0, :, 0], by_hand, rtol=1e-6)
    assert found["train/labels"].tolist() == [0, 1, 0]
    every = made(tmp_path, "a header\n" + SOUND, held_out=2, header=1)
    assert every["test/labels"].tolist() == [0, 0]
    assert every["train/labels"].tolist() == [1]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("39, State-gov, 0.3\n", "line 1: 3 values, not 4"),
        (SOUND + "39, State-gov, 0.3, <=50K, 1\n", "line 6: 5 values, not 4"),
        (SOUND + "91, State-gov, 0.3, <=50K\n", "line 6: age is not a number from 17 to 90: '91'"),
        (SOUND + "nan, State-gov, 0.3, <=50K\n", "line 6: age is not a number"),
        ("39, Nowhere, 0.3, <=50K\n", "line 1: work is not one of 3 categories: 'Nowhere'"),
        ("39, Private, " + "x" * 999 + ", <=50K\n", "line 1: rate is not a number from 0 to 0.4268: 'x"),
        (SOUND + "39, Private, 0.3, 50K\n", "line 6: the class is not known: '50K'"),
        ("|only a comment\n\n", "a table without records"),
        ("39, Private\x00, 0.3, <=50K\n", "line 1"),
    ],
)
def test_a_row_that_does_not_fit_is_named_by_its_line(tmp_path: Path, text: str, refusal: str) -> None:
    with pytest.raises(Damaged) as caught:
        made(tmp_path, text)
    told = str(caught.value)
    assert refusal in told
    assert str(tmp_path / "a.data") in told
    assert len(told) < len(str(tmp_path)) + 200
    assert len(told.splitlines()) == 1


def test_bytes_that_are_no_text_and_files_without_end_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.data").write_bytes(b"39, \xff\xfe, 0.3, <=50K\n")
    with pytest.raises(Damaged, match="a table"):
        records(tmp_path, **GIVEN)  # type: ignore[arg-type]
    monkeypatch.setattr("leakbench.datasets.records.MOST", 10)
    with pytest.raises(Damaged, match="more than 10 bytes"):
        made(tmp_path, SOUND)


@pytest.mark.parametrize(
    "column", [{"age": [17, 90]}, {"age": [90, 17, 1]}, {"a": ["x", "x"]}, {"a": ["x"], "b": ["y"]}, {}]
)
def test_a_column_that_is_none_is_refused(column: dict[str, list[float | str]]) -> None:
    with pytest.raises(UserError, match=r"columns: .* is no column"):
        columns_of([column])


def test_what_was_encoded_is_decoded_to_the_same_values() -> None:
    rng, columns = np.random.default_rng(0), columns_of(COLUMNS)
    table = pd.DataFrame(
        {
            "age": rng.integers(17, 91, 500).astype(float),
            "work": rng.choice(["Private", "State-gov", "?"], 500),
            "rate": np.round(rng.uniform(0, 0.4268, 500), 7),
        }
    )
    again = decode(encode(table, columns), columns)
    pd.testing.assert_frame_equal(again, table, check_exact=True, check_dtype=False)


def test_categories_that_look_like_numbers_stay_categories() -> None:
    (column,) = columns_of([{"grade": ["1", "2", "10"]}])
    assert column.values == ("1", "2", "10")


@pytest.mark.parametrize("name", ["adult", "breast-cancer"])
def test_the_shape_in_the_catalogue_is_that_of_its_columns(name: str) -> None:
    entry = spec(name)
    assert entry["shape"] == (1, columns_of(entry["parameters"]["columns"])[-1].place.stop, 1)
    assert entry["classes"] == len(entry["parameters"]["classes"])
