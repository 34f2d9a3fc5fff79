"""Downloads from the official sources, whose addresses and md5 torchvision knows."""

import contextlib
import http.client
import io
import shutil
import socket
import tarfile
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

from leakbench.datasets.canonical import Damaged, file_digest
from leakbench.errors import raise_if_unwritable


class Unavailable(Exception):
    """A source cannot be used here; the message is one line that says why, `output` all that was printed."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


REACH_SECONDS = 6.0
STALL_SECONDS = 30.0


def _reach(url: str, seconds: float) -> str:
    """Return "" if the address answers within `seconds`, else one line that says why not.

    In a thread, because name resolution knows no timeout.
    """
    outcome = [f"no answer within {seconds:g} s"]

    def ask() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": "leakbench"})
            with urllib.request.urlopen(request, timeout=seconds):
                outcome[0] = ""
        except urllib.error.HTTPError as problem:
            outcome[0] = str(problem)
        except urllib.error.URLError as problem:
            outcome[0] = str(problem.reason)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            outcome[0] = str(problem) or type(problem).__name__

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0]


def download(urls: Sequence[str], folder: Path, name: str, md5: str | None) -> Path:
    """Download `name` from the first of `urls` that answers, into `folder`, and check its md5 if one is
    known.

    Returns the file. Raises Unavailable if no address serves it, Damaged if the bytes are not the known ones.
    """
    from torchvision.datasets.utils import download_url

    folder.mkdir(parents=True, exist_ok=True)
    reasons = []
    stall = socket.getdefaulttimeout()
    for url in urls:
        reason = _reach(url, REACH_SECONDS)
        if reason:
            reasons.append(f"{url}: {reason}")
            continue
        socket.setdefaulttimeout(STALL_SECONDS)
        try:
            with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
                download_url(url, str(folder), name, md5)
            return folder / name
        except (OSError, http.client.HTTPException) as problem:
            raise_if_unwritable(problem, folder / name)
            reasons.append(f"{url}: {problem}")
        except RuntimeError as problem:
            file = folder / name
            if not file.is_file():
                reasons.append(f"{url}: {problem}")
                continue
            raise Damaged(file, f"md5 {file_digest(file, 'md5')}", expected=f"md5 {md5}") from problem
        finally:
            socket.setdefaulttimeout(stall)
    raise Unavailable("; ".join(reasons).replace("\n", " "))


def from_torchvision(names: Sequence[str], folder: Path) -> None:
    """Download data sets or weights, by their names in torchvision, to where its own loaders look for them.

    Raises Unavailable or Damaged.
    """
    from torchvision import datasets, models

    for name in names:
        dataset = getattr(datasets, name, None)
        if dataset is None:
            url = models.get_weight(name).url
            download([url], folder / "checkpoints", url.rpartition("/")[2], None)
        elif hasattr(dataset, "resources"):
            for file, md5 in dataset.resources:
                download([f"{mirror}{file}" for mirror in dataset.mirrors], folder / name / "raw", file, md5)
        else:
            unpack(download([dataset.url], folder, dataset.filename, dataset.tgz_md5), folder)


def unpack(archive: Path, folder: Path) -> None:
    """Write the plain files of a tar archive below `folder`. Raises Damaged.

    Links and names that lead out of the folder are refused here and not by tarfile's filter, which the
    Python 3.11.2 of Debian 12 does not have.
    """
    folder = folder.resolve()
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                target = (folder / member.name).resolve()
                if member.isdir():
                    continue
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or not target.is_relative_to(folder):
                    raise Damaged(
                        archive, f"an archive that cannot be unpacked: '{member.name}' is not a file in it"
                    )
                target.parent.mkdir(parents=True, exist_ok=True)
                with stream, target.open("wb") as out:
                    shutil.copyfileobj(stream, out)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        raise_if_unwritable(problem, folder)
        raise Damaged(
            archive, f"an archive that cannot be unpacked: {problem}".replace("\n", " ")
        ) from problem
