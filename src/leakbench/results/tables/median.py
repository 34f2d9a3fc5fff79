"""One private image beside its reconstruction, from the trial at the median of its row of the table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import read_table
from leakbench.base.cellname import cell_name
from leakbench.base.pixels import pixels
from leakbench.catalogue.cell import Cell
from leakbench.results.tables.pictures import opened

# The columns of a table that say which trials a row summarises, where the scores have them.
ROW = ("checkpoint", "client", "local_samples", "pass")
# The longest side of a picture, in pixels; a larger picture keeps every second, third, … row and column.
SIDE = 64


def medians(
    root: Path, run: str, rows: pd.DataFrame, cells: Sequence[str], scores: Path | None = None
) -> dict[str, np.ndarray]:
    """Return cell -> uint8 [2, rows, columns, channels]: the private image and its reconstruction."""
    # A cell without its files, without pictures or whose median trial reconstructed nothing is left out.
    found = {}
    for row in rows.to_dict("records"):
        cell = cell_name(row)
        stems = [stem for stem in cells if Cell.parse(stem).name == cell]
        results = root / "results" / run
        picture = _median(root, results, scores or results / "scores", row, stems)
        if picture is not None:
            found[cell] = picture
    return found


def _median(
    root: Path, results: Path, scores: Path, row: dict[Any, Any], stems: Sequence[str]
) -> np.ndarray | None:
    files = {stem: scores / f"{Cell.parse(stem).capture}.parquet" for stem in stems}
    frames = [read_table(path)[0].assign(stem=stem) for stem, path in files.items() if path.is_file()]
    if not frames:
        return None
    rows = pd.concat(frames, ignore_index=True)
    asked = (rows["attack"] == row["attack"]) & (rows["baseline"] == "")
    for name in ROW:
        if name in rows and name in row:
            asked &= rows[name] == row[name]
    order = list(dict.fromkeys((row["metric"], "pearson")))
    own = rows[asked].sort_values(order, kind="stable", na_position="first")
    if not len(own):
        return None
    trial = own.iloc[len(own) // 2]
    cell = Cell.parse(str(trial["stem"]))
    guesses, truth = (results / f"{cell.path(kind)}.safetensors" for kind in ("guesses", "truth"))
    data = root / f"{cell.path('data')}.safetensors"
    if trial["match"] < 0 or not (guesses.is_file() and truth.is_file() and data.is_file()):
        return None
    images, about = opened(guesses)
    secret, drawn = opened(truth)
    private = opened(data)[0][f"{drawn['split']}/images"]
    if about["target"] != "images" or private.dtype != np.uint8 or private.shape[-1] not in (1, 3):
        return None
    turn, client = int(trial["round"]), int(trial["client"])
    index = secret[f"images/{client}"][turn, int(trial["sample"])]
    guess = np.array(images["images"][turn, client, int(trial["match"])])
    pair = np.stack([pixels(np.array(private[index])), np.clip(np.nan_to_num(guess), 0, 1)])
    step = -(-max(pair.shape[-2:]) // SIDE)
    whole = np.rint(255 * pair[..., ::step, ::step]).astype(np.uint8)
    return np.ascontiguousarray(whole.transpose(0, 2, 3, 1))
