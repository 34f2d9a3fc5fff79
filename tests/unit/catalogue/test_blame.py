"""An error within planning names the file that it is due to."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from planning import MATCHING, planned

from leakbench.base.errors import UserError
from leakbench.base.parts import place
from leakbench.catalogue import load, signature
from leakbench.catalogue.load import blamed, odd
from leakbench.catalogue.signature import definition, parameters_model, part_names


def forget() -> None:
    for read in (definition, parameters_model, part_names):
        read.cache_clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a package in which only objectives/part.py is looked at."""
    folder = tmp_path / "package"
    (folder / place("objectives")).mkdir(parents=True)
    for module in (load, signature):
        monkeypatch.setattr(module, "PACKAGE", folder)
    forget()
    yield folder
    forget()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"x = 1\ndef part(:\n", "line 2: invalid syntax"),
        (b"x = 1\n\0\n", "line 2: "),
        (b"x = 1\n# \xff\n", "line 2: is no UTF-8"),
        (b"\ndef part(*, x: Annotated[int, Field(gt='x')]): ...\n", "annotation is no plain one: "),
        (b"\ndef part(*, x: Literal[()]): ...\n", "annotation is no plain one: "),
    ],
)
def test_a_part_that_cannot_be_read_is_named(text: bytes, says: str, package: Path) -> None:
    path = package / place("objectives") / "part.py"
    path.write_bytes(text)
    says = rf"^{re.escape(str(path))}: .*{says}.* \(mend "
    with pytest.raises(UserError, match=says), blamed(package):
        parameters_model("objectives", "part")


def test_an_error_that_no_file_is_to_blame_for_stays(root: Callable[..., Path]) -> None:
    with pytest.raises(ZeroDivisionError), blamed(root() / "config"):
        raise ZeroDivisionError


@pytest.mark.parametrize("objective", [[3], [None], ["cosine", ["squares"]]])
@pytest.mark.parametrize("key", ["objective", "variants.v.objective", "grid: v.objective"])
def test_a_section_that_names_no_part_is_refused_with_file_and_key(
    objective: Any, key: str, root: Callable[..., Path]
) -> None:
    change = {"v": {"objective": objective}}
    changes = {"o": change["v"], "v": {"variants": change}, "g": {"grid": [[change]]}}
    checkout = root({"attacks/m": {"summary": "x", **MATCHING} | changes[key[0]]})
    says = rf"config/attacks/m.yaml: {key}: .* names no part \("
    with pytest.raises(UserError, match=says), blamed(checkout / "config"):
        planned(checkout)


@pytest.mark.parametrize("objective", [None, "squares", ["squares"], [{"squares": None}], {"squares": {}}])
def test_each_form_of_a_section_is_taken(objective: Any) -> None:
    assert odd({"objective": objective}) == ""
