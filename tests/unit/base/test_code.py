"""The digest of the code behind a result, and the version of its numerics."""

import ast
from pathlib import Path

import pytest

from leakbench.base import code
from leakbench.base import numerics as module
from leakbench.base.code import PACKAGE, closure, code_digest
from leakbench.base.errors import UserError
from leakbench.base.numerics import changed, declared, numerics

CACHED = (code._file, code._imports, code.closure, code._named_bytes, code.code_digest)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "one.py": "from leakbench.two import thing\nimport os\nfrom leakbench import room\n",
        "two.py": "def thing():\n    from leakbench.room.part import x\n    import leakbench.three\n",
        "three.py": "from leakbench.one import y\n", "room/part.py": "from torch import nn\n",
        **dict.fromkeys(("apart.py", "room/__init__.py", "room/other.py"), ""),
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(code, "PACKAGE", tmp_path)
    for cached in CACHED:
        cached.cache_clear()
    return tmp_path


@pytest.fixture(autouse=True)
def forget() -> object:
    yield
    for cached in CACHED:
        cached.cache_clear()


def names(package: Path, *modules: str) -> set[str]:
    return {str(path.relative_to(package)) for path in closure(*modules)}


def test_the_closure_follows_imports_also_inside_functions_and_in_circles(package: Path) -> None:
    room = {"room/__init__.py", "room/part.py"}
    assert names(package, "leakbench.one") == {"one.py", "two.py", "three.py"} | room
    assert names(package, "leakbench.apart") == {"apart.py"}
    assert names(package, "leakbench.room") == {"room/__init__.py"}
    assert names(package, "leakbench.gone") == set()
    assert names(package, "leakbench.apart", "leakbench.room.other") == {"apart.py", "room/other.py"}


def test_the_lines_of_a_file_say_what_its_syntax_says() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 200
    for path in paths:
        names: set[str] = set()
        tree = ast.parse(path.read_text())
        # What is imported for its type alone changes no result.
        guards = (each for each in tree.body if isinstance(each, ast.If))
        typed = (each for each in guards if ast.unparse(each.test) == "TYPE_CHECKING")
        asked = {id(node) for each in typed for node in each.body}
        for node in (node for node in ast.walk(tree) if id(node) not in asked):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert not node.level
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found = {code._file(name) for name in names if name.startswith("leakbench.")} - {None}
        assert code._imports(path) == found, path


def test_the_digest_changes_with_bytes_and_names_of_the_closure_alone(package: Path) -> None:
    def fresh() -> str:
        for cached in CACHED:
            cached.cache_clear()
        return code_digest("leakbench.one")

    first = fresh()
    assert len(first) == 64
    (package / "apart.py").write_text("x = 1\n")
    assert fresh() == first
    (package / "room" / "part.py").write_text("from torch import nn  # changed\n")
    second = fresh()
    assert second != first
    (package / "three.py").rename(package / "four.py")
    (package / "two.py").write_text((package / "two.py").read_text().replace("three", "four"))
    assert fresh() not in (first, second)


def test_the_real_attack_reaches_its_parts_and_no_truth() -> None:
    files = names(PACKAGE, "leakbench.jobs.attack", "leakbench.attacks.fidel")
    reached = "attacks/fidel", "observations/observation", "base/artefacts", "base/seeds", "networks/layers"
    assert {f"{name}.py" for name in reached} <= files
    refused = ("datasets/", "federation/", "metrics/", "jobs/capture")
    assert not [name for name in files if name.startswith(refused)]
    assert not [name for name in files if name.startswith("networks/victims/") and name.endswith("nn.py")]


def rooms(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_file_says_its_version_and_most_say_none(tmp_path: Path) -> None:
    says = "import os\n\n# why\nNUMERICS = 2  # the error is carried\n"
    made = rooms(tmp_path, a="x = 1\n", b=says, c="NUMERICS: int = 13\n")
    assert {path.stem: version for path, version in declared(made).items()} == {"b": 2, "c": 13}


@pytest.mark.parametrize("said", ["0", "-1", "1.5", '"2"', "True", "01", "", "2 + 1", "VERSION"])
def test_a_version_that_is_no_positive_whole_number_is_one_line(said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.py: NUMERICS: is .* and must be one positive whole number"):
        declared(rooms(tmp_path, a=f"NUMERICS = {said}\n"))


def test_two_versions_in_a_file_or_two_files_of_one_name_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.py: NUMERICS: is 2 and 3"):
        declared(rooms(tmp_path, a="NUMERICS = 2\nNUMERICS = 3\n"))
    (tmp_path / "room").mkdir()
    rooms(tmp_path, a="NUMERICS = 2\n")
    rooms(tmp_path / "room", a="NUMERICS = 2\n")
    with pytest.raises(UserError, match=r"room/a\.py: NUMERICS: .*/a\.py has the same name"):
        declared(tmp_path)


def test_only_what_a_module_reaches_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, chain = PACKAGE / "attacks/matching/loop.py", PACKAGE / "metrics/ssim.py"
    monkeypatch.setattr(module, "declared", lambda: {loop: 2, chain: 3, PACKAGE / "attacks/peel.py": 1})
    assert numerics(["leakbench.attacks.gradient_matching"]) == {"loop": 2}
    assert numerics(["leakbench.datasets.idx"]) == {}
    assert numerics(["leakbench.attacks.peel"]).keys() <= {"loop"}


def test_a_change_is_said_in_words() -> None:
    assert changed({}, {}) == changed({"a": 2}, {"a": 2}) == ""
    assert changed({}, {"peel": 2}) == "measured with numerics 1 of peel, today's is 2"
    assert changed({"a": 3}, {"b": 2}) == (
        "measured with numerics 3 of a, today's is 1; measured with numerics 1 of b, today's is 2"
    )
