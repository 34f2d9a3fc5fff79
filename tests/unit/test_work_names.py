"""Only papers/ knows a paper: no room that judges, draws or tells results has the name of one in its code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/leakbench"
WORKS = re.compile(r"(?<![a-z])(fidel|agic|grnn|fedboosting|fedkl|thesis)(?![a-z])", re.IGNORECASE)


def named(path: Path) -> Iterator[str]:
    """Yield every name and text in a file's code that names a work; comments and docstrings may cite one."""
    yield path.stem
    tree = ast.parse(path.read_text())
    cited = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in cited:
                yield text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.alias(name=text):
                yield text
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield text


@pytest.mark.parametrize(
    "room",
    [
        "results/figures",
        "papers",
        "results/report",
        "papers/scorecard",
        "papers/verdicts",
        "metrics/scoring",
        "results/tables",
    ],
)
def test_no_room_that_judges_or_tells_results_names_a_paper(room: str) -> None:
    files = sorted((PACKAGE / room).glob("*.py"))
    assert files
    found = {f"{path.name}: {text}" for path in files for text in named(path) if WORKS.search(text)}
    assert not found


def test_a_name_in_code_is_found_and_one_in_a_docstring_is_not(tmp_path: Path) -> None:
    code = (
        '"""Cites the thesis."""\ndef f(x):\n    """Fidel, Fig. 8."""\n    return x["fidel"], read_agic(x)\n'
    )
    (tmp_path / "a.py").write_text(code)
    assert [text for text in named(tmp_path / "a.py") if WORKS.search(text)] == ["fidel", "read_agic"]
