"""The declaration of a metric in its file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Metric:
    """One column of a score table.

    name: the name of the column.
    function: `function(reconstructions, truths, **needs)` maps two batches [N, C, H, W] to float64 [N].
    convention: "standard", or "published" for what the code of a paper computes.
    higher_is_better: whether a larger value is a better reconstruction.
    needs: the keyword arguments that the function takes beyond the images.
    of: what is measured.

    `images` are reconstructions of private images. `features` are what a dense layer reads, which are
    compared with the images they came from. `updates` say how updates belong together; the scorer measures
    them on its own match instead of on pairs of images. `models` are those that the federation trains, one
    after each round. `candidates` ask who was in a batch.
    """

    name: str
    function: Callable[..., Any]
    convention: Literal["standard", "published"]
    higher_is_better: bool
    needs: tuple[str, ...] = ()
    of: Literal["images", "features", "updates", "models", "candidates"] = "images"
