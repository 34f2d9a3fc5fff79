"""Folders of pictures, and BigGAN's published weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from catalogued import available, home, place
from PIL import Image
from torch import nn

from leakbench.datasets import imagenet
from leakbench.datasets.biggan_deep_256 import biggan_deep_256
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.faces import faces
from leakbench.datasets.pictures import read_picture, scaled


def save(file: Path, pixels: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(file)


def flat(value: int, rows: int = 30, columns: int = 30) -> np.ndarray:
    return np.full((rows, columns, 3), value, np.uint8)


def test_the_centre_is_kept_after_the_short_side_is_scaled(tmp_path: Path) -> None:
    wide, stripes = np.zeros((40, 120, 3), np.uint8), np.zeros((64, 64), np.uint8)
    wide[:, 40:80], stripes[:, ::2] = (255, 128, 0), 200
    save(tmp_path / "p.png", wide)
    read = read_picture(tmp_path / "p.png", 20, 16)
    assert read.shape == (16, 16, 3)
    assert (read == [255, 128, 0]).all()
    # Scaling averages over the pixels that it drops.
    save(tmp_path / "p.png", stripes)
    read = read_picture(tmp_path / "p.png", 8)
    assert read.shape == (8, 8, 3)
    assert np.abs(read.astype(int) - 100).max() <= 12


def test_a_truncated_picture_and_one_of_another_format_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "p.jpg", np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    (tmp_path / "p.jpg").write_bytes((tmp_path / "p.jpg").read_bytes()[:2000])
    with pytest.raises(Damaged, match=r"p\.jpg"):
        read_picture(tmp_path / "p.jpg", 8)
    Image.fromarray(flat(9)).save(tmp_path / "p.eps")
    (tmp_path / "p.eps").rename(tmp_path / "p.png")
    with pytest.raises(Damaged, match="cannot identify image file"):
        read_picture(tmp_path / "p.png", 8)


@pytest.mark.parametrize(
    ("layout", "trains"), [("imagenet/val", True), ("imagenet/val", False), ("imagenet", False), (".", False)]
)
def test_imagenet_folders_give_the_first_of_each_class(tmp_path: Path, layout: str, trains: bool) -> None:
    for value, synset in enumerate(["n00000003", "n00000001"]):
        for name in ("b", "a", "c"):
            save(tmp_path / layout / synset / f"{name}.JPEG", flat(40 + 100 * value + (name == "a") * 20))
    if trains:
        save(tmp_path / "imagenet" / "train" / "n00000001" / "x.JPEG", flat(10))
    found = imagenet.imagenet(home("imagenet", tmp_path), resize=24, size=20, per_class=2)
    assert found.tensors["test/images"].shape == (4, 20, 20, 3)
    assert found.tensors["test/images"][:, 0, 0, 0].tolist() == [160, 140, 60, 40]
    assert found.tensors["test/labels"].tolist() == [0, 0, 1, 1]
    assert found.classes == ["n00000001", "n00000003"]
    train = found.tensors.get("train/images", np.zeros((0, 1, 1)))
    assert train[:, 0, 0].tolist() == ([[10, 10, 10]] if trains else [])


def test_an_imagenet_list_gives_the_official_class_index(tmp_path: Path) -> None:
    folder = tmp_path / "imagenet_200"
    save(folder / "images" / "one.png", flat(7))
    text = "file\tclass_index\twnid\tclass_name\nimages/one.png\t{}\tn01440764\ttench\n"
    (folder / "labels.tsv").write_text(text.format(995))
    found = imagenet.imagenet(folder, resize=8, size=8)
    assert found.tensors["test/labels"].tolist() == [995]
    assert found.classes[995] == "tench"
    assert len(found.classes) == 1000
    (folder / "labels.tsv").write_text(text.format(1000))
    with pytest.raises(Damaged, match="class_index '1000'"):
        imagenet.imagenet(folder, resize=8, size=8)
    (folder / "labels.tsv").write_text("file\twnid\nimages/one.png\tn01440764\n")
    with pytest.raises(Damaged, match="a list without class_index, class_name"):
        imagenet.imagenet(folder, resize=8, size=8)


def test_lfw_keeps_people_with_enough_pictures_and_splits_each(tmp_path: Path) -> None:
    for person, count in {"B_Two": 4, "A_One": 5, "C_Few": 2}.items():
        for number in range(1, count + 1):
            name = f"{person}_{number:04d}.jpg"
            save(tmp_path / "lfw-deepfunneled" / person / name, flat(10 * number + 100 * (person == "B_Two")))
    folder = home("lfw", tmp_path)
    found = faces(folder, size=16, minimum=4, per_person=4, test=1)
    assert found.classes == ["A_One", "B_Two"]
    assert found.tensors["train/labels"].tolist() == [0, 0, 0, 1, 1, 1]
    assert found.tensors["train/images"][:, 0, 0, 0].tolist() == [10, 20, 30, 110, 120, 130]
    assert found.tensors["test/images"][:, 0, 0, 0].tolist() == [40, 140]
    assert found.tensors["test/labels"].tolist() == [0, 1]
    with pytest.raises(Damaged, match="0 people with at least 9 pictures, not one"):
        faces(folder, size=16, minimum=9)


def test_vgg_face_keeps_the_people_with_most_pictures(tmp_path: Path) -> None:
    assert place("vgg-face", tmp_path) is None
    # The official archive holds lists of addresses alone.
    (tmp_path / "vgg_face_dataset" / "files").mkdir(parents=True)
    (tmp_path / "vgg_face_dataset" / "files" / "A_One.txt").write_text("")
    assert place("vgg-face", tmp_path) is None
    for value, (person, count) in enumerate({"D": 3, "B": 5, "A": 4, "C": 4}.items()):
        for number in range(count):
            save(tmp_path / "vgg_face_dataset" / person / f"{number}.jpg", flat(10 * number + 60 * value))
    folder = home("vgg-face", tmp_path)
    found = faces(folder, size=16, minimum=3, people=2, per_person=3, test=1)
    # A and C have as many; the first by name is kept, and labels follow the names.
    assert found.classes == ["A", "B"]
    assert found.tensors["train/labels"].tolist() == [0, 0, 1, 1]
    assert found.tensors["train/images"][:, 0, 0, 0].tolist() == [120, 130, 60, 70]
    assert found.tensors["test/images"][:, 0, 0, 0].tolist() == [140, 80]
    assert "2 people with most pictures of 5" in found.note
    with pytest.raises(Damaged, match="3 people with at least 4 pictures, not 4"):
        faces(folder, size=16, minimum=4, people=4, per_person=4, test=1)
    with pytest.raises(Damaged, match="3 of 3 pictures for the test split"):
        faces(folder, size=16, minimum=3, people=2, per_person=3, test=3)


def test_images_are_scaled_whole_and_colours_are_not_dropped() -> None:
    board = np.indices((28, 20)).sum(0)[None, ..., None] % 2 * 255
    small = scaled(board.astype(np.uint8), (14, 10, 3))
    assert small.shape == (1, 14, 10, 3)
    assert (small == small[..., :1]).all()
    # Two by two pixels of the board average to grey.
    assert np.abs(small[0, 2:-2, 2:-2].astype(int) - 127).max() <= 2
    colours = np.zeros((2, 8, 8, 3), np.uint8)
    colours[..., 1] = 200
    assert (scaled(colours, (16, 16, 3)) == [0, 200, 0]).all()
    with pytest.raises(ValueError, match="3 channels cannot become 1"):
        scaled(colours, (16, 16, 1))


def layers() -> nn.ModuleDict:
    """Return normalised layers after some steps of their power iteration."""
    torch.manual_seed(0)
    conv, dense = map(nn.utils.spectral_norm, (nn.Conv2d(3, 5, 3), nn.Linear(4, 6)))
    for _ in range(3):
        conv(torch.rand(1, 3, 4, 4))
        dense(torch.rand(1, 4))
    return nn.ModuleDict({"conv_0": conv, "gen_z": dense}).eval()


@pytest.mark.parametrize("name", ["biggan-deep-256-pytorch_model.bin", "biggan-deep-256/pytorch_model.bin"])
def test_a_folded_layer_answers_as_the_normalised_one(name: str, tmp_path: Path) -> None:
    made = nn.ModuleDict({"generator": layers()})
    state = made.state_dict() | {"generator.bn.running_means": torch.arange(6.0).view(3, 2)}
    assert place("biggan-deep-256", tmp_path) is None
    (tmp_path / name).parent.mkdir(exist_ok=True)
    torch.save(state, tmp_path / name)
    assert available("biggan-deep-256", [tmp_path])
    read = biggan_deep_256(home("biggan-deep-256", tmp_path)).tensors
    found = {n: torch.from_numpy(v) for n, v in read.items()}
    assert set(found) == {"conv_0.weight", "conv_0.bias", "gen_z.weight", "gen_z.bias", "bn.running_mean"}
    assert found["bn.running_mean"].tolist() == [4, 5]
    normed = layers()
    x, z = torch.rand(2, 3, 6, 6), torch.rand(2, 4)
    folded = nn.functional.conv2d(x, found["conv_0.weight"], found["conv_0.bias"])
    torch.testing.assert_close(folded, normed["conv_0"](x))
    folded = nn.functional.linear(z, found["gen_z.weight"], found["gen_z.bias"])
    torch.testing.assert_close(folded, normed["gen_z"](z))


@pytest.mark.parametrize("kind", ["cut", "pickle", "other"])
def test_a_file_that_holds_no_such_weights_is_damaged(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "biggan-deep-256-pytorch_model.bin"
    state = layers().state_dict()
    if kind == "other":
        del state["gen_z.weight_u"]
    torch.save(state if kind != "pickle" else print, file)
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:500])
    with pytest.raises(Damaged, match="cut short or altered"):
        biggan_deep_256(tmp_path)
