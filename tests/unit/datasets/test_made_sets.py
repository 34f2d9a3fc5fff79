"""Drawn points, rendered words, tables of records, and the real sets where they are here."""

import hashlib
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from catalogued import ROOT, available, spec
from torch import from_numpy

from leakbench.base.artefacts import open_tensors
from leakbench.base.errors import UserError
from leakbench.datasets import fetch, rendered
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.columns import columns_of, decode, encode
from leakbench.datasets.records import records
from leakbench.datasets.words import codes, spelt
from leakbench.federation.training.batches import to_size


def drawn(tmp_path: Path, name: str = "a", **parameters: object) -> dict[str, np.ndarray]:
    entry = spec("gaussians")
    entry["parameters"] |= parameters
    out = tmp_path / f"{name}.safetensors"
    fetch(entry, out, [tmp_path], tmp_path / "scratch")
    tensors, facts = open_tensors(out)
    assert facts["source"] == "drawn by leakbench"
    return tensors


@pytest.mark.parametrize(
    "wrong",
    [{"means": [[]]}, {"deviations": [[[1.0, 1.0]]]}, {"means": [[[1.0]]]},
     {"deviations": 2 * [2 * [[-1.0, 1.0]]]}],
    ids=str,
)  # fmt: skip
def test_points_without_two_numbers_for_each_class_are_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(UserError, match="gaussians: parameters: "):
        drawn(tmp_path, **wrong)


