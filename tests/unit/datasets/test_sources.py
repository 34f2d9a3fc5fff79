"""The clients and the downloader, against stand-in programs on PATH and a web server on this machine."""

import hashlib
import http.server
import inspect
import os
import socket
import stat
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.datasets import PACKAGES, official, packages
from leakbench.datasets.canonical import Damaged
from leakbench.datasets.official import Unavailable, download


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(stat.S_IRWXU)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_is_brought_into_a_folder(name: str, place: Path) -> None:
    inspect.signature(PACKAGES[name]).bind(place)


def test_npm_is_asked_for_the_pinned_version_and_unpacked(place: Path, programs: Path) -> None:
    program(programs, "node", "exit 1")
    (programs / "package").mkdir()
    (programs / "package/a file").write_text("content")
    with tarfile.open(programs / "made.tgz", "w:gz") as tar:
        tar.add(programs / "package", "package")
    program(programs, "npm", f'echo "$@" > asked; cp "{programs}/made.tgz" thing-1.0.0.tgz')
    packages.npm("thing@1.0.0", place)
    assert (place / "package" / "a file").read_text() == "content"
    asked = (place / "asked").read_text()
    assert asked.startswith("pack thing@1.0.0 ")
    assert "--ignore-scripts" in asked


def test_a_failing_client_gives_one_telling_line(place: Path, programs: Path) -> None:
    program(programs, "node", "exit 1")
    program(programs, "npm", 'echo notice; echo "npm error code ENOTFOUND" >&2; echo "A log is here"; exit 1')
    with pytest.raises(Unavailable, match=r"^npm failed: npm error code ENOTFOUND$"):
        packages.npm("thing@1.0.0", place)
    with pytest.raises(Unavailable, match="no-such-client cannot be run: No such file"):
        packages.run(["no-such-client"], place)
    # Of a killed client nothing is known, or a set would be absent, which no later run asks about again.
    program(programs, "slow", "kill -9 $$")
    with pytest.raises(UserError, match="slow was ended by SIGKILL"):
        packages.run(["slow"], place)


def test_a_hanging_client_ends_whole(place: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "SECONDS", 1.0)
    program(programs, "slow", "sleep 300 & echo $! > child; wait")
    with pytest.raises(Unavailable, match="slow gave no result within 1 s"):
        packages.run(["slow"], place)
    child = int((place / "child").read_text())
    deadline = time.monotonic() + 20
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_npm_falls_back_to_the_environments_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    command, environment = packages._npm()
    assert Path(command[0]).name == "node"
    assert all(Path(part).is_file() for part in command)
    assert environment["PATH"].split(os.pathsep)[0] == str(Path(command[0]).parent)


def test_a_package_file_of_another_digest_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, found = "cd" * 32, "ab" * 32
    lines = ["ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", f"  Expected sha256 {wanted}", f"  Got {found}"]
    told = "\n".join(f'echo "{line}"' for line in lines)
    program(place / "bin", "python", f'[ "$1" = -c ] && exit 0\n{told}\nexit 1')
    monkeypatch.setattr("sys.executable", str(place / "bin" / "python"))
    with pytest.raises(Damaged) as caught:
        packages.pip("thing==1.0", place, sha256=wanted)
    assert (caught.value.expected, caught.value.what) == (f"sha256 {wanted}", f"sha256 {found}")


def test_apt_keeps_its_lists_in_our_folder_and_unpacks(place: Path, programs: Path) -> None:
    program(programs, "apt-get", 'echo "$@" >> asked; case "$*" in *download*) touch thing_1_all.deb;; esac')
    program(programs, "dpkg-deb", 'mkdir -p "$3/usr/share/thing"; echo "$2" > "$3/usr/share/thing/made"')
    packages.apt("thing", place)
    assert (place / "usr/share/thing/made").read_text().strip() == str(place / "thing_1_all.deb")
    update, fetched = (place / "asked").read_text().splitlines()
    assert update.endswith(" update")
    assert fetched.endswith(" download thing")
    assert f"Dir::State::lists={place}/apt-state/lists" in update
    assert not list(place.glob("apt-*"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "right").write_bytes(b"the known bytes")
    (folder / "wrong").write_bytes(b"other bytes")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


MD5 = hashlib.md5(b"the known bytes").hexdigest()


def test_download_takes_the_first_address_that_answers_and_no_other_bytes(place: Path, server: str) -> None:
    nothing, nobody = f"{server}/nothing-here", "http://127.0.0.1:9/x"
    file = download([nothing, f"{server}/right"], place, "right", MD5)
    assert file.read_bytes() == b"the known bytes"
    with pytest.raises(Damaged) as caught:
        download([f"{server}/wrong"], place, "right", MD5)
    other = hashlib.md5(b"other bytes").hexdigest()
    assert (caught.value.expected, caught.value.what) == (f"md5 {MD5}", f"md5 {other}")
    with pytest.raises(Unavailable, match=r"HTTP Error 404.*127\.0\.0\.1:9") as refused:
        download([nothing, nobody], place, "x", MD5)
    assert "\n" not in str(refused.value)


def test_an_address_that_never_answers_is_given_up(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(official, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/x"
        with pytest.raises(Unavailable, match="timed out"):
            download([address], place, "x", MD5)


@pytest.mark.parametrize("kind", ["parent", "absolute", "link", "hard link", "truncated"])
def test_an_archive_that_reaches_out_of_its_folder_or_is_cut_is_refused(place: Path, kind: str) -> None:
    (place / "noise").write_bytes(os.urandom(50_000))
    member = tarfile.TarInfo({"parent": "../escaped", "absolute": str(place / "escaped")}.get(kind, "name"))
    member.linkname = str(place / "noise")
    member.type = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE}.get(kind, tarfile.REGTYPE)
    with tarfile.open(place / "a.tgz", "w:gz") as tar:
        tar.add(place / "noise", "noise") if kind == "truncated" else tar.addfile(member)
    if kind == "truncated":
        (place / "a.tgz").write_bytes((place / "a.tgz").read_bytes()[:20_000])
    (place / "inner").mkdir()
    with pytest.raises(Damaged, match="cannot be unpacked"):
        official.unpack(place / "a.tgz", place / "inner")
    assert not (place / "escaped").exists()
    assert kind == "truncated" or not list((place / "inner").iterdir())
