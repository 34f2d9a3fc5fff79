"""Numerics versions: said in a file, read as text, and known by the file's name wherever it lies."""

from pathlib import Path

import pytest

from leakbench.base import numerics as module
from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.base.numerics import changed, declared, numerics


def package(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_file_says_its_version_and_most_say_none(tmp_path: Path) -> None:
    says = "import os\n\n# why\nNUMERICS = 2  # the error is carried\n"
    made = package(tmp_path, a="x = 1\n", b=says, c="NUMERICS: int = 13\n")
    assert {path.stem: version for path, version in declared(made).items()} == {"b": 2, "c": 13}


@pytest.mark.parametrize("said", ["0", "-1", "1.5", '"2"', "True", "01", "", "2 + 1", "VERSION"])
def test_a_version_that_is_no_positive_whole_number_is_one_line(said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.py: NUMERICS: is .* and must be one positive whole number"):
        declared(package(tmp_path, a=f"NUMERICS = {said}\n"))


def test_two_versions_in_a_file_or_two_files_of_one_name_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.py: NUMERICS: is 2 and 3"):
        declared(package(tmp_path, a="NUMERICS = 2\nNUMERICS = 3\n"))
    (tmp_path / "room").mkdir()
    package(tmp_path, a="NUMERICS = 2\n")
    package(tmp_path / "room", a="NUMERICS = 2\n")
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
