"""One experiment of the page, and the pictures that the page holds as data: addresses."""

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from leakbench.base.cellname import CELL, of_lines
from leakbench.results.figures.words import BOTTOM, FOOT, TOP

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# The largest width of a picture on the page, in pixels.
WIDE = 1160


@dataclass(frozen=True)
class Section:
    """One experiment: what it shows, and everything measured for it."""

    name: str  # the name of the experiment (fidel-figure-13)
    work: str  # the name of the work, as in the scorecard (fidel)
    item: str  # the item of the work, as in the scorecard (fig-13)
    title: str
    shows: str
    figure: bytes  # the bytes of a PNG, empty if there is none
    table: pd.DataFrame  # as the `table` verb writes it, with the baseline "" for the attack itself
    knows: Mapping[str, Any]  # the threat model, field → value, or one of these for each cell
    absent: Mapping[str, str] = field(default_factory=dict)  # cell → why it has no results
    made: bool = True  # whether the run wrote a page of the experiment
    table_file: str = ""  # where the page links the table; empty if there is none
    trials_file: str = ""  # where the page links the single trials; empty if there are none
    commit: str = ""  # the commit that made table and figure
    command: str = ""  # the command that makes them
    scale: str = ""  # the scale of table and figure
    # If table and figure are those of a recorded run, when, where and from what it was recorded; otherwise
    # empty.
    recorded: str = ""
    found: str = ""  # what the measurement showed, in Markdown


def picture(data: bytes) -> dict[str, str | int] | None:
    """Return a PNG as a data: address of an AVIF with its size, or None for no bytes."""
    if not data:
        return None
    if not data.startswith(SIGNATURE):
        raise ValueError("a figure of the report is not a PNG")
    with Image.open(io.BytesIO(data)) as image:
        # The page has title, claim and small print itself, as text.
        top, bottom = (int(image.info.get(key, 0)) for key in (TOP, BOTTOM))
        foot = image.info.get(FOOT, "")
        small = image.convert("RGB").crop((0, top, image.width, image.height - bottom))
    small.thumbnail((WIDE, small.height))
    # An AVIF has half the bytes of a WebP that looks the same. With one thread, every machine writes the same
    # bytes. Halved colours would smear small text.
    written = _written(small, "avif", quality=24, speed=8, max_threads=1, subsampling="4:4:4")
    return {"address": written, "width": small.width, "height": small.height, "foot": foot}


def _written(image: Image.Image, kind: str, **how: Any) -> str:
    out = io.BytesIO()
    image.save(out, kind.upper(), **how)
    return f"data:image/{kind};base64," + base64.b64encode(out.getvalue()).decode()


def with_pictures(table: pd.DataFrame, pictures: Mapping[tuple[str, str], np.ndarray]) -> pd.DataFrame:
    """Return a table with a column `picture`: the data: address of (scale, cell), or "" if there is none."""
    if not len(table) or not {*CELL, "scale"} <= set(table):
        return table
    known = {key: address(pair) for key, pair in pictures.items()}
    cells = zip(table["scale"], of_lines(table), strict=True)
    return table.assign(picture=[known.get(key, "") for key in cells])


def address(pair: np.ndarray) -> str:
    """Return two images [2, rows, columns, 1 or 3], uint8, side by side as a data: address of a WebP."""
    both = np.concatenate(list(pair), axis=1)
    image = Image.fromarray(both[..., 0] if both.shape[-1] == 1 else both).convert("RGB")
    return _written(image, "webp", quality=80)
