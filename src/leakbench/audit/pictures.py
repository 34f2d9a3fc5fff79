"""Pictures of private records beside their reconstructions, made only if the user asks for them."""

import base64
import io
from typing import Any

import numpy as np
from torch import Tensor

from leakbench.audit.found import LEVELS, Found
from leakbench.audit.view import Truth

EDGE = 96


def pictures(found: list[Found], truth: Truth) -> list[dict[str, Any]]:
    """Return pictures of three records of the attack that came furthest.

    These are the worst, the median and the best record for the client. Records that are no images have no
    pictures.

    found: the results of the attacks.
    truth: the private records.

    Returns mappings with `which`, `level`, `r`, `attack`, and the PNGs of record (`truth`) and reconstruction
    (`made`) as data addresses.
    """
    channels, rows, columns = truth.images.shape[1:]
    made = [each for each in found if each.images is not None]
    if not made or rows * columns == 1 or channels not in (1, 3):
        return []
    best = max(made, key=lambda each: (sum(each.levels), sum(each.quality)))
    assert best.images is not None
    order = sorted(range(len(best.levels)), key=lambda i: (best.levels[i], best.quality[i]))
    of = {
        order[len(order) // 2]: "median",
        order[0]: "best for the client",
        order[-1]: "worst for the client",
    }
    places = {which: i for i, which in sorted(of.items(), key=lambda each: -order.index(each[0]))}
    return [
        {
            "which": which, "level": LEVELS[best.levels[i]], "r": best.quality[i], "attack": best.title,
            "truth": _png(truth.images[i]), "made": _png(best.images[i]),
        }
        for which, i in places.items()
    ]  # fmt: skip


def _png(image: Tensor) -> str:
    """Return an image [channels, rows, columns] from 0 to 1 as a data address."""
    from PIL import Image

    pixels = np.rint(np.nan_to_num(image.clamp(0, 1).numpy()) * 255).astype(np.uint8)
    picture = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    times = max(1, EDGE // max(picture.size))
    picture = picture.resize((picture.width * times, picture.height * times), Image.Resampling.NEAREST)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
