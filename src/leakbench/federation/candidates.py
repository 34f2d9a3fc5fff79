"""The candidates of a server that knows of some images that the private ones are among them."""

from typing import Any

import numpy as np

from leakbench.base.errors import Unfit
from leakbench.base.seeds import stream
from leakbench.federation.play import Private


def candidates(
    federation: dict[str, Any], private: Private, images: int, names: tuple[str | int, ...]
) -> np.ndarray:
    """Return the indices [n] of the images that the server holds, in random order; n may be 0."""
    others = federation.get("candidates", 0)
    if not others:
        return np.zeros(0, np.int64)
    rng = np.random.Generator(np.random.PCG64(stream("candidates", *names)))
    own = np.unique(np.concatenate([index.reshape(-1) for index in private.images]))
    start, stop = (federation["private"][key] for key in ("start", "stop"))
    free = np.setdiff1d(np.arange(start, min(stop, images)), own)
    if len(free) < others:
        raise Unfit(
            f"the copy of {names[0]} that is here has {len(free)} images beside the private ones, the "
            f"federation needs {others} as candidates (put the whole set into a directory of LEAKBENCH_DATA)"
        )
    return rng.permutation(np.concatenate([own, rng.choice(free, others, replace=False)]))
