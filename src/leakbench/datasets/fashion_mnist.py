"""Fashion-MNIST, articles of clothing (Xiao, Rasul, Vollgraf 2017): laid out as MNIST, ten classes."""

from pathlib import Path

from leakbench.datasets import idx, packages
from leakbench.datasets.canonical import Found

PACKAGE = "Debian package dataset-fashion-mnist"
WHERE = "the four IDX files, plain or .gz, in FashionMNIST/raw"
CLASSES = [
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
]
_LAYOUTS = ("FashionMNIST/raw", "fashion-mnist", "usr/share/datasets/fashion-mnist")


def place(folder: Path) -> Path | None:
    """Return where in `folder` the data set lies, if it does."""
    return idx.place(folder, _LAYOUTS)


def fashion_mnist(folder: Path) -> Found:
    """Read the four files of `folder`: images uint8 [N, 28, 28, 1], labels int64 [N] in 0..9."""
    return idx.read_four(folder, CLASSES)


def official(folder: Path) -> None:
    """Download the official files into `folder`."""
    from torchvision.datasets import FashionMNIST

    idx.download_four(FashionMNIST, folder / "FashionMNIST" / "raw")


def package(folder: Path) -> None:
    """Fetch the registry package into `folder`."""
    packages.apt("dataset-fashion-mnist", folder)
