"""Text is cut into sentences of tokens that name the text again, by a tokenizer made of public text."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbench.datasets.canonical import Damaged, Found, verify
from leakbench.datasets.letters import letters
from leakbench.datasets.official import Unavailable
from leakbench.datasets.text import encoded, text, tokenizer, words

SETTINGS: dict[str, Any] = {"files": ("a",), "separator": "%", "length": 4, "vocabulary": 30, "held_out": 2}


def made(folder: Path, content: str, **changed: Any) -> Found:
    (folder / "a").write_text(content)
    return text(folder, **SETTINGS | changed)


def spelt(found: Found, split: str) -> list[str]:
    tokens = np.rint(found.tensors[f"{split}/images"][:, 0, :, 0] * SETTINGS["vocabulary"]).astype(int)
    return [" ".join(found.classes[token] for token in row) for row in tokens]


def test_sentences_name_the_text_again(tmp_path: Path) -> None:
    found = made(tmp_path, "Tea, tea and milk!\n%\nMilk and tea - no milk and no tea.\n%\ntea and tea or x")
    assert spelt(found, "train") == ["milk and tea -", "no milk and no"]
    assert spelt(found, "test") == ["tea , tea and", "tea and tea o"]
    for split in ("train", "test"):
        tokens = np.rint(found.tensors[f"{split}/images"][:, 0, :, 0] * SETTINGS["vocabulary"])
        assert (found.tensors[f"{split}/labels"] == tokens[:, 1:]).all()
    verify(found, {})
    # Only public text makes words.
    classes = made(tmp_path, "secret secret secret secret\n%\nopen open open open open").classes
    assert ("open" in classes, "secret" in classes) == (True, False)


def test_unknown_words_fall_into_the_longest_known_pieces() -> None:
    known = tokenizer([words("cat Cat pack up")], "acktpu", 9)
    assert known == ["a", "c", "k", "p", "t", "u", "cat", "pack", "up"]
    numbers = {token: number for number, token in enumerate(known)}
    assert [known[n] for n in encoded(["catpackup", "ta"], numbers)] == ["cat", "pack", "up", "t", "a"]
    assert words("It's 3_O.K.") == ["it", "'", "s", "3", "_", "o", ".", "k", "."]


def test_text_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="no text of 4 tokens"):
        made(tmp_path, "one two")
    with pytest.raises(Damaged, match="5 signs"):
        made(tmp_path, "a b c d e\n%\na b c d e", vocabulary=2)
    (tmp_path / "a").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(Damaged, match="a text that is cut short"):
        text(tmp_path, **SETTINGS)


def test_letters_are_the_same_in_every_run_and_their_people_are_invented(tmp_path: Path) -> None:
    pytest.importorskip("faker")
    one, two, other = (letters(tmp_path, letters=20, vocabulary=400, seed=seed) for seed in (3, 3, 4))
    verify(one, {})
    assert (one.tensors["test/images"] == two.tensors["test/images"]).all()
    assert not np.array_equal(one.tensors["test/images"], other.tensors["test/images"])
    assert {"hospital", "born"} < set(one.classes)


def test_letters_without_faker_are_absent_and_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "faker", None)
    with pytest.raises(Unavailable, match=r"install leakbench\[text\]"):
        letters(tmp_path)
