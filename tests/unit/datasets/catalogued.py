"""Data sets as config/datasets has them."""

from pathlib import Path
from typing import Any

from leakbench.catalogue.load import load_kind
from leakbench.datasets import local

ROOT = Path(__file__).resolve().parents[3]


def spec(name: str, **changes: Any) -> dict[str, Any]:
    """Return the spec by which data set `name` is fetched."""
    return {"name": name} | load_kind(ROOT / "config", "datasets")[name].model_dump() | changes


def place(name: str, folder: Path) -> Path | None:
    return local.place(folder, spec(name)["sources"])


def home(name: str, folder: Path) -> Path:
    found = place(name, folder)
    assert found is not None
    return found


def available(name: str, search: list[Path]) -> bool:
    return local.available(spec(name)["sources"], search)
