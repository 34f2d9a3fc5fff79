"""The wheel, installed where neither the checkout nor anything but its declared dependencies is to be had."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from leakbench.base.artefacts import open_tensors, write_tensors

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# What hides every other package of this environment from the new one: nothing finds it, also for those who
# only ask whether it is there.
HIDING = """\
import sys
from importlib.machinery import PathFinder
class Seen(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in %r else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Seen
"""


def needed(requirements: list[str]) -> set[str]:
    """Return the names of the distributions that `requirements` bring along, their own dependencies too."""
    found: set[str] = set()
    queue = [Requirement(text) for text in requirements]
    while queue:
        one = queue.pop()
        name = canonicalize_name(one.name)
        if name not in found:
            found.add(name)
            more = map(Requirement, distribution(name).requires or [])
            queue += [each for each in more if not each.marker or each.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (found,) = folder.glob("leakbench-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment that has the wheel and its dependencies alone."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    pip = [sys._base_executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--quiet", str(wheel)], check=True, capture_output=True)
    (packages,) = folder.glob("lib/*/site-packages")
    allowed = needed(PROJECT["dependencies"])
    hidden = {
        module
        for module, owners in packages_distributions().items()
        if not allowed & set(map(canonicalize_name, owners)) and not module.startswith("_")
    } - {"leakbench"}
    assert {"snakemake", "dvc", "papermill", "seaborn", "torchvision", "pytest"} <= hidden
    assert not {"torch", "numpy", "pydantic", "yaml"} & hidden
    (packages / "hiding.py").write_text(HIDING % hidden)
    (packages / "beside.pth").write_text(f"import hiding\n{sysconfig.get_path('purelib')}\n")
    return folder / "bin"


def test_the_lock_has_what_the_package_and_its_workflow_need() -> None:
    lock = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    for text in (*PROJECT["dependencies"], *extras["vision"], *extras["private"], *extras["pipeline"]):
        assert canonicalize_name(Requirement(text).name) in {*lock, "leakbench"}, text


def run(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LEAKBENCH"))}
    own |= {"PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"}
    words = list(map(str, command))
    return subprocess.run(
        words, cwd=folder, env=own, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_wheel_is_what_runs(installed: Path, tmp_path: Path) -> None:
    told = run(tmp_path, installed / "leakbench", "--version")
    assert told.stdout == f"leakbench {distribution_version(installed, tmp_path)}\n", told.stderr
    where = run(tmp_path, installed / "python", "-c", "import leakbench; print(leakbench.__file__)").stdout
    assert Path(where).is_relative_to(installed.parent)
    for name in ("snakemake", "dvc", "papermill"):
        assert (
            f"No module named '{name}'" in run(tmp_path, installed / "python", "-c", f"import {name}").stderr
        )


def distribution_version(installed: Path, folder: Path) -> str:
    told = "from importlib.metadata import version; print(version('leakbench'))"
    return run(folder, installed / "python", "-c", told).stdout.strip()


def test_the_catalogue_is_within(installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of it reads as in the checkout, and every attack's parts can be imported."""
    script = """
from leakbench.attacks import composed
from leakbench.base.code import home
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.schema import KINDS
from leakbench.metrics import METRICS
for kind in KINDS:
    if kind != "experiments":
        print(kind, *sorted(load_kind(home(), kind)))
for entry in load_kind(home(), "attacks").values():
    composed(entry.model_dump(mode="json"))
print("metrics", *sorted(METRICS))
"""
    there = run(tmp_path, installed / "python", "-c", script)
    assert there.returncode == 0, there.stderr
    exec(script, {})
    assert there.stdout == capsys.readouterr().out
    assert "attacks agic" in there.stdout


def test_an_attack_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """On one sample, by which each row of the first layer's weight gradient is a multiple of it."""
    sample = np.linspace(0, 1, 16, dtype=np.float32)
    network = {"module": "perceptron", "parameters": {"width": 3}, "shape": [4, 4, 1], "classes": 2}
    slopes = np.array([0.5, -0.3, -0.2], np.float32)
    given = {
        "dense1.weight": slopes[:, None] * sample, "dense1.bias": slopes,
        "dense2.weight": np.ones((2, 3), np.float32), "dense2.bias": np.ones(2, np.float32),
    }  # fmt: skip
    tensors: dict[str, np.ndarray] = {"origin": np.zeros(1, np.int64)}
    for name, value in given.items():
        tensors |= {f"global/{name}": np.zeros_like(value)[None], f"updates/{name}": value[None, None]}
    facts = {"network": network, "clients": [1], "kind": "gradient"}
    write_tensors(tmp_path / "capture.safetensors", tensors, facts)
    attack = {"module": "fidel", "parameters": {}, "generator": None, "labels": "none", "matching": "best"}
    spec = {"attack": attack, "attack_name": "fidel", "null_rounds": 1, "seed": 0}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    words = ("attack", "--capture", "capture.safetensors", "--spec", "spec.json", "--out", "out.safetensors")
    done = run(tmp_path, installed / "leakbench", *words)
    assert done.returncode == 0, done.stderr
    found, _ = open_tensors(tmp_path / "out.safetensors")
    np.testing.assert_allclose(found["images"][0, 0, 0].ravel(), sample, atol=1e-5)


def test_the_audits_demonstration_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """With its model and its data, and nothing else on the machine."""
    done = run(tmp_path, installed / "leakbench", "audit", "--demo", "--budget", "10s", "--out", "audit")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exposed: 32 of 32 records" in done.stdout
    assert {path.name for path in (tmp_path / "audit").iterdir()} >= {"report.html", "audit.json"}
    facts = json.loads((tmp_path / "audit/audit.json").read_text())
    assert facts["version"] == distribution_version(installed, tmp_path)


def test_what_works_on_a_checkout_says_so(installed: Path, tmp_path: Path) -> None:
    done = run(tmp_path, installed / "leakbench", "plan")
    assert done.returncode == 2
    assert done.stderr == (
        f"leakbench plan: {tmp_path}/config: no such folder (plan works on a checkout: run it there, or "
        "name the checkout by --root)\n"
    )


def test_what_needs_an_extra_names_it(installed: Path, tmp_path: Path) -> None:
    words = ["figure"]
    for flag in ("notebook", "table", "trials", "exhibit", "spec", "papers", "out", "executed"):
        words += [f"--{flag}", "x"]
    done = run(tmp_path, installed / "leakbench", *words)
    assert done.returncode == 2
    assert done.stderr.startswith("leakbench figure: ")
    assert done.stderr.endswith(" is not installed (pip install 'leakbench[pipeline]')\n")
    assert done.stderr.count("\n") == 1
