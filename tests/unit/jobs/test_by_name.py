"""Attacks by their name, in Python: the same as on the command line; and what the package offers."""

import ast
import doctest
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from project import ROOT

import leakbench
from leakbench.base.artefacts import open_tensors, read_tensors, write_tensors
from leakbench.base.errors import Unfit, UserError
from leakbench.jobs import docstrings, python
from leakbench.jobs.cli import main
from leakbench.observations.reading import read_observation
from leakbench.observations.reconstruction import Reconstruction

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


def test_the_first_example_of_the_documents_runs(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/first-leak.md").read_text(encoding="utf-8")
    code = textwrap.dedent(page[page.index("        import leakbench\n") :].split("\n\n    whose")[0])
    assert len([line for line in code.splitlines() if line]) <= 5
    place = capture.parent / code.split('"')[1]
    place.parent.mkdir(parents=True)
    capture.rename(place)
    monkeypatch.chdir(capture.parent)
    names: dict[str, Any] = {}
    exec(code, names)
    assert np.array_equal(names["read"].images, leakbench.attack("peel", place).images)


def test_a_change_is_one_of_the_attacks_yaml(capture: Path) -> None:
    found = leakbench.attack("invg", capture, {"parameters": {"iterations": 3}}, seed=1)
    assert found.iterations == 3
    assert found.images.shape == (2, 1, 1, 1, 4, 4)
    other = leakbench.attack("invg", capture, {"parameters": {"iterations": 3}}, seed=2)
    assert not np.array_equal(found.images, other.images)


IMAGES = np.random.default_rng(0).random((2, 1, 16, 16))
# What is asked of an observation's file or of images, and what the one line says of it.
REFUSALS: list[tuple[Callable[[Path], Any], str]] = [
    (lambda file: leakbench.attack("fidle", file), "did you mean 'fidel'"),
    (lambda file: leakbench.attack("invg", file, {"parameters": {"iterations": -1}}),
     r"attack 'invg': parameters.iterations: .*got -1"),
    (lambda file: leakbench.attack("invg", file, {"objective": ["cosine", 3]}),
     r"attack 'invg': objective: 3 names no part"),
    (lambda file: leakbench.attack("invg-oracle", file), "attack 'invg-oracle': needs labels"),
    (lambda file: leakbench.attack("ggl", file), "attack 'ggl': needs generator"),
    *(
        (lambda file, seed=seed: leakbench.attack("fidel", file, seed=seed),
         r"attack 'fidel': seed .* is no whole number of at least 0")
        for seed in (-1, 1.5, "x", None, float("nan"), True)
    ),
    (lambda _: leakbench.attack(None, "x"), "attack None: is no name"),
    (lambda _: leakbench.attack("fidel", None), "NoneType is neither a file's path nor an Observation"),
    (lambda _: leakbench.attack("fidel", "x", [1]), "changes is list, no mapping"),
    (lambda _: leakbench.attack("fidel", "x", {1: 2}), "attack 'fidel': 1: "),
    (lambda _: leakbench.known("attack"), "there is no kind 'attack'"),
    (lambda _: leakbench.known(None), "there is no kind None"),
    *(
        (lambda _, given=(names, made, truths): leakbench.measure(*given), says)
        for names, made, truths, says in (
            (["ssim"], np.uint8(255 * IMAGES), np.uint8(255 * IMAGES), "truths are uint8, not real numbers"),
            (["ssim"], IMAGES, 255 * IMAGES, "truths lie between 0 and 25.*, not 0 and 1"),
            (["ssim"], 255 * IMAGES, IMAGES, "reconstructions lie between 0 and 25.*, not 0 and 1"),
            (["ssim"], IMAGES, IMAGES[:1], r"reconstructions have shape \(2, 1, 16, 16\), truths \(1,"),
            (["ssim"], IMAGES[0], IMAGES[0], r"truths have shape \(1, 16, 16\)"),
            (["ssim"], IMAGES[..., :4], IMAGES[..., :4], "smaller than its 7×7 window"),
            (["ssim"], IMAGES, None, "truths are object"),
            (["label_accuracy"], IMAGES, IMAGES, "'label_accuracy' is of updates"),
            ("ssim", IMAGES, IMAGES, "no list of metrics"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "says"), REFUSALS, ids=[says for _, says in REFUSALS])
def test_a_mistake_is_named(call: Callable[[Path], Any], says: str, capture: Path) -> None:
    with pytest.raises(UserError, match=says):
        call(capture)


def test_an_observation_that_lacks_a_tensor_does_not_fit(capture: Path) -> None:
    tensors, facts = read_tensors(capture)
    del tensors["updates/dense1.bias"]
    write_tensors(capture, tensors, facts)
    with pytest.raises(Unfit, match=r"updates/dense1\.bias is missing"):
        leakbench.attack("peel", capture)


def test_what_there_is_has_a_summary() -> None:
    for kind, name in (("attacks", "invg"), ("defences", "clip"), ("victims", "fcnn"), ("metrics", "psnr")):
        found = leakbench.known(kind)
        assert name in found
        assert all(found.values())


def test_metrics_by_name() -> None:
    found = leakbench.measure(["mse", "ssim"], IMAGES, IMAGES)
    assert found["mse"].tolist() == [0, 0]
    assert found["ssim"].tolist() == [1, 1]
    beyond = np.where(IMAGES > 0.9, 1.5, IMAGES)
    assert leakbench.measure(["mse"], beyond, IMAGES)["mse"].max() > 0


def test_the_examples_of_the_docstrings_run() -> None:
    assert doctest.testmod(python).attempted >= 6
    assert not doctest.testmod(python).failed
    with pytest.raises(UserError, match=r"did you mean 'psnr'"):
        leakbench.measure(["pnsr"], IMAGES, IMAGES)
    made = Reconstruction(torch.from_numpy(IMAGES[None, None, 1:]), torch.ones(1, 1, 1, dtype=torch.bool))
    # Of one candidate for two images, the nearer one gets it.
    found = leakbench.matched(made, IMAGES)
    assert np.isnan(found[0]).all()
    assert np.array_equal(found[1], IMAGES[1])
    with pytest.raises(UserError, match="matched: candidates have shape"):
        leakbench.matched(made, IMAGES[..., :4])


def test_every_public_name_is_there_and_no_other() -> None:
    assert set(leakbench.PUBLIC) <= set(dir(leakbench))
    for name in leakbench.PUBLIC:
        assert getattr(leakbench, name).__name__.removeprefix("leakbench.") == name
    with pytest.raises(AttributeError, match="has no attribute 'atack'"):
        leakbench.atack  # noqa: B018


@pytest.mark.parametrize("name", leakbench.PUBLIC)
def test_every_argument_is_described(name: str) -> None:
    module = import_module(leakbench.PUBLIC[name])
    assert module.__file__
    node = docstrings.definition(Path(module.__file__), name)
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