def test_points_have_the_means_and_deviations_of_the_catalogue(tmp_path: Path) -> None:
    entry, tensors = spec("gaussians"), drawn(tmp_path)
    for split, count in entry["counts"].items():
        points, labels, owners = (tensors[f"{split}/{name}"] for name in ("images", "labels", "clients"))
        assert (points.shape, points.dtype) == ((count, 1, 2, 1), np.float32)
        # A prefix is of all clients and classes.
        assert all(abs(each[:1000].mean() - 0.5) < 0.1 for each in (labels, owners))
        for client, label in ((0, 0), (0, 1), (1, 0), (1, 1)):
            own = points[(owners == client) & (labels == label)].reshape(-1, 2)
            assert len(own) == count / 4
            wanted = (entry["parameters"][key][client][label] for key in ("means", "deviations"))
            mean, deviation = map(np.array, wanted)
            assert (np.abs(own.mean(0) - mean) < 5 * deviation / np.sqrt(len(own))).all()
            assert np.abs(own.std(0) / deviation - 1).max() < 0.08
    # Coordinates reach the network as they are, and the seed decides.
    assert np.array_equal(to_size(from_numpy(np.array(points)), None).flatten(1), points.reshape(-1, 2))
    first, again, other = (drawn(tmp_path, str(n), samples=50, seed=n // 2)["train/images"] for n in range(3))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    (tmp_path / "gaussians").mkdir()
    assert not available("gaussians", [tmp_path, tmp_path / "gaussians"])


GROUNDS = ["plain", "photographs"]


def drawn_words(ground: Any, **changes: int) -> dict[str, np.ndarray]:
    return rendered.rendered(Path(), **{"ground": ground, "train": 40, "test": 20, **changes}).tensors


WORDS = rendered.words()


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_seed_draws_the_same_words_again(ground: str, tmp_path: Path) -> None:
    first, again, other = drawn_words(ground), drawn_words(ground), drawn_words(ground, seed=7)
    for name, array in first.items():
        assert np.array_equal(array, again[name]), name
    assert not np.array_equal(first["train/labels"], other["train/labels"])
    assert not np.array_equal(first["train/labels"][:20], first["test/labels"])
    # More of a split begin as fewer do.
    assert np.array_equal(drawn_words(ground, train=10)["train/images"], first["train/images"][:10])
    # They are fetched without any folder and called stand-ins.
    drawing = spec({"plain": "words-plain", "photographs": "words-over-photos"}[ground])
    drawing["parameters"] |= {"train": 4, "test": 3}
    fetch(drawing, tmp_path / "out.safetensors", [tmp_path], tmp_path / "scratch")
    tensors, facts = open_tensors(tmp_path / "out.safetensors")
    assert len(tensors["train/images"]) == 4
    assert str(facts["source"]).startswith("drawn by leakbench")
    assert "a stand-in, not a published set" in str(facts["source"])


@pytest.mark.parametrize("ground", GROUNDS)
def test_words_and_numbers_are_drawn(ground: str) -> None:
    assert all(len(codes(word)) == len(word) <= 25 and word.islower() for word in WORDS)
    tensors = drawn_words(ground)
    assert tensors["train/images"].shape == (40, 32, 100, 3)
    texts = [spelt(label).lower() for label in tensors["train/labels"]]
    assert all(text in WORDS or (text.isdigit() and len(text) <= 4) for text in texts)
    assert tensors["train/lengths"].tolist() == [len(text) for text in texts]
    assert any(text.isdigit() for text in texts)
    # Every picture shows something, and a longer word is wider.
    assert tensors["train/images"].std(axis=(1, 2, 3)).min() > 5
    assert np.corrcoef(tensors["train/widths"], tensors["train/lengths"])[0, 1] > 0.7
    # Nothing of a word is cut off: its margins are dark.
    mask = np.asarray(rendered.mask("STATION", "DejaVuSans", np.random.default_rng(0), 0))
    assert mask[[0, -1]].max() == mask[:, [0, -1]].max() == 0
    assert mask.max() == 255


def test_words_on_plain_ground_are_grey_and_those_over_photographs_are_not() -> None:
    plain, photos = (drawn_words(ground)["train/images"].astype(float) for ground in GROUNDS)
    assert (plain == plain[..., :1]).all()
    assert (np.ptp(photos, axis=3).mean((1, 2)) > 10).mean() > 0.9
    # Above and below a word, plain ground has one level.
    flat, busy = (np.abs(images[:, 0] - images[:, -1]).mean() for images in (plain, photos))
    assert flat < busy


def test_another_list_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "list.txt").write_text("other words\n")
    monkeypatch.setattr(rendered, "_LIST", tmp_path / "list.txt")
    rendered.words.cache_clear()
    with pytest.raises(UserError, match="write the new one into rendered"):
        rendered.words()


COLUMNS: list[dict[str, list[float | str]]] = [
    {"age": [17, 90, 1]}, {"work": ["Private", "State-gov", "?"]}, {"rate": [0, 0.4268, 0.0000001]},
]  # fmt: skip
CLASSES = [["<=50K", "<=50K."], [">50K", ">50K."]]
GIVEN = {"columns": COLUMNS, "classes": CLASSES, "files": {"train": "a.data"}}
SOUND = "|a comment\n39, State-gov, 0.3001, <=50K\n\n17, ?, 0, >50K.\n90,Private,0.4268,<=50K\n"


def made(folder: Path, text: str, **changes: object) -> dict[str, np.ndarray]:
    (folder / "a.data").write_text(text)
    return records(folder, **(GIVEN | changes)).tensors  # type: ignore[arg-type]


def test_a_record_is_read_as_it_would_be_by_hand(tmp_path: Path) -> None:
    found = made(tmp_path, SOUND)
    by_hand = [[22 / 73, 0, 1, 0, 0.3001 / 0.4268], [0, 0, 0, 1, 0], [1, 1, 0, 0, 1]]
    assert found["train/images"].shape == (3, 1, 5, 1)
    np.testing.assert_allclose(found["train/images"][:, 0, :, 0], by_hand, rtol=1e-6)
    assert found["train/labels"].tolist() == [0, 1, 0]
    every = made(tmp_path, "a header\n" + SOUND, held_out=2, header=1)
    assert every["test/labels"].tolist() == [0, 0]
    assert every["train/labels"].tolist() == [1]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [("39, State-gov, 0.3\n", "line 1: 3 values, not 4"),
     (SOUND + "39, State-gov, 0.3, <=50K, 1\n", "line 6: 5 values, not 4"),
     (SOUND + "91, State-gov, 0.3, <=50K\n", "line 6: age is not a number from 17 to 90: '91'"),
     (SOUND + "nan, State-gov, 0.3, <=50K\n", "line 6: age is not a number"),
     ("39, Nowhere, 0.3, <=50K\n", "line 1: work is not one of 3 categories: 'Nowhere'"),
     ("39, Private, " + "x" * 999 + ", <=50K\n", "line 1: rate is not a number from 0 to 0.4268: 'x"),
     (SOUND + "39, Private, 0.3, 50K\n", "line 6: the class is not known: '50K'"),
     ("|only a comment\n\n", "a table without records"), ("39, Private\x00, 0.3, <=50K\n", "line 1")],
)  # fmt: skip
def test_a_row_that_does_not_fit_is_named_by_its_line(tmp_path: Path, text: str, refusal: str) -> None:
    with pytest.raises(Damaged) as caught:
        made(tmp_path, text)
    told = str(caught.value)
    assert refusal in told
    assert str(tmp_path / "a.data") in told
    assert len(told) < len(str(tmp_path)) + 200
    assert len(told.splitlines()) == 1


