"""A mistake in papers/ is one line that names file and key, whatever it is."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests_world import CLAIMS, MAP, card, files_of, paper, tabled, unused_words

from leakbench.base.errors import UserError
from leakbench.papers.work import read_papers

CLAIM = CLAIMS["claims"][0]
# The first printed row, as messages locate it.
ROW = r"papers/tiny/measured\.yaml: table-1: tiny\.table-1\.1: "


def judged(tmp_path: Path, **files: Any) -> None:
    card(paper(tmp_path, **files), tabled())


def refusal(tmp_path: Path, **files: Any) -> str:
    """Return what is said of files that are refused, nothing where they are read."""
    try:
        judged(tmp_path, **files)
    except UserError as problem:
        return str(problem)
    return ""


def mapped(**keys: Any) -> dict[str, Any]:
    return {"measured": {"table-1": MAP["table-1"] | keys}}


def claimed(**keys: Any) -> dict[str, Any]:
    return {"claims": {"claims": [CLAIM | keys]}}


TABLE = yaml.safe_load(Path(__file__).with_name("papers_bad.yaml").read_text())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(row["says"]))
def test_a_mistake_is_one_line(row: dict[str, Any], tmp_path: Path) -> None:
    files = files_of(row)
    if row["says"] is None:
        return judged(tmp_path, **files)
    with pytest.raises(UserError, match=row["says"].replace("ROW", ROW)):
        judged(tmp_path, **files)


def test_a_folder_without_papers_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no paper\.yaml in any folder"):
        read_papers(tmp_path)


def test_words_that_nothing_prints_are_found(tmp_path: Path) -> None:
    table = MAP["table-1"] | {"dataset": MAP["table-1"]["dataset"] | {"Painting": "paintings"}}
    (work,) = read_papers(paper(tmp_path, measured={"table-1": table}))
    assert unused_words(work) == ["table-1.dataset: Painting"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=8)
    | st.sampled_from(["at()", "mean([own()])", "dataset", "by", "psnr"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["by", "Digits", "else", "attack"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
MORE = (
    "unit needs quantity fact absent check class tells success beside repeats tolerance unit_std otherwise x"
)
KEYS = st.sampled_from([*MAP["table-1"], *MORE.split()])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, ANYTHING, max_size=3))
def test_whatever_a_map_holds_it_is_read_or_refused_in_one_line(tmp_path: Path, keys: dict[str, Any]) -> None:
    told = refusal(tmp_path, **mapped(**keys))
    assert not told or "papers/tiny/" in told


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("at()[]{}+-*/=<>'\",.: fastslowmeanforinif1230x", max_size=60))
def test_whatever_an_expression_is_it_is_read_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    told = refusal(tmp_path, **claimed(quantity=text))
    assert not told or "papers/tiny/" in told
