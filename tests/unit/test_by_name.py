"""Attacks by their name, in Python: the same as on the command line; and what the package offers."""

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leakbench
from leakbench.base.artefacts import open_tensors, read_tensors, write_tensors
from leakbench.base.errors import Altered, Unfit, UserError
from leakbench.jobs import docstrings
from leakbench.jobs.cli import main
from leakbench.observations.observation import read_observation

SHAPES = {"dense1.weight": (6, 16), "dense1.bias": (6,), "dense2.weight": (3, 6), "dense2.bias": (3,)}


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """An observation of random gradients of a perceptron."""
    rng = np.random.default_rng(0)
    tensors: dict[str, np.ndarray] = {"origin": np.zeros(2, np.int64)}
    for name, shape in SHAPES.items():
        tensors[f"global/{name}"] = rng.normal(size=(1, *shape)).astype(np.float32)
        tensors[f"updates/{name}"] = rng.normal(size=(2, 1, *shape)).astype(np.float32)
    network = {"module": "perceptron", "parameters": {"width": 6}, "shape": [4, 4, 1], "classes": 3}
    path = tmp_path / "capture.safetensors"
    write_tensors(path, tensors, {"network": network, "clients": [1], "kind": "gradient"})
    return path


def test_an_attack_by_name_is_that_of_the_command_line(capture: Path) -> None:
    found = leakbench.attack("fidel", capture)
    entry = {"module": "fidel", "parameters": {}, "generator": None, "labels": "none", "matching": "best"}
    spec = capture.with_name("spec.json")
    spec.write_text(json.dumps({"attack": entry, "attack_name": "fidel", "null_rounds": 1, "seed": 0}))
    out = capture.with_name("out.safetensors")
    assert main(["attack", "--capture", str(capture), "--spec", str(spec), "--out", str(out)]) == 0
    np.testing.assert_array_equal(found.images.numpy(), open_tensors(out)[0]["images"])
    again = leakbench.attack("fidel", read_observation(capture)[0])
    assert np.array_equal(again.images, found.images)


def test_a_change_is_one_of_the_attacks_yaml(capture: Path) -> None:
    found = leakbench.attack("invg", capture, {"parameters": {"iterations": 3}}, seed=1)
    assert found.iterations == 3
    assert found.images.shape == (2, 1, 1, 1, 4, 4)
    other = leakbench.attack("invg", capture, {"parameters": {"iterations": 3}}, seed=2)
    assert not np.array_equal(found.images, other.images)


