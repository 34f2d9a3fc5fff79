"""Defences, adaptive attackers and malicious servers in a plan."""

from collections.abc import Callable
from pathlib import Path

from planning import planned

from leakbench.base.parts import parts_of
from leakbench.catalogue.spec import spec_of


def test_an_attack_that_plays_clients_is_told_their_defence(root: Callable[..., Path]) -> None:
    """Each of its specs has the defence of its cell, unless the attack's entry names one."""
    noisy = {"module": "gaussian", "parameters": {"scale": 0.5}}
    cells = {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "defence": ["none", "g"]}
    where = root(
        {
            "defences/g": {"summary": "x", **noisy},
            "attacks/c": {"summary": "x", "module": "learned-inverter"},
            "attacks/h": {
                "summary": "x",
                "module": "learned-inverter",
                "parameters": {"defence": {"module": "sign", "parameters": {}}},
            },
            "experiments/e": {"cells": [cells | {"attack": ["a", "c", "h"]}], "seeds": [0]},
        }
    )
    specs = planned(where).specs
    told = {name: specs[f"attack/d/v/f/{name}/0"] for name in ("g/a", "none/c", "g/c", "none/h", "g/h")}
    assert "defence" not in told["g/a"]
    assert "defence" not in told["g/a"]["attack"]["parameters"]
    plain, signs = ({"module": name, "parameters": {}} for name in ("none", "sign"))
    for name, defence in (("none/c", plain), ("g/c", noisy), ("none/h", signs), ("g/h", signs)):
        assert told[name]["defence"] == told[name]["attack"]["parameters"]["defence"] == defence
    # Its code counts among what the result hangs on, and the spec is one that the attack takes.
    assert "leakbench.defences.gaussian" in parts_of(told["g/c"])
    assert spec_of("attack", told["g/c"] | {"seed": 0}, "x").attack.parameters["defence"] == noisy


def test_what_watching_clients_find_hangs_on_the_detectors(root: Callable[..., Path]) -> None:
    spec = planned(root({"federations/f": {"watched": True}})).specs["capture/d/v/f/none/0"]
    looking = {"leakbench.federation.detectors.isolation", "leakbench.federation.detectors.rows_alike"}
    assert looking <= set(parts_of(spec))
    assert not looking & set(parts_of(spec | {"federation": spec["federation"] | {"watched": False}}))
