"""Words on plain ground, drawn and not fetched: a stand-in for a rendered set such as Synth90K, where that is
not at hand.

Grey, as Synth90K's pictures are, upright and unturned: dark on light or light on dark.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from leakbench.datasets import rendered
from leakbench.datasets.canonical import Found

if TYPE_CHECKING:
    from PIL import Image

FONTS = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSansMono", "DejaVuSerif")
# Between ink and ground, of 255 levels.
CONTRAST = 90


def paint(mask: "Image.Image", rng: np.random.Generator) -> "Image.Image":
    """Return a word in one level of grey on another, at least CONTRAST apart."""
    from PIL import Image

    while True:
        ink, ground = (int(level) for level in rng.integers(0, 256, 2))
        if abs(ink - ground) >= CONTRAST:
            return Image.composite(Image.new("L", mask.size, ink), Image.new("L", mask.size, ground), mask)


def words_plain(
    folder: Path,
    *,
    train: Annotated[int, Field(gt=0)] = 6000,
    test: Annotated[int, Field(gt=0)] = 600,
    seed: int = 0,
) -> Found:
    """Draw `train` and `test` words for the two splits: tensors as `words.arrays` has them.

    Raises Unavailable without matplotlib's fonts.
    """
    return rendered.rendered(folder, {"train": train, "test": test}, seed, FONTS, paint)
