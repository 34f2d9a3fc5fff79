"""Words that are drawn instead of fetched: stand-ins for the rendered sets of text recognition.

Words on plain ground stand in for a set such as Synth90K. They are grey, as the pictures of that set are,
upright and unturned, dark on light or light on dark. Words over crops of photographs stand in for a set such
as SynthText. They are coloured and turned a little.

The fonts come with matplotlib (LICENSE_DEJAVU, LICENSE_STIX), the photographs with scikit-image; all may be
used and passed on freely. The drawn pictures depend on the seed, on numpy's generator and on Pillow.
"""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from pydantic import Field

from leakbench.base.errors import UserError
from leakbench.base.whole import file_digest
from leakbench.datasets.canonical import Found
from leakbench.datasets.official import Unavailable
from leakbench.datasets.words import CHARACTERS, COLUMNS, ROWS, arrays

# Some fifteen hundred common English words. Their digest stands in the code because results are made anew
# when code changes.
_LIST = Path(__file__).with_name("common_words.txt")
_SHA256 = "e1b4e93d21c52d703173da943a76a5cd0e8897b97c67a2d704e0d31e8a7888b7"
PHOTOGRAPHS = (
    "astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "brick.png", "grass.png", "gravel.png",
)  # fmt: skip
# The least contrast. On plain ground it is the difference of ink and ground, of 255 levels; over a photograph
# it is the difference of ink and the mean of the ground, summed over three channels.
GREY_CONTRAST, COLOUR_CONTRAST = 90, 220
POINTS = 40
NUMBERS = 0.15


def folder_in(package: str, path: str) -> Path:
    """Return the folder `path` that the installed `package` contains. Raises Unavailable if it has none."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent / path if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        raise Unavailable(f"the installed {package} brings no {path}")
    return folder


@cache
def words() -> tuple[str, ...]:
    """Return the words of the list, each once. Raises UserError if the list has another digest."""
    if (found := file_digest(_LIST)) != _SHA256:
        raise UserError(f"{_LIST}: its sha256 is {found}, not {_SHA256} (write the new one into rendered.py)")
    return tuple(dict.fromkeys(_LIST.read_text("utf-8").split()))


@cache
def _font(name: str) -> ImageFont.FreeTypeFont:
    file = folder_in("matplotlib", "mpl-data/fonts/ttf") / f"{name}.ttf"
    # The basic layout needs no library that a machine may lack.
    return ImageFont.truetype(str(file), POINTS, layout_engine=ImageFont.Layout.BASIC)


def draw_text(rng: np.random.Generator) -> str:
    """Draw a word of the list, in capitals, capitalised or small, or a number of one to four digits."""
    if rng.random() < NUMBERS:
        return "".join(CHARACTERS[digit] for digit in rng.integers(0, 10, rng.integers(1, 5)))
    word = words()[rng.integers(len(words()))]
    return (word.upper(), word.capitalize(), word)[rng.integers(3)]


def mask(text: str, font: str, rng: np.random.Generator, degrees: float) -> Image.Image:
    """Return a word as a grey mask, light on dark, within random margins."""
    drawn = _font(font)
    left, top, right, bottom = map(round, drawn.getbbox(text))
    west, east, north, south = rng.integers(2, 9, 4).tolist()
    image = Image.new("L", (right - left + west + east, bottom - top + north + south))
    ImageDraw.Draw(image).text((west - left, north - top), text, fill=255, font=drawn)
    if degrees:
        turn = float(rng.uniform(-degrees, degrees))
        image = image.rotate(turn, Image.Resampling.BILINEAR, expand=True)
    return image


@cache
def _photograph(name: str) -> Image.Image:
    file = folder_in("skimage", "data") / name
    if not file.is_file():
        raise Unavailable(f"the installed scikit-image brings no {name}")
    with Image.open(file) as picture:
        return picture.convert("RGB")


def ground(size: tuple[int, int], rng: np.random.Generator) -> Image.Image:
    """Return a random crop of a photograph, scaled to `size` (columns, rows)."""
    picture = _photograph(PHOTOGRAPHS[rng.integers(len(PHOTOGRAPHS))])
    share = rng.uniform(0.2, 0.8) * min(picture.width / size[0], picture.height / size[1])
    wide, high = (max(1, int(side * share)) for side in size)
    left, top = int(rng.integers(picture.width - wide + 1)), int(rng.integers(picture.height - high + 1))
    return picture.crop((left, top, left + wide, top + high)).resize(size, Image.Resampling.BILINEAR)


def over_photograph(mask: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Paint a word over a photograph, in a colour that differs from its mean by at least the contrast."""
    behind = ground(mask.size, rng)
    mean = np.asarray(behind, float).mean((0, 1))
    while True:
        ink = rng.integers(0, 256, 3)
        if np.abs(ink - mean).sum() >= COLOUR_CONTRAST:
            return Image.composite(Image.new("RGB", mask.size, tuple(ink.tolist())), behind, mask)


def on_plain(mask: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Paint a word in one level of grey on another that differs by at least the contrast."""
    while True:
        ink, ground = rng.integers(0, 256, 2).tolist()
        if abs(ink - ground) >= GREY_CONTRAST:
            return Image.composite(Image.new("L", mask.size, ink), Image.new("L", mask.size, ground), mask)


BOLD = ("DejaVuSans-Bold", "DejaVuSerif-Bold", "DejaVuSans-BoldOblique", "DejaVuSansMono-Bold")
# The ground behind the words → the fonts, the painter and the greatest angle in degrees.
LOOKS = {
    "plain": (("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif"), on_plain, 0.0),
    "photographs": ((*BOLD, "STIXGeneralBol"), over_photograph, 6.0),
}


def split_of(count: int, rng: np.random.Generator, ground: str) -> dict[str, np.ndarray]:
    """Draw `count` words, each in one of the fonts, and paint their masks."""
    fonts, paint, degrees = LOOKS[ground]
    images = np.empty((count, ROWS, COLUMNS, 3), np.uint8)
    widths, texts = [], []
    for number in range(count):
        text = draw_text(rng)
        font = fonts[rng.integers(len(fonts))]
        image = paint(mask(text, font, rng, degrees), rng)
        wide, high = image.size
        small = image.convert("RGB").resize((COLUMNS, ROWS), Image.Resampling.BILINEAR)
        images[number] = np.asarray(small)
        widths.append(wide * ROWS / high)
        texts.append(text)
    return arrays(images, widths, texts)


def rendered(
    folder: Path,
    *,
    ground: Literal["plain", "photographs"],
    train: Annotated[int, Field(gt=0)] = 6000,
    test: Annotated[int, Field(gt=0)] = 600,
    seed: int = 0,
) -> Found:
    """Draw the words of both splits into the tensors that `words.arrays` describes.

    ground: what is behind the words.
    train: the number of words of the split `train`.
    test: the number of words of the split `test`.
    seed: of the draw; each split has a stream of its own.

    Raises Unavailable without the fonts or photographs.
    """
    tensors = {
        f"{split}/{kind}": array
        for number, (split, count) in enumerate({"train": train, "test": test}.items())
        for kind, array in split_of(count, np.random.default_rng([seed, number]), ground).items()
    }
    return Found(tensors, dict.fromkeys(tensors, folder), list(CHARACTERS), "a stand-in, not a published set")
