"""The pictures at the median that the page shows in the table of the best known leaks."""

import base64
import io
from collections.abc import Mapping

import numpy as np
import pandas as pd
from PIL import Image

from leakbench.base.cellname import CELL, of_lines


def with_pictures(table: pd.DataFrame, pictures: Mapping[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """Return a table with a column `picture`: a data: address, or "" if nothing is recorded."""
    if not len(table) or not {*CELL, "scale"} <= set(table):
        return table
    known = {key: address(pair) for key, pair in pictures.items()}
    return table.assign(
        picture=[known.get(key, "") for key in zip(table["scale"], of_lines(table), strict=True)]
    )


def address(pair: np.ndarray) -> str:
    """Return two images [2, rows, columns, 1 or 3], uint8, side by side as a data: address of a WebP."""
    both = np.concatenate(list(pair), axis=1)
    out = io.BytesIO()
    Image.fromarray(both[..., 0] if both.shape[-1] == 1 else both).convert("RGB").save(
        out, "WEBP", quality=80
    )
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode()
