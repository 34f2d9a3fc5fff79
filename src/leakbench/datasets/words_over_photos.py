"""Words over crops of photographs, drawn and not fetched: a stand-in for a set such as SynthText, where that
is not at hand.

Coloured and a little turned. The photographs are those that come with scikit-image: all in the public domain,
or given to it.
"""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from leakbench.datasets import rendered
from leakbench.datasets.canonical import Found
from leakbench.datasets.official import Unavailable

if TYPE_CHECKING:
    from PIL import Image

FONTS = (
    "DejaVuSans-Bold",
    "DejaVuSerif-Bold",
    "DejaVuSans-BoldOblique",
    "DejaVuSansMono-Bold",
    "STIXGeneralBol",
)
PHOTOGRAPHS = (
    "astronaut.png",
    "chelsea.png",
    "coffee.png",
    "rocket.jpg",
    "brick.png",
    "grass.png",
    "gravel.png",
)
DEGREES = 6.0
# Between ink and the mean of the ground, summed over three channels of 255 levels.
CONTRAST = 220


@cache
def _photograph(name: str) -> "Image.Image":
    from PIL import Image

    file = rendered.beside("skimage", "data") / name
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


def paint(mask: "Image.Image", rng: np.random.Generator) -> "Image.Image":
    """Return a word in a colour that differs from the mean of the photograph behind it by at least
    CONTRAST."""
    from PIL import Image

    behind = ground(mask.size, rng)
    mean = np.asarray(behind, float).mean((0, 1))
    while True:
        ink = rng.integers(0, 256, 3)
        if np.abs(ink - mean).sum() >= CONTRAST:
            colour = tuple(int(level) for level in ink)
            return Image.composite(Image.new("RGB", mask.size, colour), behind, mask)


def words_over_photos(
    folder: Path,
    *,
    train: Annotated[int, Field(gt=0)] = 6000,
    test: Annotated[int, Field(gt=0)] = 600,
    seed: int = 1,
) -> Found:
    """Draw `train` and `test` words for the two splits: tensors as `words.arrays` has them.

    Raises Unavailable without fonts or photographs.
    """
    return rendered.rendered(folder, {"train": train, "test": test}, seed, FONTS, paint, DEGREES)
