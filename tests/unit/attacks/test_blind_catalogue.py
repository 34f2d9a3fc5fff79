"""Every attack of the catalogue gives the same bytes whether the truth is there, is away, or is another's."""

import json
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize  # noqa: F401 - or every child would load it
import torch._dynamo  # noqa: F401 - likewise
from nightly import daily, first_of_each

from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.processes.blinding import _forked, seal, unsealed
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.spec import spec_of
from leakbench.jobs.attack import attack
from leakbench.jobs.capture import capture
from leakbench.jobs.train import train

CONFIG = Path(__file__).parents[3] / "config"
SHAPE, CLASSES = [16, 16, 1], 5
IMAGE = {"name": "made", "shape": SHAPE, "classes": CLASSES}
TEXT = {"name": "written", "shape": [1, 6, 1], "classes": 30}
VICTIMS: dict[str, dict[str, Any]] = {
    "lenet": {"module": "lenet-dlg", "parameters": {"norm": "batch"}},
    "fcnn": {"module": "fcnn", "parameters": {"width": 12}},
    "cnn": {"module": "cnn", "parameters": {}},
    "dense": {"module": "mlp", "parameters": {}},
    "precode": {"module": "precode", "parameters": {"network": "lenet-dlg", "width": 8}},
    "imprinted": {"module": "imprinted", "parameters": {"bins": 20}},
    "transformer": {"module": "transformer", "parameters": {"width": 32, "heads": 2}},
}
# The server of `imprinted` writes its weights.
MALICIOUS = {
    "module": "robbing-the-fed", "parameters": {}, "threat": "G",
    "auxiliary": {"split": "train", "start": 0, "stop": 40},
}  # fmt: skip
# Captures to try an attack on, until it finds one that it works on: victim, passes over the set, samples.
CASES = [
    ("lenet", 1, 1), ("cnn", 1, 2), ("fcnn", 1, 2), ("lenet", 2, 2), ("dense", 1, 2), ("precode", 1, 1),
    ("imprinted", 1, 2), ("transformer", 1, 2),
]  # fmt: skip
GENERATORS = {
    "features": {"module": "fidel-mnist", "parameters": {}},
    "latent": {"module": "cvae", "parameters": {"latent": 5, "width": 4}},
    "nothing": {"module": "samples", "parameters": {"each": 2}},
}


