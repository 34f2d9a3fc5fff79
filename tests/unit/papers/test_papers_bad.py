"""A mistake in papers/ is one line that names file and key, whatever it is."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests_world import CLAIMS, MAP, PAPER, PRINT, TRUE, card, evidence, lines, paper, unused_words

from leakbench.base.errors import UserError
from leakbench.papers.work import read_papers

CLAIM = CLAIMS["claims"][0]
# The first printed row, as messages locate it.
ROW = r"papers/tiny/measured\.yaml: table-1: tiny\.table-1\.1: "


def judged(tmp_path: Path, **files: Any) -> None:
    card(paper(tmp_path, **files), evidence({"tiny-table-1": lines("tiny-table-1", TRUE)}))


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


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"paper": PAPER | {"yeer": 2024}}, r"paper\.yaml: yeer: .*did you mean 'year'"),
        ({"paper": "title: [", }, r"paper\.yaml: line \d+: "),
        ({"paper": PAPER | {"lengths": {"fast": 0}}}, r"paper\.yaml: lengths\.fast: "),
        (
            {"differs": {"tiny.table-9.1": {"hypothesis": "a"}}},
            r"differs\.yaml: tiny\.table-9\.1: tiny has no such row or claim",
        ),
        ({"differs": {"tiny.table-1.1": {"cause": "a"}}}, r"differs\.yaml: tiny\.table-1\.1: cause: "),
        (
            {"differs": {"tiny.table-1.1": {"hypothesis": "a", "variant": "b"}}},
            r"differs\.yaml: tiny\.table-1\.1: .*variant and outcome belong together",
        ),
        ({"differs": {"tiny.table-1.1": "because"}}, r"differs\.yaml: tiny\.table-1\.1: "),
        (
            {"measured": {"table-9": {}}},
            r"measured\.yaml: table-9: no such file in tables/ \(there are: table-1\)",
        ),
        ({"measured": {}}, r"measured\.yaml: table-1: says nothing of tiny\.table-1\.1"),
        (mapped(dataset={"by": "set"}), r"measured\.yaml: table-1\.dataset: by: no printed column 'set'"),
        (
            mapped(dataset={"by": "dataset", "Digits": "digits"}),
            r"table-1\.dataset: no value for 'Photos', which tiny\.table-1\.3 prints",
        ),
        (mapped(dataset=["digits"]), r"table-1\.dataset: a list has no place here"),
        (mapped(colour="red"), rf"{ROW}table tiny-table-1: no column 'colour'"),
        (mapped(attack=None), rf"{ROW}table tiny-table-1: 2 rows match .*\(they differ in attack\)"),
        (mapped(experiment="nothing"), rf"{ROW}no experiment is named 'nothing'"),
        (mapped(experiment=None), r"measured\.yaml: table-1: experiment: is missing for tiny\.table-1\.1"),
        (
            mapped(convention="published"),
            r"table-1\.convention: tiny\.table-1\.1 is printed in the other convention",
        ),
        (mapped(against={"attack": "Other"}), r"table-1\.against: no printed row is tiny\.table-1\.1 with"),
        (mapped(against={"colour": "red"}), r"table-1\.against: no printed column 'colour'"),
        (mapped(unit=0), r"measured\.yaml: table-1\.unit: .*greater than 0"),
        (mapped(unit=float("inf")), r"table-1\.unit: .*finite"),
        (mapped(repeats="many"), r"table-1\.repeats: .*valid integer"),
        (mapped(tolerance=-1), r"table-1\.tolerance: "),
        (mapped(success="perhaps"), r"table-1\.success: .*valid boolean"),
        (mapped(hidden="perhaps"), r"table-1\.hidden: .*valid boolean"),
        (mapped(hidden=True, success=True), r"tiny\.table-1\.1 is given as a success and as hidden"),
        (mapped(rival="colour"), r"table-1\.rival: no printed column 'colour'"),
        (mapped(trivial=1), r"table-1\.trivial: .*valid string"),
        ({"paper": PAPER | {"unstated": ["steps"]}}, r"paper\.yaml: unstated\.0: .*'iterations'"),
        ({"paper": PAPER | {"core": "perhaps"}}, r"paper\.yaml: core: .*valid boolean"),
        (claimed(hidden=True, success=True), r"claims\.yaml: .*hidden: belongs to an inequality"),
        (claimed(hidden=True, relation="="), r"claims\.yaml: .*hidden: belongs to an inequality"),
        (claimed(trivial=1), r"claims\.yaml: claims\.0\.trivial: .*valid string"),
        (mapped(**{"class": "great"}), r"table-1\.class: .*'result', 'setting', 'arithmetic' or 'doubt'"),
        (mapped(note=[1]), r"table-1\.note: a list has no place here"),
        (mapped(note=1), r"table-1\.note: .*valid string"),
        ({"measured": {"let": [1], **MAP}}, r"measured\.yaml: let: must be a mapping"),
        ({"paper": PAPER | {"conventions": [{"item": "(", "metric": "x"}]}}, r"conventions\.0\.item: .*reg"),
        ({"paper": PAPER | {"lengths": {"fast": float("inf")}}}, r"paper\.yaml: lengths\.fast: .*finite"),
        (mapped(tells="stories"), r"table-1\.tells: 'stories' is no way to measure"),
        (mapped(check="nothing"), r"check: no function nothing in .*checks\.py"),
        (
            mapped(quantity="at(", attack=None),
            r"measured\.yaml: table-1: tiny\.table-1\.1: .*mend the expression",
        ),
        (mapped(needs="own() is fine"), r"needs: .*compares nothing"),
        (claimed(threshold=float("nan")), r"claims\.yaml: claims\.0\.threshold: .*finite"),
        (claimed(tolerance=float("inf")), r"claims\.yaml: claims\.0\.tolerance: .*finite"),
        (claimed(id="tiny.<b>"), r"id 'tiny\.<b>' is not of letters"),
        (claimed(quantity="[" * 50 + "]" * 50), r"fast-better: \[.{,60} is no quantity"),
        ({"claims": {"let": {"at": 1}, "claims": [CLAIM]}}, r"fast-better: let: 'at' is a function"),
        (claimed(quantity="1 +"), r"claims\.yaml: tiny\.table-1\.fast-better: .*mend the expression"),
        (claimed(quantity="open('x')"), r"open is no function here"),
        (claimed(quantity="at.__class__"), r"Attribute has no place in an expression"),
        (claimed(quantity="at(attack=fast)"), r"no name 'fast'"),
        (claimed(quantity="at(experiment='none', attack='fast')"), r"no experiment is named 'none'"),
        (claimed(quantity="mean([])"), None),
        (claimed(quantity="mean(3)"), r"fast-better: TypeError"),
        (claimed(quantity="mean([at(attack='fast') for a in 'x' * 100000])"), r"fast-better: TypeError"),
        (mapped(otherwise="victim"), r"table-1\.otherwise: must map columns"),
        (mapped(beside={"by": "attack", "else": "x"}), r"table-1\.beside: must map columns"),
        (claimed(quantity="measured('no.such')"), r"measured: no row or claim 'no\.such'"),
        (claimed(quantity="printed('no.such')"), r"printed: no row 'no\.such'"),
        (claimed(quantity="printed('tiny.table-1.1', 3)"), r"fast-better: IndexError"),
        (claimed(quantity="values('colour')[0]"), r"values: no column 'colour'"),
        (claimed(quantity="word('attack')"), r"word: no printed column 'attack'"),
        (mapped(quantity="word('colour')"), r"table-1: tiny\.table-1\.1: word: no printed column 'colour'"),
        (claimed(quantity="f'{at(attack=\"fast\")}'"), r"fast-better: '30' is no quantity"),
        (claimed(headline="Fast wins."), r"claims\.yaml: claims\.0: .*headline: must hold the"),
        (claimed(headline="{value} {n}"), r"claims\.yaml: claims\.0: .*headline: must hold the"),
        (claimed(check="x"), r"claims\.yaml: claims\.0: .*exactly one of quantity, check and absent"),
        (claimed(relation="about"), r"claims\.yaml: claims\.0\.relation: "),
        (claimed(id="other.x"), r"id 'other\.x' must begin with 'tiny'"),
        (claimed(id="tiny.table-1.1"), r"id 'tiny\.table-1\.1' is also in"),
        (
            {"print": PRINT.replace("id,source", "key,source")},
            r"table-1\.csv: line 1: id: the column is missing",
        ),
        (
            {"print": PRINT.replace("std,note", "std,std")},
            r"table-1\.csv: line 1: std: is the name of two columns",
        ),
        (
            {"print": PRINT.replace("30.0", "nan")},
            rf"{ROW}prints 'nan', with which no number can be compared",
        ),
        ({"print": PRINT.replace("tiny.table-1.2,", ",")}, r"table-1\.csv: line 3: id: is empty"),
        (
            {"print": PRINT + "tiny.table-1.5,tiny\n"},
            r"table-1\.csv: line 6: tiny\.table-1\.5: 2 cells for 9 columns",
        ),
        ({"checks": "import nothing_at_all"}, r"checks\.py: ModuleNotFoundError"),
        ({"checks": "raise SystemExit(3)"}, r"checks\.py: SystemExit: 3 \(mend the file\)"),
        (
            mapped(check="odd") | {"checks": "def odd(view, words):\n    return 1 / 0\n"},
            r"tiny\.table-1\.1: check: odd: ZeroDivisionError: division by zero \(mend .*checks\.py\)",
        ),
        (
            mapped(check="odd") | {"checks": "def odd(view, words):\n    raise SystemExit(3)\n"},
            r"check: odd: SystemExit: 3 ",
        ),
        (mapped(check="odd") | {"checks": "def odd():\n    return 1\n"}, r"check: odd: TypeError: "),
        (claimed(quantity="row(attack='Slow')"), r"fast-better: row\(\): a claim is no printed row"),
        (claimed(quantity="at(attack='fast', attack='slow')"), r"fast-better: SyntaxError: keyword"),
        (claimed(tolerance=0.1, relation=">"), r"tolerance: belongs to the relation = alone, not to >"),
        (
            mapped(rows={"tiny.table-1.9": {"note": "gone"}}),
            r"table-1\.rows: tiny\.table-1\.9: is no printed row of table-1\.csv \(did you mean",
        ),
        (mapped(rows=[1]), r"measured\.yaml: table-1: must be a mapping"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(files: dict[str, Any], message: str | None, tmp_path: Path) -> None:
    if message is None:
        return judged(tmp_path, **files)
    with pytest.raises(UserError, match=message) as caught:
        judged(tmp_path, **files)
    assert "\n" not in str(caught.value)


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
KEYS = st.sampled_from(
    [
        *MAP["table-1"],
        "unit",
        "needs",
        "quantity",
        "fact",
        "absent",
        "check",
        "class",
        "tells",
        "success",
        "beside",
        "repeats",
        "tolerance",
        "unit_std",
        "otherwise",
        "x",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, ANYTHING, max_size=3))
def test_whatever_a_map_holds_it_is_read_or_refused_in_one_line(tmp_path: Path, keys: dict[str, Any]) -> None:
    assert "\n" not in refusal(tmp_path, **mapped(**keys))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("at()[]{}+-*/=<>'\",.: fastslowmeanforinif1230x", max_size=60))
def test_whatever_an_expression_is_it_is_read_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    assert "\n" not in refusal(tmp_path, **claimed(quantity=text))
