"""The Makefile: which interpreter it takes, and what it leaves alone."""

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
OURS = ("CI", "SYSTEM", "PYTHON", "MAKEFLAGS", "MAKELEVEL")


def make(*words: str, **variables: str) -> str:
    """Return what `make` prints; `variables` are laid upon this process's own."""
    own = {name: value for name, value in os.environ.items() if name not in OURS} | variables
    command = ["/usr/bin/make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True).stdout


def test_an_active_environment_without_pip_is_not_the_interpreter(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    path = f"{tmp_path / 'bare/bin'}{os.pathsep}{os.environ['PATH']}"
    planned = make("--dry-run", "--always-make", "env", PATH=path)
    installs = next(line for line in planned.splitlines() if " -m pip install" in line)
    assert os.path.realpath(installs.split()[0]) == os.path.realpath(sys._base_executable)
    assert str(tmp_path) not in planned


@pytest.mark.parametrize(
    ("asked", "installs"), [({}, False), ({"SYSTEM": "yes"}, True), ({"CI": "true"}, True)], ids=str
)
def test_packages_are_installed_on_demand(asked: dict[str, str], installs: bool, tmp_path: Path) -> None:
    """On a machine that has neither, as root."""
    log = tmp_path / "log"
    log.touch()
    for name, text in (("id", "echo 0"), ("apt-get", f'echo "$*" >> "{log}"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    said = make("browser", "slurm", f"PYTHON={sys.executable}", PATH=str(tmp_path), **asked).splitlines()
    if installs:
        wanted = [line.split()[-1] for line in log.read_text().splitlines() if line.startswith("install")]
        assert wanted == ["chromium", "munge"]
        assert said == []
    else:
        assert log.read_text() == ""
        assert ["skipped" in line for line in said] == [True, True]


SLIM = ("triton", "nvidia-cusolver", "nvidia-nvjitlink", "nvidia-nvtx")


@pytest.mark.parametrize(
    ("words", "left_out"),
    [((), ""), (("GPU=no",), "|".join(SLIM)),
     (("TORCH_INDEX=https://index.invalid/cpu",), "torch|torchvision|triton|nvidia-.*|cuda-.*")],
    ids=["whole", "without a GPU", "own index"],
)  # fmt: skip
def test_the_environment_is_the_lock_cut_down(words: tuple[str, ...], left_out: str, tmp_path: Path) -> None:
    """uv is a script here that logs what it is asked for."""
    for name in ("Makefile", "requirements.lock", "bootstrap.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".bootstrap").mkdir()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / "uv").write_text('#!/bin/sh\necho "$*" >> uv.log\n')
    (tmp_path / "uv").chmod(0o755)
    command = ["/usr/bin/make", "env", "UV=./uv", "PYTHON=true", *words]
    own = {name: value for name, value in os.environ.items() if name not in (*OURS, "TORCH_INDEX", "GPU")}
    subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, check=True)
    lock, made = (
        (tmp_path / name).read_text() for name in ("requirements.lock", ".bootstrap/requirements.txt")
    )
    before, after = (re.findall(r"^([a-z][^= ]*)==", text, re.MULTILINE) for text in (lock, made))
    assert after == [name for name in before if not re.fullmatch(left_out, name)]
    assert (len(after) == len(before)) == (not words)
    # Nothing of what is left out stays behind, such as its digests.
    assert made.count("--hash=") < lock.count("--hash=") or made == lock
    asked = [line for line in (tmp_path / "uv.log").read_text().splitlines() if " --index " in line]
    assert len(asked) == left_out.startswith("torch|")
    for line in asked:
        versions = dict(re.findall(r"^(torch|torchvision)==([0-9.]+)", lock, re.MULTILINE))
        assert "--no-deps --index https://index.invalid/cpu" in line
        assert line.endswith(f"torch=={versions['torch']} torchvision=={versions['torchvision']}")


@pytest.mark.nightly
def test_torch_computes_without_what_is_left_out(tmp_path: Path) -> None:
    """It decomposes and trains a network on the processor, in a copy of this environment without them."""
    packages = Path(sysconfig.get_path("purelib"))
    # A library looks for others beside itself, so its folder must not be a link.
    for name in ("torch", "nvidia"):
        subprocess.run(["cp", "-rs", str(packages / name), str(tmp_path)], check=True)
    for path in packages.iterdir():
        if not (tmp_path / path.name).exists() and path.suffix != ".pth":
            (tmp_path / path.name).symlink_to(path)
    for name in SLIM:
        with suppress(PackageNotFoundError):
            for file in files(name) or []:
                own = tmp_path / file
                if own.is_symlink():
                    own.unlink()
            (tmp_path / "triton").unlink(missing_ok=True)
    script = """
import sys, torch, torchvision
torch.linalg.solve(torch.eye(3) + 1, torch.ones(3)), torch.linalg.svd(torch.ones(4, 4))
torch.fft.fft(torch.ones(4))
torchvision.models.resnet18()(torch.randn(2, 3, 32, 32)).sum().backward()
print(torch.__file__, "triton" in sys.modules, "cusolver" in open("/proc/self/maps").read())
"""
    own = os.environ | {"PYTHONPATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-S", "-c", script]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/torch/__init__.py False False\n"


def test_the_path_of_the_checkout_is_never_executed(tmp_path: Path) -> None:
    root = tmp_path / "x$(touch executed)`touch executed`'it"
    mark = root / "executed"
    root.mkdir()
    (root / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    (root / "results/quick").mkdir(parents=True)
    (root / "results/quick/report.html").touch()
    for words in (["help"], ["--touch", "env"], ["kills"]):
        command = ["/usr/bin/make", *words, "VENV=.", "PYTHON=true", "MAKE=true"]
        subprocess.run(command, cwd=root, capture_output=True, check=False)
    assert not mark.exists()
    # That it would be seen:
    subprocess.run(f'echo "{root}"', shell=True, cwd=root, check=False, capture_output=True)
    assert mark.exists()


def test_another_slurm_keeps_the_test_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either file alone, whoever asks."""
    place = spec_from_file_location("cluster", ROOT / "tests/slurm/cluster.py")
    assert place is not None
    assert place.loader is not None
    cluster = module_from_spec(place)
    place.loader.exec_module(cluster)
    monkeypatch.setenv("SYSTEM", "yes")
    monkeypatch.setattr(cluster, "ETC", tmp_path)
    monkeypatch.setattr(cluster, "_programme", lambda name: name)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert cluster.why_not() == ""
    for name in ("slurm.conf", "gres.conf"):
        (tmp_path / name).write_text("ClusterName=ours\n")
        assert cluster.why_not() == f"{tmp_path / name}: another Slurm's"
        (tmp_path / name).unlink()


def test_actions_of_others_are_pinned_by_their_commit() -> None:
    """A tag may be moved to other code."""
    files = sorted((ROOT / ".github/workflows").glob("*.yml"))
    used = [each for file in files for each in re.findall(r"uses: (\S+)", file.read_text())]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each)] == []


def test_a_home_that_may_not_be_written_is_not_written() -> None:
    said = "--eval=asked:; @echo $(XDG_CACHE_HOME)"
    assert make(said, "asked", HOME="/nowhere").split() == [str(ROOT / "scratch/cache")]
    assert make(said, "asked", HOME="/nowhere", XDG_CACHE_HOME="/mine").split() == ["/mine"]


def test_images_and_the_environment_of_conda_ask_for_what_the_package_needs() -> None:
    packages = "make python3 python3-pip"
    for file in ("Containerfile", "workflow/leakbench.def"):
        assert f"--no-install-recommends {packages}" in (ROOT / file).read_text(), file
    asked = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (python,) = (each for each in asked if str(each).startswith("python "))
    assert python.split()[1].startswith(project["requires-python"])
    (extra,) = re.findall(r"\.\[(\w+)\]", str(asked[-1]))
    assert extra in project["optional-dependencies"]
