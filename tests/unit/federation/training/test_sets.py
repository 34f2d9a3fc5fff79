"""The images of a study: which sets, how they are divided, and how batches are made of them."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from leakbench.base.artefacts import write_tensors
from leakbench.base.errors import UserError
from leakbench.federation.training.batches import PADDING, flip_crop, to_size
from leakbench.federation.training.sets import examined, told_apart, training_images
from leakbench.federation.training.shares import divide, hold_out


def write(path: Path, level: int, count: int = 4, **more: np.ndarray) -> Path:
    tensors: dict[str, np.ndarray] = {}
    for split in ("train", "test"):
        tensors[f"{split}/images"] = np.full((count, 2, 3, 1), level, np.uint8)
        tensors[f"{split}/labels"] = np.arange(count) + level
    write_tensors(path, tensors | more, {})
    return path


def test_images_of_several_sets_are_their_owners(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a", 10), write(tmp_path / "b", 20, count=3)]
    images, labels, owners = training_images(paths, None)
    assert images[:, 0, 0, 0].tolist() == [10] * 4 + [20] * 3
    assert labels.tolist() == [10, 11, 12, 13, 20, 21, 22]
    assert owners.tolist() == [0] * 4 + [1] * 3
    few, _, owners = training_images(paths, 2)
    assert few[:, 0, 0, 0].tolist() == [10, 10, 20, 20]
    assert owners.tolist() == [0, 0, 1, 1]
    # Images of one set are whose it says.
    assert training_images(paths[:1], None)[2] is None
    own = np.array([1, 0, 1, 0])
    assert training_images([write(tmp_path / "c", 10, **{"train/clients": own})], 3)[2].tolist() == [1, 0, 1]


def test_the_published_rule_counts_wide_plain_words_of_three_to_25_characters(tmp_path: Path) -> None:
    # Codes, length with signs, width, counted or not.
    words = [
        (5, 5, 160.0, True), (5, 5, 99.9, False), (5, 5, 100.0, True), (2, 2, 160.0, False),
        (3, 3, 160.0, True), (5, 6, 160.0, False), (25, 26, 400.0, False), (25, 25, 400.0, True),
    ]  # fmt: skip
    tensors = {
        "images": np.zeros((8, 32, 100, 3), np.uint8),
        "labels": np.array([[7] * codes + [-1] * (25 - codes) for codes, *_ in words]),
        "lengths": np.array([length for _, length, *_ in words]),
        "widths": np.array([width for *_, width, _ in words], np.float32),
    }
    write_tensors(tmp_path / "words", {f"test/{name}": value for name, value in tensors.items()}, {})
    found = examined(tmp_path / "words", None)
    assert found.counted.tolist() == [counted for *_, counted in words]
    assert len(examined(tmp_path / "words", 3).labels) == 3
    assert examined(write(tmp_path / "a", 10), None).counted is None


@pytest.mark.parametrize(("apart", "low", "high"), [(0, 0.4, 0.6), (12, 0.7, 0.95), (60, 0.99, 1.0)])
def test_owners_are_told_apart_as_far_as_their_images_differ(apart: int, low: float, high: float) -> None:
    rng, owners = np.random.default_rng(0), np.repeat([0, 1], 300)
    images = rng.integers(60, 160, (600, 8, 12, 3))
    # One corner of four by four pixels is brighter; a mean of its 48 numbers shakes by four levels.
    images[300:, :4, :4] += apart // 2
    assert low <= told_apart(torch.from_numpy(images.astype(np.uint8)), owners) <= high
    small = np.repeat([0, 1, 2], 20)
    grey = (small[:, None, None, None] * 40 + np.zeros((1, 2, 3, 1))).astype(np.uint8)
    assert told_apart(torch.from_numpy(grey), small) >= 2 / 3


LABELS = np.repeat(np.arange(5), 60)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("split", "alpha"), [("iid", None), ("dirichlet", 0.5)])
def test_every_image_is_some_clients_once(split: str, alpha: float | None) -> None:
    shares = divide(LABELS, 3, split, alpha, rng())
    assert sorted(np.concatenate(shares)) == list(range(len(LABELS)))
    assert split != "iid" or {len(share) for share in shares} == {100}
    # What is held out is not trained on.
    kept, held = hold_out(200, 0.1, rng())
    assert (len(kept), len(held), sorted([*kept, *held])) == (180, 20, list(range(200)))


def skew(alpha: float) -> float:
    """Mean over clients and draws of the share of a client's commonest class."""
    found = [
        np.bincount(LABELS[share], minlength=5).max() / len(share)
        for seed in range(20)
        for share in divide(LABELS, 3, "dirichlet", alpha, rng(seed))
    ]
    return float(np.mean(found))


def test_a_smaller_concentration_makes_clients_less_alike() -> None:
    assert skew(0.1) > skew(1.0) + 0.1 > skew(1000.0) + 0.1
    assert skew(1000.0) == pytest.approx(0.2, abs=0.03)


def test_a_split_by_client_is_the_data_sets_own() -> None:
    owners = np.array([1, 0, 1, 1, 0])
    shares = divide(LABELS[:5], 2, "by-client", None, rng(), owners)
    assert [share.tolist() for share in shares] == [[1, 4], [0, 2, 3]]
    for clients in (1, 3):
        with pytest.raises(UserError, match="are of 2 clients"):
            divide(LABELS[:5], clients, "by-client", None, rng(), owners)
    with pytest.raises(UserError, match="does not say whose"):
        divide(LABELS, 2, "by-client", None, rng())


def test_images_are_in_the_unit_range_with_channels_first() -> None:
    x = to_size(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), None)
    assert x.shape == (1, 3, 1, 1)
    torch.testing.assert_close(x.flatten(), torch.tensor([0.0, 0.2, 1.0]))
    # A constant image stays itself at any size.
    x = to_size(torch.full((2, 8, 8, 3), 102, dtype=torch.uint8), 20)
    assert x.shape == (2, 3, 20, 20)
    torch.testing.assert_close(x, torch.full_like(x, 0.4))


def test_each_image_is_a_moved_or_mirrored_copy() -> None:
    """Every place of the result holds what one of the 2 × 9 × 9 variants has there."""
    rng = torch.Generator().manual_seed(0)
    x = torch.rand(40, 2, 6, 5, generator=rng) + 1
    seen = set()
    for image, varied in zip(x, flip_crop(x, rng), strict=True):
        padded = [torch.nn.functional.pad(own, [PADDING] * 4) for own in (image, image.flip(-1))]
        moves = product((0, 1), range(2 * PADDING + 1), range(2 * PADDING + 1))
        hits = [(n, y, x) for n, y, x in moves if torch.equal(padded[n][:, y : y + 6, x : x + 5], varied)]
        # Where next to nothing of an image is left, several variants may agree.
        assert hits or not varied.any()
        seen |= set(hits[:1])
    assert {flipped for flipped, *_ in seen} == {0, 1}
    assert len(seen) > 20
