"""The house does not grow without a reason (tests/house.py)."""

import ast
from pathlib import Path

import house
import pytest
import yaml

LIMITS = yaml.safe_load(house.LIMITS.read_text())


def test_nothing_grows_without_a_reason() -> None:
    now = house.measured()
    assert LIMITS.keys() == now.keys()
    grown = {name: value for name, value in now.items() if value > LIMITS[name]["now"]}
    assert not grown, (
        f"{grown}: make it smaller, or raise `now` in tests/house.yaml and write a reason beside it"
    )


def test_a_class_has_a_name_of_its_own() -> None:
    trees = [ast.parse(path.read_text()) for path in house.python(house.PACKAGE)]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sorted(names) == sorted(set(names))


def test_docstrings_comments_and_blank_lines_are_no_code() -> None:
    text = '"""Says\nmore."""\n\nx = 1  # why\n# what\n\n'
    text += 'def f():\n    """Says."""\n    return [\n        1,\n    ]\n'
    assert house.code(text) == 5


@pytest.mark.parametrize(
    ("arrows", "found"),
    [({("a", "b"), ("b", "c")}, 0), ({("a", "b"), ("b", "a"), ("b", "c")}, 1),
     ({("a", "b"), ("b", "c"), ("c", "a"), ("d", "e"), ("e", "d")}, 2)],
)  # fmt: skip
def test_circles_are_counted(arrows: set[tuple[str, str]], found: int) -> None:
    assert house.circles(arrows) == found


def test_imports_are_told_by_the_module_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house, "PACKAGE", tmp_path)
    (tmp_path / "room").mkdir()
    for name, text in {
        "room/__init__.py": "",
        "room/one.py": "from leakbench.room import two\nimport leakbench.room.three\nimport torch\n",
        "room/two.py": "from leakbench.room.three import x\n",
        "room/three.py": "x = 1\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert sorted(house.imports(sorted(tmp_path.rglob("*.py")))) == [
        ("room.one", "room.three"), ("room.one", "room.two"), ("room.two", "room.three"),
    ]  # fmt: skip
