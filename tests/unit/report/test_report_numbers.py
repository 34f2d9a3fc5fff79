"""How the page writes numbers."""

import math

import pytest

from leakbench.results.report.numbers import count, interval, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"), ("21.495", "21.5"), (-3, "−3"), (1234567, "1,234,567"), (0, "0"),
        (1e-7, "1e−07"),
        (None, ""), ("", ""), (math.nan, ""), (math.inf, "∞"), (-math.inf, "−∞"),
        ("layer=dense", "layer=dense"),
    ],
)  # fmt: skip
def test_number(value: object, text: str) -> None:
    assert number(value) == text


def test_interval_needs_both_ends() -> None:
    assert interval(0.5, "1.25") == "[0.5, 1.25]"
    assert interval(0.5, math.nan) == ""


def test_percent_and_count() -> None:
    assert (percent(0.125), percent(math.nan), count(200.0), count("10")) == ("12.5 %", "", "200", "10")