def test_mistakes_are_named(capture: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'fidel'"):
        leakbench.attack("fidle", capture)
    with pytest.raises(UserError, match=r"attack 'invg': parameters.iterations: .*got -1"):
        leakbench.attack("invg", capture, {"parameters": {"iterations": -1}})
    with pytest.raises(UserError, match=r"attack 'invg': objective: 3 names no part"):
        leakbench.attack("invg", capture, {"objective": ["cosine", 3]})
    with pytest.raises(UserError, match="attack 'invg-oracle': needs labels"):
        leakbench.attack("invg-oracle", capture)
    with pytest.raises(UserError, match="attack 'ggl': needs generator"):
        leakbench.attack("ggl", capture)
    tensors, facts = read_tensors(capture)
    del tensors["updates/dense1.bias"]
    write_tensors(capture, tensors, facts)
    with pytest.raises(Unfit, match=r"updates/dense1\.bias is missing"):
        leakbench.attack("peel", capture)
    with pytest.raises(UserError, match="there is no kind 'attack'"):
        leakbench.known("attack")


@pytest.mark.parametrize("seed", [-1, 1.5, "x", None, float("nan"), True])
def test_a_seed_is_a_whole_number(seed: Any, capture: Path) -> None:
    with pytest.raises(UserError, match=r"attack 'fidel': seed .* is no whole number of at least 0"):
        leakbench.attack("fidel", capture, seed=seed)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: leakbench.attack(None, "x"), "attack None: is no name"),
        (lambda: leakbench.attack("fidel", None), "NoneType is neither a file's path nor an Observation"),
        (lambda: leakbench.attack("fidel", "x", [1]), "changes is list, no mapping"),
        (lambda: leakbench.attack("fidel", "x", {1: 2}), "attack 'fidel': 1: "),
        (lambda: leakbench.known(None), "there is no kind None"),
    ],
)  # fmt: skip
def test_what_is_of_another_kind_is_a_user_error(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        call()


def test_an_altered_observation_is_refused(capture: Path) -> None:
    data = bytearray(capture.read_bytes())
    data[-1] ^= 1
    capture.write_bytes(data)
    with pytest.raises(Altered, match="as written"):
        leakbench.attack("fidel", capture)


def test_what_there_is_has_a_summary() -> None:
    for kind, name in (("attacks", "invg"), ("defences", "clip"), ("victims", "fcnn"), ("metrics", "psnr")):
        found = leakbench.known(kind)
        assert name in found
        assert all(found.values())


def test_metrics_by_name() -> None:
    images = np.random.default_rng(0).random((2, 1, 16, 16))
    found = leakbench.measure(["mse", "ssim"], images, images)
    assert found["mse"].tolist() == [0, 0]
    assert found["ssim"].tolist() == [1, 1]
    beyond = np.where(images > 0.9, 1.5, images)
    assert leakbench.measure(["mse"], beyond, images)["mse"].max() > 0


IMAGES = np.random.default_rng(0).random((2, 1, 16, 16))


@pytest.mark.parametrize(
    ("names", "made", "truths", "says"),
    [
        (["ssim"], np.uint8(255 * IMAGES), np.uint8(255 * IMAGES), "truths are uint8, not real numbers"),
        (["ssim"], IMAGES, 255 * IMAGES, "truths lie between 0 and 25.*, not 0 and 1"),
        (["ssim"], 255 * IMAGES, IMAGES, "reconstructions lie between 0 and 25.*, not 0 and 1"),
        (["ssim"], IMAGES, IMAGES[:1], r"reconstructions have shape \(2, 1, 16, 16\), truths \(1,"),
        (["ssim"], IMAGES[0], IMAGES[0], r"truths have shape \(1, 16, 16\)"),
        (["ssim"], IMAGES[..., :4], IMAGES[..., :4], "smaller than its 7×7 window"),
        (["ssim"], IMAGES, None, "truths are object"),
        (["label_accuracy"], IMAGES, IMAGES, "'label_accuracy' is of updates"),
        ("ssim", IMAGES, IMAGES, "no list of metrics"),
    ],
)  # fmt: skip
def test_what_is_no_pair_of_images_is_not_measured(names: Any, made: Any, truths: Any, says: str) -> None:
    with pytest.raises(UserError, match=says):
        leakbench.measure(names, made, truths)


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(leakbench.PUBLIC) <= set(dir(leakbench))
    for name in leakbench.PUBLIC:
        assert getattr(leakbench, name).__name__.removeprefix("leakbench.") == name
    with pytest.raises(AttributeError, match="has no attribute 'atack'"):
        leakbench.atack  # noqa: B018


@pytest.mark.parametrize("name", leakbench.PUBLIC)
def test_every_argument_is_described(name: str) -> None:
    node = docstrings.public(name)
    assert ast.get_docstring(node)
    if isinstance(node, ast.FunctionDef):
        for argument, (kind, _, meaning) in docstrings.arguments(node).items():
            assert kind, argument
            assert meaning.endswith("."), argument
        assert "Raises" in (ast.get_docstring(node) or "")


def test_the_package_and_the_recorder_load_no_heavy_library() -> None:
    script = """
import sys, leakbench
heavy = {"torch", "pandas", "scipy", "numpy"} & set(sys.modules)
leakbench.record
print(sorted(heavy), sorted({"torch", "pandas", "scipy"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[] []\n"
