"""Code that differs from a commit in comments, docstrings and layout is the same program; no other is."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from leakbench.catalogue import program
from leakbench.catalogue.program import changes

CODE = '''"""A module."""

import math

LIMIT = "a limit"  # of what


class Circle:
    """A circle."""

    def area(self, r: float) -> float:
        """Return the area."""
        return math.pi * r**2


def nothing() -> None:
    """Do nothing."""
'''
SAME = {
    "docstrings": ("A circle", "A round\n    thing"),
    "a docstring that is gone": ('        """Return the area."""\n', ""),
    "comments": ("# of what", "# of all"),
    "layout": ("math.pi * r**2", "(\n            math.pi * r**2\n        )"),
}
OTHER = {
    "a number": ("r**2", "r**3"),
    "a string": ('"a limit"', '"a border"'),
    "a name": ("def area", "def surface"),
    "an annotation": ("r: float", "r: int"),
    "an order": ('import math\n\nLIMIT = "a limit"', 'LIMIT = "a limit"\n\nimport math'),
    "a string behind a docstring": (
        '        """Return the area."""\n',
        '        """A."""\n        """B."""\n',
    ),
}


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package with a file in git, in a folder of its checkout."""
    folder = tmp_path / "checkout/src/package"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text(CODE)
    git(tmp_path, "init", "--quiet", "checkout")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "a")
    monkeypatch.setattr(program, "PACKAGE", folder)
    return folder


def anything(_: Mapping[str, bytes]) -> bool:
    return True


def after(package: Path, change: tuple[str, str]) -> list[str]:
    """Change the file and return the files that are another program."""
    assert change[0] in CODE
    (package / "a.py").write_text(CODE.replace(*change))
    commit, apart = changes(["a.py"], ["HEAD"], anything)
    assert commit == "HEAD"
    return apart


@pytest.mark.parametrize("kind", SAME)
def test_words_about_code_leave_it_the_same_program(package: Path, kind: str) -> None:
    assert after(package, SAME[kind]) == []


def test_a_docstring_where_there_was_none_leaves_it_the_same_program(package: Path) -> None:
    (package / "a.py").write_text(CODE.replace('        """Return the area."""\n', ""))
    git(package, "commit", "--quiet", "--all", "--message", "b")
    (package / "a.py").write_text(CODE)
    assert changes(["a.py"], ["HEAD"], anything) == ("HEAD", [])


@pytest.mark.parametrize("kind", OTHER)
def test_anything_else_makes_it_another_program(package: Path, kind: str) -> None:
    assert after(package, OTHER[kind]) == ["a.py"]


def test_a_commit_counts_that_has_the_very_files_of_the_result(package: Path) -> None:
    first = git(package, "rev-parse", "HEAD")
    (package / "a.py").write_text(CODE.replace("of what", "of some"))
    git(package, "commit", "--quiet", "--all", "--message", "b")
    found = changes(["a.py"], ["HEAD", first[:10]], lambda files: files == {"a.py": CODE.encode()})
    assert found == (first[:10], [])
    assert changes(["a.py"], ["HEAD", first], lambda files: False) == ("", [])


def test_the_commit_with_the_fewest_changes_is_named(package: Path) -> None:
    first = git(package, "rev-parse", "HEAD")
    (package / "a.py").write_text(CODE.replace("r**2", "r**3"))
    git(package, "commit", "--quiet", "--all", "--message", "b")
    assert changes(["a.py"], [first, "HEAD"], anything) == ("HEAD", [])


@pytest.mark.parametrize("commit", ["0" * 40, "master; true", "HEAD\nHEAD", "", "--help", "HEAD:../x"])
def test_what_names_no_commit_has_no_files(package: Path, commit: str) -> None:
    assert changes(["a.py"], [commit], anything) == ("", [])


def test_a_file_that_a_commit_lacks_is_not_the_same(package: Path) -> None:
    (package / "b.py").write_text("")
    assert changes(["a.py", "b.py"], ["HEAD"], anything) == ("HEAD", ["b.py"])


def test_a_commit_is_asked_for_the_files_that_its_own_code_reaches(package: Path) -> None:
    """Modules reach other files today than when the result was made."""
    (package / "catalogue").mkdir()
    for name in ("__init__.py", "catalogue/__init__.py"):
        (package / name).write_text("")
    (package / "catalogue/code.py").write_text(
        "from pathlib import Path\n"
        "PACKAGE = Path(__file__).parents[1]\n"
        "def closure(*modules): return sorted(PACKAGE.glob('[!_]*.py'))\n"
    )
    (package / "gone.py").write_text("x = 1")
    git(package, "add", ".")
    git(package, "commit", "--quiet", "--message", "b")
    first = git(package, "rev-parse", "HEAD")
    (package / "gone.py").unlink()
    (package / "b.py").write_text("")
    git(package, "commit", "--quiet", "--all", "--message", "c")

    def made(files: Mapping[str, bytes]) -> bool:
        return files == {"a.py": CODE.encode(), "gone.py": b"x = 1"}

    names = ["a.py", "b.py"]
    assert changes(names, [first, "HEAD"], made, ["a"]) == (first, ["b.py"])
    assert changes(names, [first, "HEAD"], made) == ("", [])
    assert changes(names, ["HEAD", first], made, ["a"]) == (first, ["b.py"])


def test_without_git_nothing_is_known(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert changes(["a.py"], ["HEAD"], anything) == ("", [])
