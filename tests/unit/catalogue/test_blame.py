"""A part's file, or an attack's YAML, that cannot be read is named with its line or key."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from planning import MATCHING, planned

from leakbench.base.errors import UserError
from leakbench.base.parts import place
from leakbench.catalogue import signature
from leakbench.catalogue.load import odd
from leakbench.catalogue.signature import constant, declared_metrics, parameters_model


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget: None) -> Path:
    monkeypatch.setattr(signature, "PACKAGE", tmp_path / "package")
    return tmp_path / "package"


UNREAD = {
    b"x = 1\ndef part(:\n": "line 2: invalid syntax", b"x = 1\n\0\n": "line 2: ",
    b"x = 1\n# \xff\n": "line 2: is no UTF-8",
    b"\ndef part(*, x: Annotated[int, Field(gt='x')]): ...\n": "annotation is no plain one: ",
    b"\ndef part(*, x: Literal[()]): ...\n": "annotation is no plain one: ",
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), UNREAD.items())
def test_a_part_that_cannot_be_read_is_named(text: bytes, says: str, package: Path) -> None:
    path = package / place("objectives") / "part.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    says = rf"^{re.escape(str(path))}: .*{says}.* \(mend "
    with pytest.raises(UserError, match=says):
        parameters_model("objectives", "part")


@pytest.mark.parametrize("read", [declared_metrics, lambda: constant("metrics", "part", "COST", None)])
def test_a_metric_that_is_no_python_is_one_line(read: Callable[[], Any], package: Path) -> None:
    (package / "metrics").mkdir(parents=True)
    (package / "metrics/part.py").write_text("COST = 1\ndef class(): ...\n")
    with pytest.raises(UserError, match=r"part.py: line 2: invalid syntax \(mend the file\)$"):
        read()


@pytest.mark.parametrize("objective", [[3], [None], ["cosine", ["squares"]]])
@pytest.mark.parametrize("key", ["objective", "variants.v.objective", "grid: v.objective"])
def test_a_section_that_names_no_part_is_refused_with_file_and_key(
    objective: Any, key: str, root: Callable[..., Path]
) -> None:
    change = {"v": {"objective": objective}}
    changes = {"o": change["v"], "v": {"variants": change}, "g": {"grid": [[change]]}}
    with pytest.raises(UserError, match=rf"config/attacks/m.yaml: {key}: .* names no part \("):
        planned(root({"attacks/m": {"summary": "x", **MATCHING} | changes[key[0]]}))


@pytest.mark.parametrize("objective", [None, "squares", ["squares"], [{"squares": None}], {"squares": {}}])
def test_each_form_of_a_section_is_taken(objective: Any) -> None:
    assert odd({"objective": objective}) == ""