def words(value: Any) -> Any:
    """Return what of an entry may choose other code: names and switches, and which numbers are left out."""
    if isinstance(value, dict):
        return tuple(sorted((key, words(each)) for key, each in value.items()))
    if isinstance(value, list):
        return tuple(map(words, value))
    return "" if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Return the attacks of the catalogue, but for those that differ from another in numbers alone: they run
    the same code."""
    kept: dict[Any, tuple[str, dict[str, Any]]] = {}
    for name, entry in load_kind(CONFIG, "attacks").items():
        value = entry.model_dump(mode="json", exclude={"summary", "title"})
        key = words(value | {"generator": bool(value["generator"])})
        kept.setdefault(key, (name, value))
    return dict(kept.values())


def spec(verb: str, value: dict[str, Any]) -> Any:
    return spec_of(verb, value | {"seed": 0}, "spec.json")


class World:
    """A checkout's folders with captures of every case, played twice: with the salts a and b."""

    def __init__(self, root: Path) -> None:
        self.root = root
        rng = np.random.default_rng(0)
        arrays = {}
        for split in ("train", "test"):
            arrays[f"{split}/images"] = rng.integers(0, 256, (40, *SHAPE), dtype=np.uint8)
            arrays[f"{split}/labels"] = rng.permutation(np.arange(40) % CLASSES)
        write_tensors(self.data("dense"), arrays, {})
        tokens = rng.integers(0, TEXT["classes"], (2, 40, 6))
        arrays = {}
        for split, own in zip(("train", "test"), tokens, strict=True):
            arrays[f"{split}/images"] = (own / TEXT["classes"]).astype(np.float32)[:, None, :, None]
            arrays[f"{split}/labels"] = own[:, 1:].copy()
        write_tensors(self.data("transformer"), arrays, {})
        for name, network in VICTIMS.items():
            value = {"victim": network | {"training": None}, "dataset": self.set(name)}
            train(spec("train", value), self.data(name), self.victim(name), None, None, root / "scratch")
        for case in CASES:
            for salt in "ab":
                self.play(case, salt)

    def set(self, victim: str) -> dict[str, Any]:
        return TEXT if victim == "transformer" else IMAGE

    def data(self, victim: str) -> Path:
        return self.root / f"data/{self.set(victim)['name']}.safetensors"

    def victim(self, name: str) -> Path:
        return self.root / f"victims/{name}.safetensors"

    def file(self, kind: str, case: tuple[str, int, int], salt: str) -> Path:
        return self.root / kind / salt / f"{'-'.join(map(str, case))}.safetensors"

    def play(self, case: tuple[str, int, int], salt: str) -> None:
        victim, passes, k = case
        federation = {
            "clients": [k], "rounds": 2 * passes, "private": {"split": "test", "start": 0, "stop": 40},
            "local": {"lr": 0.1, "batch_size": None, "epochs": 1}, "update": "gradient", "server": "frozen",
            "local_set": "fresh", "distinct_labels": victim != "transformer", "passes": passes,
            "checkpoints": "last", "keep": True, "evaluate": None, "candidates": 10,
        }  # fmt: skip
        if passes > 1:
            federation |= {"server": "fedavg", "update": "model", "distinct_labels": False}
        value = {
            "federation": federation, "federation_name": "f", "defence": {"module": "none", "parameters": {}},
            "victim": VICTIMS[victim], "dataset": self.set(victim), "salt": 32 * salt,
        } | ({"malicious": MALICIOUS} if victim == "imprinted" else {})  # fmt: skip
        outs = [self.file(kind, case, salt) for kind in ("captures", "oracle", "truth")]
        capture(spec("capture", value), self.data(victim), self.victim(victim), *outs, None)

    @cache  # noqa: B019 - lives as long as the tests
    def generator(self, reads: str, victim: str) -> Path:
        training = {
            "optimiser": "adam", "lr": 0.01, "options": {}, "batch_size": 10, "epochs": 1, "checkpoints": [1],
            "images": None, "settled": None,
        }  # fmt: skip
        auxiliary = {"dataset": "made", "split": "train", "start": 0, "stop": 40}
        entry = GENERATORS[reads] | {
            "reads": reads, "weights": None, "validation": 0.25, "auxiliary": auxiliary, "training": training
        }  # fmt: skip
        out = self.root / f"generators/{reads}-{victim}.safetensors"
        if reads == "nothing":
            entry["training"] = None
        network = self.victim(victim) if reads == "features" else None
        value = {"generator": entry, "dataset": IMAGE} | ({"victim": VICTIMS[victim]} if network else {})
        made = spec("train", value)
        train(made, self.data(victim), out, network, None, self.root / "scratch")
        return out

    def attacked(self, name: str, case: tuple[str, int, int], closed: Callable[..., str]) -> Path:
        """Run an attack of the catalogue for one or two steps in a child; return its guesses."""
        entry = json.loads(json.dumps(entries()[name]))
        if "iterations" in entry["parameters"]:
            entry["parameters"] |= {"iterations": 2, "snapshots": 0, "decay_over": None}
        for epochs in (entry["epochs"] or {}).values():
            epochs |= {"pre_iterations": 2}
        nothing = ("labels", "learned-inverter")
        reads = {"fidel": "features", **dict.fromkeys(nothing, "nothing")}.get(entry["module"], "latent")
        generator = self.generator(reads, case[0]) if entry["generator"] else None
        value = {"attack": entry | {"generator": "g" if generator else None}, "attack_name": name}
        made = spec("attack", value | {"null_rounds": 1})
        labels = self.file("oracle", case, "a") if entry["labels"] == "oracle" else None
        out = self.root / f"guesses/{name}/0.safetensors"
        out.unlink(missing_ok=True)
        out.parent.mkdir(parents=True, exist_ok=True)

        def run() -> int:
            # pytest's own streams are closed here.
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
            scratch = self.root / "scratch/attack"
            seen = self.file("captures", case, "a")
            attack(seen, made, out, generator, labels, None, scratch, seal=closed)
            return 0

        assert _forked(run) == 0
        return out


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("blind"))


# Each day one attack of each kind: its module and where its labels come from.
SHORT = first_of_each(
    sorted(entries()),
    lambda name: repr([entries()[name].get(key) for key in ("module", "labels")]),
)


@pytest.mark.parametrize("name", daily(sorted(entries()), SHORT))
def test_the_truth_changes_nothing(world: World, name: str) -> None:
    for case in CASES:
        out = world.attacked(name, case, unsealed)
        reason = read_facts(out).get("absent")
        if not reason:
            break
    assert not reason, f"{name} works on none of {CASES}: {reason}"
    with_truth, _ = read_tensors(out)
    # SPEAR proves nothing of networks this small, so that its images are all nothing.
    of = {"labels": "labels", "candidates": "span_distance", "tokens": "span_distance"}
    told = of.get(read_facts(out)["target"], "images")
    assert with_truth[told].std() > 0 or entries()[name]["module"] == "spear"
    truth, away = world.file("truth", case, "a"), world.root / "away"
    shutil.copytree(truth.parent, away / "truth")
    for moved in (world.data(case[0]), truth):
        moved.rename(away / moved.name)
    try:
        without = world.attacked(name, case, seal).read_bytes()
        shutil.copy(world.file("truth", case, "b"), truth)
        shutil.copy(world.victim("cnn"), world.data(case[0]))
        with_anothers = world.attacked(name, case, seal).read_bytes()
    finally:
        for moved in (world.data(case[0]), truth):
            (away / moved.name).rename(moved)
        shutil.rmtree(away)
    assert without == with_anothers
    again, facts = read_tensors(out)
    assert again.keys() == with_truth.keys()
    for tensor, value in with_truth.items():
        assert np.array_equal(value, again[tensor], equal_nan=True), tensor
    assert facts["knows"]["blinding"].endswith("audit hook")


def test_the_two_truths_differ(world: World) -> None:
    """Guards the test above: the same truth in place of itself would change nothing in any attack."""
    for case in CASES:
        one, other = (read_tensors(world.file("truth", case, salt))[0]["images/0"] for salt in "ab")
        assert not np.array_equal(one, other)
