"""Pictures of words in the layouts of their official sets, made small."""

from pathlib import Path

import numpy as np
import pytest
from catalogued import home, place
from PIL import Image
from scipy.io import savemat

from leakbench.datasets import icdar2003, icdar2015, iiit5k, scut_foru, svt, synth90k, synthtext
from leakbench.datasets.canonical import Damaged, Found
from leakbench.datasets.words import CHARACTERS, codes, listed, plain, read_words, spelt, spread


def draw(file: Path, level: int, columns: int = 60, rows: int = 30) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((rows, columns, 3), level, np.uint8)).save(file)
    return file


def scene(file: Path, boxes: dict[int, tuple[int, int, int, int]]) -> Path:
    """A black picture whose boxes (left, top, width, height) are of one level each."""
    file.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.zeros((60, 200, 3), np.uint8)
    for level, (left, top, wide, high) in boxes.items():
        pixels[top : top + high, left : left + wide] = level
    Image.fromarray(pixels).save(file)
    return file


def words(found: Found, split: str) -> list[str]:
    return [spelt(label) for label in found.tensors[f"{split}/labels"]]


def levels(found: Found, split: str) -> list[int]:
    """The one level of each image: it was cut out exactly."""
    images = found.tensors[f"{split}/images"]
    assert images.shape[1:] == (32, 100, 3)
    # What JPEG does to one level is at most two steps.
    assert all(np.ptp(image.astype(int)) <= 2 for image in images)
    return [round(float(image.mean()) / 10) * 10 for image in images]


def home_of(name: str, folder: Path) -> Path:
    """Return where a set was found in a folder. An empty folder holds none."""
    (folder / "empty").mkdir()
    assert place(name, folder / "empty") is None
    return home(name, folder)


def test_letters_and_digits_have_a_code_whatever_their_case() -> None:
    assert len(CHARACTERS) == 36
    assert codes("a-Z 09'É") == [10, 35, 0, 9]
    assert spelt([10, 35, 0, -1, -1]) == "AZ0"
    assert spread(range(10), 4) == [0, 2, 5, 7]
    assert list(spread(range(3), 4)) == list(spread(range(3), None)) == [0, 1, 2]


