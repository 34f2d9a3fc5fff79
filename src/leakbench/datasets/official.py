"""Downloads from official sources, by the addresses and md5 that torchvision knows or by given addresses."""

import http.client
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Sequence
from pathlib import Path

from leakbench.base.errors import raise_if_unwritable
from leakbench.base.whole import file_digest
from leakbench.datasets.canonical import Damaged


class Unavailable(Exception):
    """A source cannot be used on this machine."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.output = output


# An address that is silent for longer than this is given up.
SECONDS = 15.0


def download(urls: Sequence[str], folder: Path, name: str, md5: str | None) -> Path:
    """Download a file from the first address that answers, and check its md5 if one is known."""
    folder.mkdir(parents=True, exist_ok=True)
    file, reasons = folder / name, []
    for url in urls:
        request = urllib.request.Request(url, headers={"User-Agent": "leakbench"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer, file.open("wb") as out:
                shutil.copyfileobj(answer, out)
        except (OSError, http.client.HTTPException) as problem:
            raise_if_unwritable(problem, file)
            # An HTTPError has a reason too, without its number.
            told = problem.reason if type(problem) is urllib.error.URLError else problem
            reasons.append(f"{url}: {told}")
        else:
            if md5 and (found := file_digest(file, "md5")) != md5:
                raise Damaged(file, f"md5 {found}", expected=f"md5 {md5}")
            return file
    raise Unavailable("; ".join(reasons).replace("\n", " "))


def from_torchvision(names: Sequence[str], folder: Path) -> None:
    """Download data sets or weights to the places below `folder` where torchvision's own loaders look."""
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


def from_addresses(urls: Sequence[str], folder: Path) -> None:
    """Download each of `urls` into `folder`, under the last part of its address."""
    for url in urls:
        download([url], folder, url.rpartition("/")[2], None)


def unpack(archive: Path, folder: Path) -> None:
    """Write the plain files of a tar archive below `folder`; refuse links and names that lead out."""
    # The Python 3.11.2 of Debian 12 does not have tarfile's filter.
    folder = folder.resolve()
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                target = (folder / member.name).resolve()
                if member.isdir():
                    continue
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or not target.is_relative_to(folder):
                    raise tarfile.TarError(f"'{member.name}' is not a file in it")
                target.parent.mkdir(parents=True, exist_ok=True)
                with stream, target.open("wb") as out:
                    shutil.copyfileobj(stream, out)
    except (tarfile.TarError, EOFError, OSError, zlib.error) as problem:
        raise_if_unwritable(problem, folder)
        raise Damaged(archive, f"an archive that cannot be unpacked: {problem}") from problem
