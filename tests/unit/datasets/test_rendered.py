"""Stand-ins for rendered word sets: what they say is what is drawn, the same from the same seed, and the two
look different."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from catalogued import spec

from leakbench.base.errors import UserError
from leakbench.datasets import fetch, rendered
from leakbench.datasets.official import Unavailable
from leakbench.datasets.words import codes, spelt

GROUNDS = ["plain", "photographs"]


def drawn(ground: Any, **changes: int) -> dict[str, np.ndarray]:
    return rendered.rendered(Path(), **{"ground": ground, "train": 40, "test": 20, **changes}).tensors


WORDS = rendered.words()


def test_the_list_is_of_plain_words() -> None:
    assert len(WORDS) > 1000
    assert all(len(codes(word)) == len(word) <= 25 and word.islower() for word in WORDS)


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_seed_draws_the_same_again(ground: str) -> None:
    first, again, other = drawn(ground), drawn(ground), drawn(ground, seed=7)
    for name, array in first.items():
        assert np.array_equal(array, again[name]), name
    assert not np.array_equal(first["train/labels"], other["train/labels"])
    assert not np.array_equal(first["train/labels"][:20], first["test/labels"])
    # More of a split begin as fewer do.
    assert np.array_equal(drawn(ground, train=10)["train/images"], first["train/images"][:10])


@pytest.mark.parametrize("ground", GROUNDS)
def test_words_and_numbers_are_drawn(ground: str) -> None:
    tensors = drawn(ground)
    assert tensors["train/images"].shape == (40, 32, 100, 3)
    texts = [spelt(label).lower() for label in tensors["train/labels"]]
    assert all(text in WORDS or (text.isdigit() and len(text) <= 4) for text in texts)
    assert tensors["train/lengths"].tolist() == [len(text) for text in texts]
    assert any(text.isdigit() for text in texts)
    # Every picture shows something.
    assert tensors["train/images"].std(axis=(1, 2, 3)).min() > 5
    # A longer word is wider.
    assert np.corrcoef(tensors["train/widths"], tensors["train/lengths"])[0, 1] > 0.7


def test_the_same_word_looks_the_same_and_another_does_not() -> None:
    """Two drawings of a word in black on white, of one font and margins, differ by nothing; those of two
    words do."""
    masks = [
        np.asarray(rendered.mask(text, "DejaVuSans", np.random.default_rng(0), 0))
        for text in ("STATION", "STATION", "STATIQN")
    ]
    assert np.array_equal(masks[0], masks[1])
    assert masks[0].shape != masks[2].shape or np.abs(masks[0].astype(int) - masks[2]).max() > 100
    # Nothing of the word is cut off: its margins are dark.
    assert masks[0][[0, -1]].max() == masks[0][:, [0, -1]].max() == 0
    assert masks[0].max() == 255


def test_the_two_sets_are_told_apart_at_a_glance() -> None:
    plain, photos = (drawn(ground)["train/images"].astype(float) for ground in GROUNDS)
    assert (plain == plain[..., :1]).all()
    colour = np.ptp(photos, axis=3).mean((1, 2))
    assert (colour > 10).mean() > 0.9
    # A word on plain ground has most of its pixels at the level of the ground.
    edge = [np.abs(image[0] - image[-1]).mean() for image in plain]
    assert np.mean(edge) < np.mean([np.abs(image[0] - image[-1]).mean() for image in photos])


@pytest.mark.parametrize("name", ["words-plain", "words-over-photos"])
def test_they_are_fetched_without_any_folder_and_called_stand_ins(name: str, tmp_path: Path) -> None:
    from leakbench.base.artefacts import open_tensors

    drawing = spec(name)
    drawing["parameters"] |= {"train": 4, "test": 3}
    fetch(drawing, tmp_path / "out.safetensors", [tmp_path], tmp_path / "scratch")
    tensors, facts = open_tensors(tmp_path / "out.safetensors")
    assert len(tensors["train/images"]) == 4
    assert str(facts["source"]).startswith("drawn by leakbench")
    assert "a stand-in, not a published set" in str(facts["source"])


def test_another_list_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "list.txt").write_text("other words\n")
    monkeypatch.setattr(rendered, "_LIST", tmp_path / "list.txt")
    rendered.words.cache_clear()
    with pytest.raises(UserError, match="write the new one into rendered"):
        rendered.words()


def test_without_the_fonts_the_reason_is_said() -> None:
    with pytest.raises(Unavailable, match="the installed matplotlib brings no no-such-folder"):
        rendered.beside("matplotlib", "no-such-folder")
