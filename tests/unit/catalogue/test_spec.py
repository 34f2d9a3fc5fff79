"""The spec of a job is checked to its last value, and each mistake is one line with file and key."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest
from specs import CELL, SPECS, altered, at, verb_of

from leakbench.base.errors import UserError
from leakbench.catalogue.spec import spec_of

NO_TEXT = "\ud800"
# No key of a spec may hold one of these.
NEVER: tuple[Any, ...] = (math.nan, math.inf, -math.inf, 2**70, [None], {"momentun": 1}, [[[]]], NO_TEXT)
# Some may hold these.
SOME: tuple[Any, ...] = (None, True, -1, 0, 1.5, "", "x", "../x", "10", [], {})
# What is checked as an entry of the catalogue is.
OF_THE_ATTACK = ("attack", "attack_name", "null_rounds", "seed")
# What a spec may be without: what says something only where it is given, arguments with a default, and names.
MAY_LACK = {
    "victim": {"victim.parameters.hidden", "victim.training.options.nesterov"},
    "generator": {"victim.parameters.hidden", "generator.training.options.nesterov"},
    "study": {
        "encryption", "encryption.parameters.pieces", "training.options.rho", "training.fusion",
        "training.privacy", "training.poisoned", "training.faults", "victim.parameters.hidden",
    },
    "capture": {
        "malicious", "malicious.parameters.bins", "victim.parameters.hidden", "federation.candidates",
        "federation.begins",
    },
    "attack": {"adaptation", "defence", "defence.parameters"},
    "score": set(),
    "table": {f"cells_left_out.{CELL}", f"shares.{CELL}", f"shares.{CELL}.victim"},
}  # fmt: skip


def keys_of(value: Any, *above: str) -> Iterator[str]:
    """Yield the keys of everything within a value, with dots between them."""
    for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
        yield ".".join((*above, str(key)))
        if isinstance(inside, dict | list):
            yield from keys_of(inside, *above, str(key))


def line_of(kind: str, spec: dict[str, Any]) -> str:
    """Return what is said of a spec, without the file; "" where it passes."""
    try:
        spec_of(verb_of(kind), spec, "spec.json")
    except UserError as problem:
        line = str(problem)
        assert line.startswith("spec.json: "), line
        assert line.endswith(")"), line
        assert "\n" not in line, line
        return line.removeprefix("spec.json: ")
    return ""


@pytest.mark.parametrize("kind", SPECS)
def test_a_sound_spec_passes(kind: str) -> None:
    assert line_of(kind, SPECS[kind]) == ""


@pytest.mark.parametrize("kind", SPECS)
def test_whatever_a_key_holds_is_taken_or_refused_in_one_line_that_names_it(kind: str) -> None:
    for keys in keys_of(SPECS[kind]):
        first = keys.partition(".")[0]
        for value in NEVER if first not in OF_THE_ATTACK else ():
            line = line_of(kind, altered(kind, (keys, value)))
            # JSON that holds no text is refused as a whole.
            named = "(whole file)" if value == NO_TEXT else first
            assert line.startswith(named), f"{keys}: {value!r}: {line}"
        for value in SOME:
            line_of(kind, altered(kind, (keys, value)))


@pytest.mark.parametrize("kind", SPECS)
def test_every_mapping_knows_its_keys(kind: str) -> None:
    for keys in ("", *keys_of(SPECS[kind])):
        # The attack's own keys are those of the catalogue.
        own = keys.partition(".")[0] in OF_THE_ATTACK
        if not own and isinstance(at(SPECS[kind], keys), dict):
            unknown = f"{keys}.momentun".removeprefix(".")
            line = line_of(kind, altered(kind, (unknown, [])))
            assert line.startswith(f"{unknown}: "), line


@pytest.mark.parametrize("kind", SPECS)
def test_a_spec_may_lack_only_what_says_something_where_it_is_given(kind: str) -> None:
    spec = SPECS[kind]
    lists = [keys for keys in keys_of(spec) if isinstance(at(spec, keys), list)]
    every = [keys for keys in keys_of(spec) if keys.partition(".")[0] not in OF_THE_ATTACK]
    mapped = [keys for keys in every if keys.rpartition(".")[0] not in lists]
    assert {keys for keys in mapped if not line_of(kind, altered(kind, (keys, ...)))} == MAY_LACK[kind]


def test_what_is_known_of_a_defence_may_be_for_those_who_do_not_adapt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then its file holds the function `unadapted` alone."""
    of_file = altered("attack", ("adaptation.module", "own-defence"))
    assert "is no part of src/leakbench/attacks/adaptive" in line_of("attack", of_file)
    monkeypatch.setattr("leakbench.catalogue.spec.names", lambda room: ["own_defence"])
    assert line_of("attack", of_file) == ""