def test_what_is_kept_of_a_picture(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", 50, columns=80, rows=16)
    draw(tmp_path / "b.png", 90, columns=10, rows=40)
    long = "abcdefghijklmnopqrstuvwxyz"
    (tmp_path / "labels.tsv").write_text(f"file\tword\na.png\tDon't\nb.png\t\"\na.png\t{long}\nb.png\tNo\n")
    found = read_words(tmp_path, {"test": listed(tmp_path)}, "sample")
    assert words(found, "test") == ["DONT", long[:25].upper(), "NO"]
    assert found.tensors["test/labels"].shape == (3, 25)
    assert found.tensors["test/lengths"].tolist() == [5, 26, 2]
    assert found.tensors["test/widths"].tolist() == [160, 160, 8]
    assert levels(found, "test") == [50, 50, 90]
    assert found.note == "sample; test: 3 words, without 1 without letters or digits"
    assert {name: array.dtype.name for name, array in found.tensors.items()} == {
        "test/images": "uint8", "test/labels": "int64", "test/widths": "float32", "test/lengths": "int64",
    }  # fmt: skip
    assert [word.text for word in plain(listed(tmp_path))] == [long, "No"]


def test_what_cannot_be_read_is_refused_or_counted(tmp_path: Path) -> None:
    draw(tmp_path / "a.png", 50)
    (tmp_path / "labels.tsv").write_text("file\tword\na.png\tyes\ngone.png\tno\n")
    with pytest.raises(Damaged, match=r"gone\.png"):
        read_words(tmp_path, {"test": listed(tmp_path)})
    found = read_words(tmp_path, {"test": listed(tmp_path)}, skip_damaged=True)
    assert words(found, "test") == ["YES"]
    assert found.note == "test: 1 words, without 1 that cannot be read"
    (tmp_path / "labels.tsv").write_text("file\tword\na.png\t!\n")
    with pytest.raises(Damaged, match="no word with letters or digits for the split test"):
        read_words(tmp_path, {"test": listed(tmp_path)})
    (tmp_path / "labels.tsv").write_text("file\ttext\na.png\tyes\n")
    with pytest.raises(Damaged, match="a list without word"):
        listed(tmp_path)


def test_synth90k_has_its_words_in_the_names_of_files(tmp_path: Path) -> None:
    home = tmp_path / "mnt/ramdisk/max/90kDICT32px"
    parts = {"train": ("1_Slow_3", "2_fast_4", "3_new_5", "4_old_6"), "test": ("9_WORD_7",)}
    for split, names in parts.items():
        for number, name in enumerate(names):
            draw(home / "1" / f"{number % 2}" / f"{name}.jpg", 40 + 20 * number)
        lines = [f"./1/{number % 2}/{name}.jpg {number}\n" for number, name in enumerate(names)]
        (home / f"annotation_{split}.txt").write_text("".join(lines))
    found = synth90k.synth90k(home_of("synth90k", tmp_path), train=2)
    assert words(found, "train") == ["SLOW", "NEW"]
    assert levels(found, "train") == [40, 80]
    assert words(found, "test") == ["WORD"]
    assert "train: 2 of 4 in the list, evenly spaced" in found.note
    (home / "1/0/1_Slow_3.jpg").write_bytes(b"")
    found = synth90k.synth90k(home, train=None)
    assert words(found, "train") == ["FAST", "NEW", "OLD"]
    assert "without 1 that cannot be read" in found.note
    (home / "annotation_test.txt").write_text("./1/0/word.jpg 3\n")
    with pytest.raises(Damaged, match="not called <number>_<word>_<number>"):
        synth90k.synth90k(home)


def test_a_sample_of_synth90k_has_its_validation_part_as_train(tmp_path: Path) -> None:
    home = tmp_path / "text" / "mjsynth_1695"
    draw(home / "images/a.jpg", 50)
    lines = [f"images/a.jpg\t{word}\t1\t1\t{part}" for word, part in
             (("val", "val"), ("test", "test"), ("Two", "test"))]  # fmt: skip
    (home / "labels.tsv").write_text("\n".join(["file\tword\twidth\theight\tsource_shard", *lines]))
    assert place("synth90k", tmp_path) == home
    found = synth90k.synth90k(home)
    assert words(found, "train") == ["VAL"]
    assert words(found, "test") == ["TEST", "TWO"]


def test_iiit5k_has_its_words_in_a_struct_array(tmp_path: Path) -> None:
    home = tmp_path / "IIIT5K"
    draw(home / "test/1_1.png", 60)
    draw(home / "test/1_2.png", 90)
    draw(home / "train/2_1.png", 30)
    kinds = [("ImgName", object), ("GroundTruth", object), ("smallLexi", object)]
    for split, rows in {
        "test": [("test/1_1.png", "PRIVATE"), ("test/1_2.png", "No.5")],
        "train": [("train/2_1.png", "ONE")],
    }.items():
        entries = np.array([(*row, "x") for row in rows], dtype=kinds)
        savemat(home / f"{split}data.mat", {f"{split}data": entries})
    assert home_of("iiit5k", tmp_path) == home
    found = iiit5k.iiit5k(home)
    assert words(found, "test") == ["PRIVATE", "NO5"]
    assert levels(found, "test") == [60, 90]
    assert words(found, "train") == ["ONE"]
    savemat(home / "testdata.mat", {"other": 1})
    with pytest.raises(Damaged, match="a struct array 'testdata'"):
        iiit5k.iiit5k(home)


def test_svt_has_its_words_in_boxes(tmp_path: Path) -> None:
    home = tmp_path / "svt1"
    scene(home / "img/1.png", {100: (20, 10, 60, 20), 200: (120, 30, 64, 16)})
    boxes = [("DOOR", 20, 10, 60, 20), ("OPEN", 120, 30, 64, 16)]
    tags = "".join(
        f'<taggedRectangle height="{h}" width="{w}" x="{x}" y="{y}"><tag>{tag}</tag></taggedRectangle>'
        for tag, x, y, w, h in boxes
    )
    inner = f"<imageName>img/1.png</imageName><taggedRectangles>{tags}</taggedRectangles>"
    (home / "test.xml").write_text(f"<tagset><image>{inner}</image></tagset>")
    assert home_of("svt", tmp_path) == home
    found = svt.svt(home)
    assert words(found, "test") == ["DOOR", "OPEN"]
    assert levels(found, "test") == [100, 200]
    assert found.tensors["test/widths"].tolist() == [96, 128]
    (home / "test.xml").write_text("<tagset>")
    with pytest.raises(Damaged, match="a list that is cut short or altered"):
        svt.svt(home)


def test_icdar_2003_has_a_list_of_files_and_tags(tmp_path: Path) -> None:
    home = tmp_path / "icdar2003"
    draw(home / "test/word/1/1.jpg", 70)
    draw(home / "test/word/1/2.jpg", 90)
    (home / "test/word.xml").write_text(
        '<imagelist><image file="word/1/1.jpg" tag="self"/>'
        '<image file="word/1/2.jpg" tag="it&apos;s"/></imagelist>'
    )
    assert home_of("icdar2003", tmp_path) == home
    assert words(icdar2003.icdar2003(home), "test") == ["SELF"]
    every = icdar2003.icdar2003(home, plain_words=False)
    assert (words(every, "test"), levels(every, "test")) == (["SELF", "ITS"], [70, 90])


def test_icdar_2015_has_a_list_of_files_and_quoted_words(tmp_path: Path) -> None:
    home = tmp_path / "icdar2015"
    for number, level in enumerate((50, 70, 90), 1):
        draw(home / f"ch4_test_word_images_gt/word_{number}.png", level)
    text = '\ufeffword_1.png, "JOINT"\nword_2.png, "say \\"so\\", yes"\nword_3.png, "24"\n'
    (home / "Challenge4_Test_Task3_GT.txt").write_text(text, encoding="utf-8")
    assert home_of("icdar2015", tmp_path) == home
    assert words(icdar2015.icdar2015(home), "test") == ["JOINT", "24"]
    every = icdar2015.icdar2015(home, plain_words=False)
    assert (words(every, "test"), levels(every, "test")) == (["JOINT", "SAYSOYES", "24"], [50, 70, 90])
    assert every.tensors["test/lengths"].tolist() == [5, 13, 2]
    (home / "Challenge4_Test_Task3_GT.txt").write_text("word_1.png JOINT\n")
    with pytest.raises(Damaged, match="which is not <file>"):
        icdar2015.icdar2015(home)
    (home / "Challenge4_Test_Task3_GT.txt").unlink()
    with pytest.raises(Damaged, match="no list of the words"):
        icdar2015.icdar2015(home)


def test_scut_foru_cuts_words_out_and_splits_by_name(tmp_path: Path) -> None:
    home = tmp_path / "SCUT_FORU_DB_Release" / "English2k"
    scene(home / "word_img/a.JPG", {100: (16, 16, 64, 16)})
    scene(home / "word_img/b.jpg", {200: (16, 16, 64, 32)})
    (home / "word_annotation").mkdir()
    (home / "word_annotation/a.txt").write_text('24,17,48,14,"Shop"\n')
    (home / "word_annotation/b.txt").write_text('24,18,48,28,"Bed, Bath"\n\n')
    assert home_of("scut-foru", tmp_path) == home
    found = scut_foru.scut_foru(home, train=1)
    assert words(found, "train") == ["SHOP"]
    assert words(found, "test") == ["BEDBATH"]
    assert abs(found.tensors["test/images"].astype(int).mean() - 200) < 3
    (home / "word_annotation/b.txt").write_text("1,2,x,4,word\n")
    with pytest.raises(Damaged, match="not x, y, width, height, word"):
        scut_foru.scut_foru(home, train=1)
    with pytest.raises(Damaged, match="2 annotated pictures"):
        scut_foru.scut_foru(home)


def test_synthtext_cuts_words_out_of_its_table(tmp_path: Path) -> None:
    home = tmp_path / "SynthText"
    scene(home / "8/one.png", {100: (10, 10, 64, 16), 150: (100, 10, 32, 16)})
    scene(home / "9/two.png", {200: (20, 20, 64, 32)})

    def corners(left: int, top: int, wide: int, high: int) -> np.ndarray:
        return np.array([[left, left + wide, left + wide, left], [top, top, top + high, top + high]], float)

    boxes, texts, names = (np.empty((1, 2), object) for _ in range(3))
    # A picture with one word has no third axis.
    two = np.stack([corners(10, 10, 64, 16), corners(100, 10, 32, 16)], axis=2)
    boxes[0, :] = two, corners(20, 20, 64, 32)
    texts[0, :] = np.array(["Two\n words"]), np.array(["Last "])
    names[0, :] = "8/one.png", "9/two.png"
    savemat(home / "gt.mat", {"imnames": names, "wordBB": boxes, "txt": texts, "charBB": boxes})
    assert home_of("synthtext", tmp_path) == home
    found = synthtext.synthtext(home, train=None)
    assert words(found, "train") == ["TWO", "WORDS"]
    assert levels(found, "train") == [100, 150]
    assert (words(found, "test"), levels(found, "test")) == (["LAST"], [200])
    few = synthtext.synthtext(home, train=1, test=0.5)
    assert (words(few, "train"), words(few, "test")) == (["TWO"], ["WORDS"])
    texts[0, 1] = np.array(["Last one"])
    savemat(home / "gt.mat", {"imnames": names, "wordBB": boxes, "txt": texts})
    with pytest.raises(Damaged, match="2 words in 1 boxes"):
        synthtext.synthtext(home)
