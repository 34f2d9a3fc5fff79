"""What `--config` may say."""

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.run import Settings, checked


def test_nothing_said_is_the_quick_scale_on_the_processor() -> None:
    assert checked({}) == Settings(scale="quick", seed=None, device="cpu", confirm=False)


def test_every_setting_may_be_said() -> None:
    said = {"scale": "paper", "seed": 3, "only": "a-1,b", "device": "cuda:1", "confirm": "yes"}
    assert checked(said) == Settings(scale="paper", seed=3, only="a-1,b", device="cuda:1", confirm=True)


@pytest.mark.parametrize("key", ["only", "seed"])
def test_a_setting_without_a_value_is_refused(key: str) -> None:
    with pytest.raises(UserError, match=rf"^--config {key}: is given without a value \("):
        checked({key: None})


@pytest.mark.parametrize("seed", ["x", -1, 1.5, True, "1", 2**53 + 1, 10**24])
def test_a_seed_that_is_no_whole_number_is_refused(seed: object) -> None:
    with pytest.raises(UserError, match=rf"^--config seed: .*, got {seed!r} \(see docs/workflow.md\)$"):
        checked({"seed": seed})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("device", "gpu"),
        ("device", "cuda:"),
        ("device", 0),
        ("scale", 1),
        ("scale", "../quick"),
        ("confirm", "maybe"),
        ("only", ""),
        ("only", "a, b"),
        ("only", "../a"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_key(key: str, value: object) -> None:
    with pytest.raises(
        UserError, match=rf"^--config {key}: .*\((see docs/workflow.md|write .*)\)$"
    ) as refused:
        checked({key: value})
    assert f"got {value!r}" in str(refused.value)


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^--config scal: .* \(did you mean 'scale'\?\)$"):
        checked({"scal": "paper"})
    known = "confirm, device, only, scale, seed"
    with pytest.raises(UserError, match=rf"^--config zzz: .* \(there are: {known}\)$"):
        checked({"zzz": 1})
