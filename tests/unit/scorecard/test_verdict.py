import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakbench.scorecard.measure import Measured, exactly
from leakbench.scorecard.verdict import Relation, decide

TWENTY = Measured(20.0, 19.5, 20.5, 200)


def test_nothing_measured_is_not_run_with_its_reason() -> None:
    assert decide(None, 20.0, absent="needs MNIST").word == "not-run"
    assert decide(None, 20.0, absent="needs MNIST").reason == "needs MNIST"
    assert decide(None, "dense").reason == "not implemented"


@pytest.mark.parametrize(
    ("measured", "published", "word"),
    [
        ("128", "128", "reproduced"),
        ("0.0100", "1e-2", "reproduced"),
        ("Adadelta", "adadelta", "reproduced"),
        ("adam", "adadelta", "differs"),
        ("", "0.95", "differs"),
        ("layer=dense; size=128; stride=; activation=relu", "layer=dense; size=128", "reproduced"),
        (
            "layer=conv2d; size=3,3x32; padding=valid",
            "layer=conv2d; size=3,3 x 32; padding=valid",
            "reproduced",
        ),
        ("layer=conv2d; padding=valid", "layer=conv2d; padding=same", "differs"),
        ("layer=dense", "layer=dense; size=10", "differs"),
    ],
)
def test_facts_are_equal_or_not(measured: str, published: str, word: str) -> None:
    assert decide(measured, published, direction_holds=True).word == word


@pytest.mark.parametrize(
    ("against", "relation", "words"),
    [
        (20.0, "=", "the same number"),
        (21.0, "=", "21 is 1 from the measured value, which has no interval"),
        (19.0, ">", "> 19: 20, without an interval"),
        (21.0, ">", "not > 21: measured 20, without an interval"),
    ],
)
def test_a_number_alone_is_given_no_interval(against: float, relation: Relation, words: str) -> None:
    assert decide(Measured(20.0, 20.0, 20.0, 1), against, relation).reason == words


def test_a_differing_layer_names_the_cell() -> None:
    assert "padding is valid" in decide("layer=x; padding=valid", "layer=x; padding=same").reason


@pytest.mark.parametrize(
    ("published", "tolerance", "holds", "word"),
    [
        (20.4, 0.0, None, "reproduced"),
        (20.5, 0.0, False, "reproduced"),
        (21.0, 1.0, None, "reproduced"),
        (21.0, 0.9, True, "direction"),
        (21.0, 0.9, False, "differs"),
        (21.0, 0.9, None, "differs"),
    ],
)
def test_numbers(published: float, tolerance: float, holds: bool | None, word: str) -> None:
    assert decide(TWENTY, published, tolerance=tolerance, direction_holds=holds).word == word


@pytest.mark.parametrize(
    ("relation", "against", "holds", "word"),
    [
        (">", 19.0, None, "reproduced"),
        (">", 19.5, None, "direction"),
        (">=", 19.5, None, "reproduced"),
        (">", 20.0, None, "differs"),
        (">=", 20.0, None, "direction"),
        (">", 20.2, True, "direction"),
        (">", 20.2, False, "differs"),
        ("<", 20.6, None, "reproduced"),
        ("<", 20.5, None, "direction"),
        ("<=", 20.5, None, "reproduced"),
        ("<", 20.0, None, "differs"),
    ],
)
def test_claims_and_bounds(relation: str, against: float, holds: bool | None, word: str) -> None:
    assert decide(TWENTY, against, relation, direction_holds=holds).word == word  # type: ignore[arg-type]


def test_an_undefined_quantity_differs() -> None:
    undefined = Measured(math.nan, math.nan, math.nan, 3)
    assert decide(undefined, 0.0, ">", direction_holds=True).word == "differs"
    assert "undefined" in decide(undefined, 0.0).reason


@pytest.mark.parametrize("published", [math.nan, "failure"])
def test_a_number_needs_a_number(published: float | str) -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        decide(exactly(1), published)


numbers = st.floats(-1e6, 1e6)
widths = st.floats(0, 1e6)


relations = st.sampled_from(["=", ">", ">=", "<", "<="])
orderings = st.sampled_from([None, True, False])


@given(numbers, widths, widths, widths, widths, numbers, relations, widths, orderings)
def test_widening_the_interval_never_turns_reproduced_into_differs(
    value: float,
    down: float,
    up: float,
    more_down: float,
    more_up: float,
    against: float,
    relation,
    tolerance,
    holds,
) -> None:
    narrow = Measured(value, value - down, value + up, 9)
    wide = Measured(value, narrow.low - more_down, narrow.high + more_up, 9)
    before = decide(narrow, against, relation, tolerance=tolerance, direction_holds=holds).word
    after = decide(wide, against, relation, tolerance=tolerance, direction_holds=holds).word
    assert not (before == "reproduced" and after == "differs")
    if relation == "=" and before == "reproduced":
        assert after == "reproduced"


@given(numbers, widths, widths, st.sampled_from([(">", "<="), (">=", "<")]))
def test_a_claim_and_its_opposite_are_not_both_reproduced(value: float, down: float, up: float, pair) -> None:
    measured = Measured(value, value - down, value + up, 9)
    words = [decide(measured, 0.0, relation).word for relation in pair]
    assert words.count("reproduced") <= 1
    assert words.count("differs") == 1