def test_what_is_no_text_and_has_no_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.data").write_bytes(b"39, \xff\xfe, 0.3, <=50K\n")
    with pytest.raises(Damaged, match="a table"):
        records(tmp_path, **GIVEN)  # type: ignore[arg-type]
    monkeypatch.setattr("leakbench.datasets.records.MOST", 10)
    with pytest.raises(Damaged, match="more than 10 bytes"):
        made(tmp_path, SOUND)


def test_what_was_encoded_is_decoded_to_the_same_values() -> None:
    rng, columns = np.random.default_rng(0), columns_of(COLUMNS)
    work, rate = rng.choice(["Private", "State-gov", "?"], 500), np.round(rng.uniform(0, 0.4268, 500), 7)
    table = pd.DataFrame({"age": rng.integers(17, 91, 500).astype(float), "work": work, "rate": rate})
    again = decode(encode(table, columns), columns)
    pd.testing.assert_frame_equal(again, table, check_exact=True, check_dtype=False)
    # Categories that look like numbers stay categories.
    assert columns_of([{"grade": ["1", "2", "10"]}])[0].values == ("1", "2", "10")


@pytest.mark.parametrize("name", ["adult", "breast-cancer"])
def test_the_shape_in_the_catalogue_is_that_of_its_columns(name: str) -> None:
    entry = spec(name)
    assert entry["shape"] == (1, columns_of(entry["parameters"]["columns"])[-1].place.stop, 1)
    assert entry["classes"] == len(entry["parameters"]["classes"])


SEARCH = [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]


def local(name: str, tmp_path: Path) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    if not available(name, SEARCH):
        pytest.skip(f"no directory of LEAKBENCH_DATA holds {name}")
    fetch(spec(name), tmp_path / "out.safetensors", SEARCH, tmp_path / "scratch")
    return open_tensors(tmp_path / "out.safetensors")


def fetched(name: str) -> dict[str, np.ndarray]:
    file = ROOT / "data" / f"{name}.safetensors"
    if not file.is_file():
        pytest.skip(f"data/{name}.safetensors is not fetched")
    tensors, facts = open_tensors(file)
    if "absent" in facts:
        pytest.skip(str(facts["absent"]))
    return tensors


def test_cifar100_in_a_local_directory(tmp_path: Path) -> None:
    tensors, facts = local("cifar100", tmp_path)
    images = np.concatenate([tensors["train/images"], tensors["test/images"]])
    assert np.abs(images.mean((0, 1, 2)) / 255 - [0.5074, 0.4867, 0.4411]).max() < 0.005
    assert len(set(np.bincount(tensors["test/labels"]).tolist())) == 1
    assert len(facts["classes"]) == 100  # type: ignore[arg-type]


