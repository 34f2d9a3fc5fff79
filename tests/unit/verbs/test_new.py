"""`leakbench new` writes all files of a part or none, under a name that Python can have."""

from pathlib import Path

import pytest

from leakbench.errors import UserError
from leakbench.verbs import new as module
from leakbench.verbs.new import kinds, new


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return an empty checkout with a folder for every file of a part."""
    for kind in kinds():
        for file in (module.TEMPLATES / kind).rglob("*.txt"):
            top, *rest = file.relative_to(module.TEMPLATES / kind).parts
            room = tmp_path / ("src/leakbench" if top == "src" else top)
            room.joinpath(*rest).parent.mkdir(parents=True, exist_ok=True)
    return tmp_path


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", kinds())
def test_nothing_stays_where_one_file_cannot_be_written(
    kind: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = module.write_text

    def once(path: Path, text: str) -> None:
        if files(checkout):
            raise UserError(f"{path}: permission denied")
        write(path, text)

    monkeypatch.setattr(module, "write_text", once)
    with pytest.raises(UserError, match="permission denied"):
        new(checkout, kind, "my-part")
    assert files(checkout) == []
    monkeypatch.setattr(module, "write_text", write)
    new(checkout, kind, "my-part")
    assert len(files(checkout)) >= 2


@pytest.mark.parametrize("name", ["class", "lambda", "import"])
def test_a_word_of_python_is_no_name_of_a_part(name: str, checkout: Path) -> None:
    with pytest.raises(UserError, match=rf"^'{name}' is a word of Python's own"):
        new(checkout, "attack", name)
    assert files(checkout) == []
