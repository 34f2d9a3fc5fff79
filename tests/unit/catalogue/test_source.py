"""The sources of a data set: exactly one way each."""

from typing import Any

import pytest
from pydantic import ValidationError

from leakbench.catalogue.schema import Source

WAYS: list[dict[str, Any]] = [{"folders": ["a"]}, {"torchvision": ["A"]}, {"package": "b"}, {"drawn": "c"}]


@pytest.mark.parametrize("given", [{}, {"put": "x"}, WAYS[0] | WAYS[3], WAYS[1] | WAYS[2]])
def test_none_and_two_ways_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="give exactly one of folders, torchvision, package, drawn"):
        Source.model_validate(given)


@pytest.mark.parametrize("given", WAYS)
def test_each_way_will_do(given: dict[str, Any]) -> None:
    made = Source.model_validate(given).model_dump()
    assert made | given == made
