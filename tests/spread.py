"""Rows of data that a YAML file writes in short."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any


def spread(said: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each value of the keys that have lists, which all go together.

    `each`: keys with lists of which every combination has rows of its own.
    """
    found = []
    for one in said:
        product = one.get("each", {})
        for values in itertools.product(*product.values()):
            own = {k: v for k, v in one.items() if k != "each"} | dict(zip(product, values, strict=True))
            count = max((len(v) for v in own.values() if isinstance(v, list)), default=1)
            found += [
                {k: v[turn] if isinstance(v, list) else v for k, v in own.items()} for turn in range(count)
            ]
    return found