def test_a_spec_too_deep_to_read_is_refused() -> None:
    deep = json.loads(300 * '{"a":' + "1" + 300 * "}")
    assert line_of("victim", altered("victim", ("victim.parameters", deep))).startswith("(whole file): ")


@pytest.mark.parametrize(
    ("kind", "keys", "value", "says"),
    [
        ("victim", "victim.training.options.momentun", 0.9, "did you mean 'momentum'?"),
        ("victim", "victim.training.options.momentum", True, "valid number"),
        ("victim", "victim.training.options.momentum", -1, "greater than or equal to 0"),
        ("victim", "victim.training.options.nesterov", 1, "valid boolean"),
        ("victim", "victim.training.options.lr", 0.1, "no such key"),
        ("generator", "generator.training.options.rho", 0.1, "no such key"),
        ("study", "training.options.roh", 0.9, "did you mean 'rho'?"),
        ("study", "training.options.rho", 2, "less than or equal to 1"),
        ("victim", "victim.training.epochs", "2", "valid integer, got '2'"),
        ("victim", "victim.training.epochs", 2.0, "valid integer"),
        ("victim", "victim.training.checkpoints", [2, 3], "3 is beyond the 2 epochs"),
        ("victim", "victim.training.images", ..., "is missing"),
        ("victim", "victim.module", "nosuch", "is no part of src/leakbench/networks/victims (there are: "),
        ("victim", "victim.module", "file", "is no part of src/leakbench/networks/victims"),
        ("victim", "victim.module", "../attacks/spear", "should match pattern"),
        ("victim", "victim.module", "lenet_dgl", "did you mean 'lenet-dlg'?"),
        ("victim", "victim.parameters.hiden", [3], "did you mean 'hidden'?"),
        ("victim", "victim.parameters.hidden", [True], "valid integer"),
        ("victim", "victim.titel", "x", "did you mean 'title'?"),
        ("victim", "dataset.shape", [32], "missing"),
        ("victim", "dataset.shape", [10**4, 10**4, 3], "an image of more than"),
        ("victim", "dataset.name", "../x", "should match pattern"),
        ("victim", "seed", -1, "greater than or equal to 0"),
        ("victim", "seed", 2**53 + 2, "less than or equal to"),
        ("victim", "victim.training.batch_size", 10**8, "beyond 10000000"),
        ("generator", "victim", ..., "is missing, and the generator reads its features (add it)"),
        ("generator", "victim", None, "is missing, and"),
        ("generator", "generator.auxiliary.dataset", None, "valid string"),
        ("generator", "generator.training", None, "give either weights, or auxiliary and training"),
        ("study", "aggregation.module", "fedavq", "did you mean 'fedavg'?"),
        ("study", "encryption.parameters.piecse", 1, "did you mean 'pieces'?"),
        ("study", "encryption", None, "is null (leave it out"),
        ("study", "study.dataset", "other", "is not dataset.name, 'made'"),
        ("study", "training.hold_out", ..., "for validation by others (add hold_out)"),
        ("study", "training.faults.0.roud", 1, "did you mean 'round'?"),
        ("capture", "federation.rounds", True, "valid integer, got True"),
        ("capture", "federation.rounds", "10", "valid integer, got '10'"),
        ("capture", "federation.passes", 3, "rounds 4 must be a multiple of passes 3"),
        ("capture", "federation.evaluate", 3, "a frozen server's model never changes"),
        ("capture", "federation.keep", ..., "is missing"),
        ("capture", "federation.alpha", None, "is null (leave it out"),
        ("capture", "federation.private.stop", 0, "greater than 0"),
        ("capture", "federation.malicious", "x", "should be null"),
        ("capture", "federation.checkpoints", "first", "valid array, got 'first'"),
        ("capture", "federation.checkpoints", [0, "x"], "valid integer, got 'x'"),
        ("capture", "defence.module", "../x", "is no part of src/leakbench/defences"),
        ("capture", "malicious.module", "lokki", "did you mean 'loki'?"),
        ("capture", "malicious.threat", "A", "should be 'F', 'G' or 'H'"),
        ("capture", "salt", "", "should match pattern"),
        ("attack", "adaptation", None, "is null (leave it out"),
        ("attack", "adaptation.module", "prunne", "did you mean 'prune'?"),
        ("attack", "adaptaton", {"module": "prune"}, "did you mean 'adaptation'?"),
        ("attack", "defence.parameters.shares", 1, "did you mean 'share'?"),
        ("attack", "seed", 2**70, "is beyond 9007199254740992"),
        ("score", "attacks.fidel.metrics", ["nosuch"], "no metric 'nosuch' (there are: "),
        ("score", "attacks.fidel.metrics", ["mse", "mse"], "'mse' is given twice"),
        ("score", "attacks.fidel.judges", ["other"], "'other' is none of judges (add it there)"),
        ("score", "attacks", {}, "at least 1 item"),
        ("score", "cell.seed", "0", "valid integer"),
        ("table", "cells", [3], "valid string, got 3"),
        ("table", "cells", [CELL, CELL], "is given twice"),
        ("table", "cells", ["../x"], "should match pattern"),
        ("table", "studies", [], "has either studies or cells"),
        ("table", "experiment.success", ["psnr"], "'psnr' is not scored (add it to metrics)"),
        ("table", "experiment.exhibit.rule", "frist", "should be 'first'"),
        ("table", "shares", {"../x": {}}, "should match pattern"),
    ],
)
def test_a_mistake_is_told_with_its_key(kind: str, keys: str, value: Any, says: str) -> None:
    """Or with the key of the mapping, where several of its keys do not fit each other."""
    line = line_of(kind, altered(kind, (keys, value)))
    assert f"{line.partition(': ')[0]}.".startswith((f"{keys}.", f"{keys.rpartition('.')[0]}.")), line
    assert says in line


