"""What `--config` may say."""

import re

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.run import Settings, checked


def test_every_setting_may_be_said_and_none_is_the_quick_scale_on_the_processor() -> None:
    assert checked({}) == Settings(scale="quick", seed=None, device="cpu", confirm=False)
    said = {"scale": "paper", "seed": 3, "only": "a-1,b", "device": "cuda:1", "confirm": "yes"}
    assert checked(said) == Settings(scale="paper", seed=3, only="a-1,b", device="cuda:1", confirm=True)


@pytest.mark.parametrize("key", ["only", "seed"])
def test_a_setting_without_a_value_is_refused(key: str) -> None:
    with pytest.raises(UserError, match=rf"^--config {key}: is given without a value \("):
        checked({key: None})


REFUSED: dict[str, list[object]] = {
    "seed": ["x", -1, 1.5, True, "1", 2**53 + 1, 10**24], "device": ["gpu", "cuda:", 0],
    "scale": [1, "../quick"], "confirm": ["maybe"], "only": ["", "a, b", "../a"],
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, each) for key, of in REFUSED.items() for each in of])
def test_a_value_that_does_not_fit_is_refused_with_its_key(key: str, value: object) -> None:
    mend = "write .*" if key == "device" else "see docs/workflow.md"
    said = rf"^--config {key}: .*got {re.escape(repr(value))}.*\(({mend}|see docs/workflow.md)\)$"
    with pytest.raises(UserError, match=said):
        checked({key: value})


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^--config scal: .* \(did you mean 'scale'\?\)$"):
        checked({"scal": "paper"})
    known = "confirm, device, only, scale, seed"
    with pytest.raises(UserError, match=rf"^--config zzz: .* \(there are: {known}\)$"):
        checked({"zzz": 1})
