"""One experiment of the page."""

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

SIGNATURE = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True)
class Section:
    """One experiment: what it shows, and everything measured for it.

    name: the experiment (fidel-figure-13). work, item: as in the scorecard (fidel, fig-13). title, shows: one
    sentence each. figure: the bytes of a PNG, empty when there is none. table: as the `table` verb writes it,
    baseline "" for the attack itself. knows: the threat model, field → value, or one of these for each cell.
    absent: cell → why it has no results.
    """

    name: str
    work: str
    item: str
    title: str
    shows: str
    figure: bytes
    table: pd.DataFrame
    knows: Mapping[str, Any]
    absent: Mapping[str, str] = field(default_factory=dict)


def picture(data: bytes) -> dict[str, str | int] | None:
    """A PNG as a data: address with its size in pixels, None for no bytes. Raises ValueError for anything
    else."""
    if not data:
        return None
    if not data.startswith(SIGNATURE) or len(data) < 24:
        raise ValueError("a figure of the report is not a PNG")
    width, height = struct.unpack(">II", data[16:24])
    return {
        "address": "data:image/png;base64," + base64.b64encode(data).decode(),
        "width": width,
        "height": height,
    }
