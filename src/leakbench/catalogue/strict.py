"""The types of values that all kinds of YAML share."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field


def _distinct(values: list[Any]) -> list[Any]:
    twice = [value for number, value in enumerate(values) if value in values[:number]]
    if twice:
        raise ValueError(f"{twice[0]!r} is given twice")
    return values


Distinct = AfterValidator(_distinct)
Positive = Annotated[int, Field(gt=0)]
NAME = r"[a-z0-9][a-z0-9.-]{0,99}"
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Names = Annotated[list[Name], Field(min_length=1), Distinct]