def test_pictures_in_a_local_directory(tmp_path: Path) -> None:
    tensors, facts = local("lfw", tmp_path)
    assert tensors["train/images"].shape == (992, 64, 64, 3)
    assert np.bincount(tensors["test/labels"]).tolist() == [4] * 62
    assert facts["classes"] == sorted(facts["classes"])  # type: ignore[call-overload]
    tensors, _ = local("imagenet", tmp_path)
    images = tensors["test/images"]
    assert images.shape[1:] == (224, 224, 3)
    assert images.std(axis=(1, 2, 3)).min() > 5


def test_adult_in_a_local_directory(tmp_path: Path) -> None:
    tensors, facts = local("adult", tmp_path)
    records = tensors["train/images"][:, 0, :, 0]
    for column in columns_of(facts["columns"]):  # type: ignore[arg-type]
        if column.values:
            assert (records[:, column.place].sum(1) == 1).all()
    # A quarter of the people earn more, as the set's own description says.
    assert tensors["train/labels"].mean() == pytest.approx(0.2408, abs=1e-4)


@pytest.mark.parametrize("name", ["iiit5k", "svt", "icdar2003", "synth90k"])
def test_words_in_a_local_directory(name: str, tmp_path: Path) -> None:
    tensors, _ = local(name, tmp_path)
    images, labels = tensors["test/images"], tensors["test/labels"]
    assert images.shape[1:] == (32, 100, 3)
    # Real words show something, and are of usual lengths; the thesis tests on about a third of them.
    assert np.median(images.std(axis=(1, 2, 3))) > 20
    assert 4 < (labels >= 0).sum(1).mean() < 9
    wide = (tensors["test/widths"] >= 100) & (tensors["test/lengths"] >= 3)
    assert 0.2 < wide.mean() < 0.8


MD5 = {
    "train/images": "6bbc9ace898e44ae57da46a324031adb", "train/labels": "a25bea736e30d166cdddb491f175f624",
    "test/images": "2646ac647ad5339dbf082846283269ea", "test/labels": "27ae3e4e09519cfbb04c329615203637",
}  # fmt: skip


def test_mnist_written_back_as_idx_is_the_official_file() -> None:
    for tensor, array in fetched("mnist").items():
        array = array[..., 0] if array.ndim == 4 else array.astype(np.uint8)
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        assert hashlib.md5(header + array.tobytes()).hexdigest() == MD5[tensor]


def test_cifar10_has_the_known_moments_counts_and_order() -> None:
    tensors = fetched("cifar10")
    train = tensors["train/images"].reshape(-1, 3)
    assert np.allclose(train.mean(0) / 255, [0.49139968, 0.48215841, 0.44653091], atol=1e-7)
    assert np.allclose(train.std(0) / 255, [0.24703223, 0.24348513, 0.26158784], atol=1e-7)
    assert np.bincount(tensors["train/labels"]).tolist() == [5000] * 10
    assert np.bincount(tensors["test/labels"]).tolist() == [1000] * 10
    assert np.bincount(tensors["train/labels"][:10000]).tolist() == [
        1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981,
    ]  # fmt: skip
    assert tensors["test/labels"][:8].tolist() == [3, 8, 8, 0, 6, 6, 1, 6]


def test_fashion_mnist_has_the_known_moments_and_counts() -> None:
    tensors = fetched("fashion-mnist")
    assert tensors["train/images"].mean() / 255 == pytest.approx(0.2860, abs=5e-5)
    assert tensors["train/images"].std() / 255 == pytest.approx(0.3530, abs=5e-5)
    assert np.bincount(tensors["train/labels"]).tolist() == [6000] * 10
    assert np.bincount(tensors["test/labels"]).tolist() == [1000] * 10