@pytest.mark.parametrize(
    ("kind", "changes", "line"),
    [
        (
            "victim",
            {"victim.training.options": {"nesterov": True}},
            "victim.training.options.nesterov: needs",
        ),
        ("study", {"training.hold_out": ..., "training.fusion": ...}, "training.hold_out: is missing"),
        ("study", {"aggregation": ...}, "training: hold_out is for an aggregation that is named"),
        (
            "study",
            {"training.split": "by-client", "training.beside": ["other"]},
            "training.clients: each has",
        ),
        ("study", {"training.poisoned.client": 3}, "training: client 3 is beyond the 3 clients"),
        ("study", {"training.alpha": 0.5}, "training: alpha is for split: dirichlet"),
        (
            "capture",
            {"federation.server": "fedavg", "federation.begins": ...},
            "federation.server: a malicious",
        ),
        ("score", {"attacks.fidel.metrics": ["top1_resnet18"]}, "attacks.fidel.judges: its metrics ask"),
        ("table", {"experiment.metrics": None, "experiment.success": []}, "experiment.metrics: cells need"),
    ],
)
def test_keys_that_do_not_fit_each_other_are_told(kind: str, changes: dict[str, Any], line: str) -> None:
    assert line_of(kind, altered(kind, *changes.items())).startswith(line)
