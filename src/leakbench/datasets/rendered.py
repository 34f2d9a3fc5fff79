"""Words drawn with the fonts that come with matplotlib: stand-ins for the rendered sets of text recognition.

DejaVu and STIX may be used and passed on freely (matplotlib's LICENSE_DEJAVU and LICENSE_STIX). What is drawn
depends on the seed, on numpy's generator and on Pillow.
"""

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leakbench.datasets.canonical import Found
from leakbench.datasets.official import Unavailable
from leakbench.datasets.word_list import WORDS
from leakbench.datasets.words import CHARACTERS, COLUMNS, ROWS, arrays

if TYPE_CHECKING:
    from PIL import Image, ImageFont

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
def _font(name: str) -> "ImageFont.FreeTypeFont":
    from PIL import ImageFont

    file = beside("matplotlib", "mpl-data/fonts/ttf") / f"{name}.ttf"
    # The basic layout needs no library that a machine may lack.
    return ImageFont.truetype(str(file), POINTS, layout_engine=ImageFont.Layout.BASIC)


def draw_text(rng: np.random.Generator) -> str:
    """Draw a word of the list, in capitals, as a name or small, or a number of one to four digits."""
    if rng.random() < NUMBERS:
        return "".join(CHARACTERS[digit] for digit in rng.integers(0, 10, rng.integers(1, 5)))
    word = WORDS[rng.integers(len(WORDS))]
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


def split_of(
    count: int,
    rng: np.random.Generator,
    fonts: tuple[str, ...],
    paint: Callable[["Image.Image", np.random.Generator], "Image.Image"],
    degrees: float = 0.0,
) -> dict[str, np.ndarray]:
    """Draw `count` words, each in one of the fonts, and `paint` their masks; return what `words.arrays`
    does."""
    from PIL import Image

    images = np.empty((count, ROWS, COLUMNS, 3), np.uint8)
    widths, texts = [], []
    for number in range(count):
        text = draw_text(rng)
        image = paint(mask(text, fonts[rng.integers(len(fonts))], rng, degrees), rng)
        wide, high = image.size
        small = image.convert("RGB").resize((COLUMNS, ROWS), Image.Resampling.BILINEAR)
        images[number] = np.asarray(small)
        widths.append(wide * ROWS / high)
        texts.append(text)
    return arrays(images, widths, texts)


def rendered(
    folder: Path,
    counts: dict[str, int],
    seed: int,
    fonts: tuple[str, ...],
    paint: Callable[["Image.Image", np.random.Generator], "Image.Image"],
    degrees: float = 0.0,
) -> Found:
    """Draw as many words as `counts` says for each split, each split from its own stream of `seed`.

    Raises Unavailable without the fonts.
    """
    tensors = {
        f"{split}/{kind}": array
        for number, (split, count) in enumerate(counts.items())
        for kind, array in split_of(
            count, np.random.default_rng([seed, number]), fonts, paint, degrees
        ).items()
    }
    return Found(tensors, dict.fromkeys(tensors, folder), list(CHARACTERS), "a stand-in, not a published set")
