"""Words drawn and not fetched: stand-ins for the rendered sets of text recognition.

Words on plain ground stand in for a set such as Synth90K: grey, as its pictures are, upright and unturned,
dark on light or light on dark. Words over crops of photographs stand in for a set such as SynthText: coloured
and a little turned.

The fonts come with matplotlib: DejaVu and STIX may be used and passed on freely (see LICENSE_DEJAVU and
LICENSE_STIX of matplotlib). The photographs come with scikit-image: all are in the public domain, or given to
it. What is drawn depends on the seed, on numpy's generator and on Pillow.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from leakbench.datasets.canonical import Found
from leakbench.datasets.official import Unavailable
from leakbench.datasets.words import CHARACTERS, COLUMNS, ROWS, arrays
from leakbench.errors import UserError
from leakbench.whole import file_digest

if TYPE_CHECKING:
    from PIL import Image, ImageFont

# Some fifteen hundred common English words, put together for this project. Their digest stands here because
# results are made anew when code changes.
_LIST = Path(__file__).with_name("common_words.txt")
_SHA256 = "e1b4e93d21c52d703173da943a76a5cd0e8897b97c67a2d704e0d31e8a7888b7"
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "rocket.jpg",
    "brick.png",
    "grass.png",
    "gravel.png",
)
# Between ink and ground, of 255 levels; between ink and the mean of the ground, summed over three channels.
GREY_CONTRAST, COLOUR_CONTRAST = 90, 220
POINTS = 40
NUMBERS = 0.15


def beside(package: str, path: str) -> Path:
    """Return a folder that a package brings along. Raises Unavailable if it does not."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin).parent / path if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        raise Unavailable(f"the installed {package} brings no {path}")
    return folder


@cache
def words() -> tuple[str, ...]:
    """Return the words of the list. Raises UserError for another list than this code is for."""
    if (found := file_digest(_LIST)) != _SHA256:
        raise UserError(f"{_LIST}: its sha256 is {found}, not {_SHA256} (write the new one into rendered.py)")
    return tuple(dict.fromkeys(_LIST.read_text().split()))


@cache
def _font(name: str) -> "ImageFont.FreeTypeFont":
    from PIL import ImageFont

    file = beside("matplotlib", "mpl-data/fonts/ttf") / f"{name}.ttf"
    # The basic layout needs no library that a machine may lack.
    return ImageFont.truetype(str(file), POINTS, layout_engine=ImageFont.Layout.BASIC)


def draw_text(rng: np.random.Generator) -> str:
    """Draw a word of the list, in capitals, as a name or small, or a number of one to four digits."""
    if rng.random() < NUMBERS:
        return "".join(CHARACTERS[digit] for digit in rng.integers(0, 10, rng.integers(1, 5)))
    word = words()[rng.integers(len(words()))]
    return (word.upper(), word.capitalize(), word)[rng.integers(3)]


def mask(text: str, font: str, rng: np.random.Generator, degrees: float) -> "Image.Image":
    """Return a word as light on dark, in grey, within random margins and turned by at most `degrees`."""
    from PIL import Image, ImageDraw

    drawn = _font(font)
    left, top, right, bottom = (round(side) for side in drawn.getbbox(text))
    margins = rng.integers(2, 9, 4)
    size = (right - left + int(margins[0] + margins[1]), bottom - top + int(margins[2] + margins[3]))
    image = Image.new("L", size)
    ImageDraw.Draw(image).text((int(margins[0]) - left, int(margins[2]) - top), text, fill=255, font=drawn)
    if degrees:
        turn = float(rng.uniform(-degrees, degrees))
        image = image.rotate(turn, Image.Resampling.BILINEAR, expand=True)
    return image


@cache
def _photograph(name: str) -> "Image.Image":
    from PIL import Image

    file = beside("skimage", "data") / name
    if not file.is_file():
        raise Unavailable(f"the installed scikit-image brings no {name}")
    with Image.open(file) as picture:
        return picture.convert("RGB")


def ground(size: tuple[int, int], rng: np.random.Generator) -> "Image.Image":
    """Return a crop of a photograph, as large as can be in one drawn share of it, brought to `size`."""
    from PIL import Image

    picture = _photograph(PHOTOGRAPHS[rng.integers(len(PHOTOGRAPHS))])
    share = rng.uniform(0.2, 0.8) * min(picture.width / size[0], picture.height / size[1])
    wide, high = (max(1, int(side * share)) for side in size)
    left, top = int(rng.integers(picture.width - wide + 1)), int(rng.integers(picture.height - high + 1))
    return picture.crop((left, top, left + wide, top + high)).resize(size, Image.Resampling.BILINEAR)


def over_photograph(mask: "Image.Image", rng: np.random.Generator) -> "Image.Image":
    """Return a word in a colour that differs from the mean of the photograph behind it by at least
    the contrast."""
    from PIL import Image

    behind = ground(mask.size, rng)
    mean = np.asarray(behind, float).mean((0, 1))
    while True:
        ink = rng.integers(0, 256, 3)
        if np.abs(ink - mean).sum() >= COLOUR_CONTRAST:
            colour = tuple(int(level) for level in ink)
            return Image.composite(Image.new("RGB", mask.size, colour), behind, mask)


def on_plain(mask: "Image.Image", rng: np.random.Generator) -> "Image.Image":
    """Return a word in one level of grey on another, at least the contrast apart."""
    from PIL import Image

    while True:
        ink, ground = (int(level) for level in rng.integers(0, 256, 2))
        if abs(ink - ground) >= GREY_CONTRAST:
            return Image.composite(Image.new("L", mask.size, ink), Image.new("L", mask.size, ground), mask)


@dataclass(frozen=True)
class Look:
    """How words are drawn: their fonts, what paints a mask, and by how many degrees they are turned."""

    fonts: tuple[str, ...]
    paint: Callable[["Image.Image", np.random.Generator], "Image.Image"]
    degrees: float = 0.0


BOLD = ("DejaVuSans-Bold", "DejaVuSerif-Bold", "DejaVuSans-BoldOblique", "DejaVuSansMono-Bold")
# What is behind the words → how they look.
LOOKS = {
    "plain": Look(("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif"), on_plain),
    "photographs": Look((*BOLD, "STIXGeneralBol"), over_photograph, 6.0),
}


def split_of(count: int, rng: np.random.Generator, ground: str) -> dict[str, np.ndarray]:
    """Draw `count` words, each in one of the fonts, and paint their masks: what `words.arrays` returns."""
    from PIL import Image

    look = LOOKS[ground]
    images = np.empty((count, ROWS, COLUMNS, 3), np.uint8)
    widths, texts = [], []
    for number in range(count):
        text = draw_text(rng)
        font = look.fonts[rng.integers(len(look.fonts))]
        image = look.paint(mask(text, font, rng, look.degrees), rng)
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
    """Draw `train` and `test` words, each split from its own stream of `seed`.

    The tensors are those of `words.arrays`. Raises Unavailable without the fonts or photographs.
    """
    tensors = {
        f"{split}/{kind}": array
        for number, (split, count) in enumerate({"train": train, "test": test}.items())
        for kind, array in split_of(count, np.random.default_rng([seed, number]), ground).items()
    }
    return Found(tensors, dict.fromkeys(tensors, folder), list(CHARACTERS), "a stand-in, not a published set")
