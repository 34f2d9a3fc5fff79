"""The notebooks: small, stripped, and each runs on an exhibit of its own shape."""

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from synthetic import (
    crossed,
    curves,
    decibels,
    errors,
    identified_faces,
    panel,
    prices,
    quality,
    readings,
    successes,
    trainings,
    weighted,
)

from leakbench.drawing.result import Result, read_result
from leakbench.errors import UserError

FOLDER = Path(__file__).parents[3] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
PARAMETERS = ("table", "exhibit", "out", "title", "scale", "published")
CURVES = {
    "fidel-figure-13": curves(["fcnn-relu", "fcnn-relu-dropout"]),
    "fidel-figure-14": curves(["cnn-relu"]),
    "fidel-training": curves(["fcnn-relu"], epochs=(0, 30)),
    "fidel-readings": curves(["fcnn-relu"], federations=("reveal", "moving")),
    "comparison": curves(["fcnn-relu-dropout", "fcnn-relu-dropout-256"]),
    "methods": quality(["invg", "agic"]),
    "agic-figure-8": quality(["invg", "agic"], federation="agic-fedavg-steps-4"),
    "agic-figure-9": quality(["agic-beta-1-oracle", "agic-oracle"]),
    "iterations": quality(["invg-single", "agic-single"], ("", "snapshot")),
    "conventions": decibels(["mnist-32", "cifar10"]),
    "during": errors(["none", "gaussian", "gaussian-1e-2", "laplacian"]),
    "success": successes(["cifar10"]),
    "defence-price": prices(["none", "gaussian", "prune"]),
    "matrix": crossed(["dlg", "invg"], ["none", "sign"], ["lenet-dlg"]),
    "reidentification": identified_faces(),
    "trainings": trainings(),
    "training-curves": trainings(),
    "client-weights": weighted(),
    "decision-boundaries": weighted(),
    "reading": readings(),
    "word-examples": readings(),
}
PANELS = {
    "fidel-figure-5": [panel(0, "mnist", 1, 24, "first", dead=(2,)), panel(1, "cifar10", 1, 24, "first")],
    "fidel-figure-6": [panel(0, "mnist", 1, 24, "best", "features")],
    "fidel-figure-8": [panel(0, "mnist", 10, 10, "matched")],
    "fidel-figure-9": [panel(0, "mnist", 10, 24, "first", dead=(2,)), panel(1, "cifar10", 10, 24, "first")],
    "fidel-figure-10": [panel(0, "mnist", 10, 24, "best", "features")],
    "fidel-figure-11": [panel(0, "mnist", 3, 2, "best")],
    "fidel-figure-12": [panel(0, "mnist", 10, 10, "matched")],
    "side-by-side": [panel(0, "cifar10", 8, 8, "matched"), panel(1, "cifar10", 8, 8, "matched")],
    "fidel-figure-15": [panel(0, "mnist", 10, 92, "usable"), panel(1, "cifar10", 10, 120, "usable")],
}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stripped_and_takes_the_parameters(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    title, parameters, *rest = notebook.cells
    assert title.cell_type == "markdown"
    assert "parameters" in parameters.metadata.tags
    given: dict[str, str] = {}
    exec(parameters.source, given)
    assert [name for name in given if not name.startswith("__")] == list(PARAMETERS)
    assert len(rest) <= 2
    assert all(not cell.outputs and cell.execution_count is None for cell in [parameters, *rest])
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_draws_its_figure(path: Path, result: Callable[..., Result], tmp_path: Path) -> None:
    result(CURVES.get(path.stem), PANELS.get(path.stem))
    out = tmp_path / "figure.png"
    values = {
        "table": str(tmp_path / "table.csv"), "exhibit": str(tmp_path / "exhibit.safetensors"), "out": str(out),
        "title": "A title", "scale": "quick", "published": "A claim.",
    }  # fmt: skip
    given: dict[str, object] = {}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code":
            exec(cell.source, given)
            if "parameters" in cell.metadata.get("tags", []):
                given |= values
    assert out.read_bytes().startswith(b"\x89PNG")


def test_every_figure_has_its_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS} >= CURVES.keys() | PANELS.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [("metric,mean,n\n", "column 'baseline' is missing"), ("", "not a table"), (None, "no such table")],
)
def test_a_bad_table_is_one_sentence(
    text: str | None, message: str, result: Callable[..., Result], tmp_path: Path
) -> None:
    result()
    table = tmp_path / "bad.csv"
    if text is not None:
        table.write_text(text)
    with pytest.raises(UserError, match=message):
        read_result(str(table), str(tmp_path / "exhibit.safetensors"), title="", scale="", published="")


def test_a_panel_without_a_tensor_is_named(result: Callable[..., Result]) -> None:
    about, tensors = panel(0, "mnist", 1, 2, "first")
    del tensors["0/score"]
    with pytest.raises(UserError, match="tensor '0/score' is missing"):
        result(panels=[(about, tensors)])
