"""YAML is read as people mean it, and text that would never end is refused."""

from pathlib import Path
from typing import Any

import pytest

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, read_yaml, validated


def read(folder: Path, text: str) -> dict[str, Any]:
    (folder / "x.yaml").write_text(text)
    return read_yaml(folder / "x.yaml")


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "+1e-4", "0.1e-3", "1.e-4", ".1e-3", "1.0e-4", "0.0001"])
def test_a_number_with_an_exponent_is_a_number(text: str, tmp_path: Path) -> None:
    value = read(tmp_path, f"x: {text}\ny: [{text}]\n")
    assert (value["x"], value["y"], type(value["x"])) == (1e-4, [1e-4], float)


@pytest.mark.parametrize("text", ["1e", "e4", "1e-4x", "1e-4-1", "gaussian-1e-4", "'1e-4'", '"1e-4"'])
def test_what_only_looks_like_one_stays_a_word(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, f"x: {text}\n") == {"x": text.strip("'\"")}


def test_a_key_is_kept_as_it_is_written(tmp_path: Path) -> None:
    """Keys are names, such as those of variants."""
    value = read(tmp_path, "variants: {1e-2: {scale: 1e-2}, 1.50: {}, 5: {}}\n")
    assert value == {"variants": {"1e-2": {"scale": 0.01}, "1.50": {}, 5: {}}}


@pytest.mark.parametrize("text", ["x: &a [*a]\n", "x: &a {b: [{c: *a}]}\n"])
def test_a_value_within_itself_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.yaml: not YAML text: &a is within itself \(mend the file\)$"):
        read(tmp_path, text)
    assert read(tmp_path, "x: &a [1]\ny: *a\nz: [*a]\n") == {"x": [1], "y": [1], "z": [[1]]}


class Inner(Strict):
    total: int
    trials: int


class Outer(Strict):
    budget: Inner


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            {"budget": {"totl": 1, "trials": 1}},
            r"budget\.totl: there is no such key.* \(did you mean 'total'\?\)",
        ),
        ({"budget": {"zzz": 1, "trials": 1}}, r"budget\.total: Field required \(see a\.md\)"),
        ({"budgt": {"total": 1, "trials": 1}}, r"budgt: there is no such key.* \(did you mean 'budget'\?\)"),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest(value: Any, says: str) -> None:
    with pytest.raises(UserError, match=f"^x: {says}$"):
        validated(Outer, value, "x: ", "a.md")
