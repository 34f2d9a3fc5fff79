"""The types of values that all kinds of YAML share."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, Field

# The largest number of a spec, and so of a YAML. No attack of the catalogue comes near, and ten million steps
# do not end.
MOST = 10_000_000
# Beyond this, floating-point numbers do not hold every whole number.
LARGEST_SEED = 2**53


def _distinct(values: list[Any]) -> list[Any]:
    twice = [value for number, value in enumerate(values) if value in values[:number]]
    if twice:
        raise ValueError(f"{twice[0]!r} is given twice")
    return values


def _small(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if math.prod(shape) > MOST:
        raise ValueError(f"an image of more than {MOST} numbers (lower it)")
    return shape


Distinct = AfterValidator(_distinct)
Positive = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
# Rows, columns and channels. YAML has no tuples, so a list is taken for one.
Shape = Annotated[tuple[Positive, Positive, Positive], Field(strict=False), AfterValidator(_small)]
NAME = r"[a-z0-9][a-z0-9.-]{0,99}"
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Names = Annotated[list[Name], Field(min_length=1), Distinct]
