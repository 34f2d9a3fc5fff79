"""The attacks of an audit are those of the catalogue, with these parameters."""

from typing import Any

import pytest

from leakbench.audit.attacks import catalogue
from leakbench.base.parts import SECTIONS
from leakbench.catalogue.load import validate

COSINE, SMOOTH = {"cosine": {}}, {"total-variation": {"weight": 0.0001}}
WEIGHTS = {"shape": "linear", "beta": 50.0, "relu": True, "norms": "following", "order": "parameters"}
RISING = {"layer-weights": WEIGHTS}
SEARCH = {
    "module": "gradient-matching",
    "labels": "counted",
    "unknowns": {"dummies": {"boxed": True}},
    "optimiser": {"adam": {"lr": 0.1, "signed": True, "decay": True}},
}
ATTACKS: dict[str, dict[str, Any]] = {
    "fidel": {"module": "fidel"},
    "peel": {"module": "peel"},
    "spear": {"module": "spear", "parameters": {"peel": True}},
    "invg": SEARCH
    | {"objective": COSINE | SMOOTH, "parameters": {"updates": "simulated", "derivative": "frozen"}},
    "agic": SEARCH
    | {"objective": COSINE | RISING | SMOOTH, "parameters": {"updates": "one-batch", "derivative": "frozen"}},
}


def test_the_attacks_run_in_this_order() -> None:
    assert list(catalogue()) == list(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_these_parameters(name: str) -> None:
    entry = catalogue()[name]["entry"]
    meant = validate("attacks", "", name, ATTACKS[name] | {"summary": ""}).model_dump(mode="json")
    same = ("module", "parameters", "labels", "adaptive", "generator", *SECTIONS)
    assert {key: entry[key] for key in same} == {key: meant[key] for key in same}
    # The order in which terms are added decides the last digits of a loss.
    assert [list(entry[key]) for key in SECTIONS] == [list(meant[key]) for key in SECTIONS]
