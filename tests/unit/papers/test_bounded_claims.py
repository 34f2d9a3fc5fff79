"""Claims of a stranger's work cost bounded time and memory."""

from typing import Any

import pytest
from pydantic import ValidationError

from leakbench.papers.scorecard.expression import evaluated, parse
from leakbench.papers.work import Claim

LARGE = [
    (" + ".join(["9" * 18] * 20), {}), (" * ".join(["10"] * 30), {}), ("a + a + a", {"a": "x" * 15_000}),
    ("[y for x in [a] for y in [x + x + x]]", {"a": [0] * 15_000}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "let"), LARGE)
def test_numbers_texts_and_lists_have_a_longest(text: str, let: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than"):
        evaluated(parse(text, "x", set(), {*let}), {}, let)


def claim(headline: str) -> Claim:
    return Claim.model_validate(
        {"id": "a", "item": "table-1", "claim": "x", "quantity": "1", "headline": headline}
    )


def test_a_headline_has_a_plain_format() -> None:
    for text in ("is {value}", "is {value:.0%}", "is {value:.2f} and {value:.1e}"):
        assert claim(text).headline == text
    for text in ("is", "{value:2000000000}", "{value:.2000000000f}", "{value.real}", "{value} {", "{0}"):
        with pytest.raises(ValidationError, match="headline"):
            claim(text)
