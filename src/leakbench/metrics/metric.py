"""What a metric file declares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Metric:
    """One column of a score table.

    `function(reconstructions, truths, **needs)` maps two batches [N, C, H, W] to float64 [N]; `needs` names
    the keyword arguments it takes beyond the images. `of` says what is reconstructed: images, or the features
    that a dense layer reads, which are then compared with the images they came from; or how updates belong
    together, which the scorer measures on its own match and not on pairs of images; or the models that the
    federation trains, one after each round; or, of candidates, who was in a batch.
    """

    name: str
    function: Callable[..., Any]
    convention: Literal["standard", "published"]
    higher_is_better: bool
    needs: tuple[str, ...] = ()
    of: Literal["images", "features", "updates", "models", "candidates"] = "images"
