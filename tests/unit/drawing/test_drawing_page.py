"""The page of an experiment: what stands around the figure, and the notebook that makes it."""

import json
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from making import cell, result

from leakbench.artefacts import write_table, write_tensors
from leakbench.drawing import page
from leakbench.drawing.result import read_result
from leakbench.errors import UserError
from leakbench.verbs.figure import figure

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("experiment*.ipynb"))
PARTS = {"attack": [{"name": "grnn", "summary": "A generator.", "parameters": {"iterations": 2000}}]}


def _files(folder: Path, rows: list[dict], spec: dict, **facts: object) -> dict[str, Path]:
    table, exhibit, written = folder / "t.csv", folder / "t.safetensors", folder / "t.json"
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=["metric", "mean", "n", "baseline"])
    frame.to_csv(table, index=False)
    write_tensors(exhibit, {}, {"panels": [], "seeds": [0], "knows": {}} | facts)
    written.write_text(json.dumps(spec))
    return {"table": table, "exhibit": exhibit, "spec": written}


def test_a_claim_names_its_paper(tmp_path: Path) -> None:
    paper = tmp_path / "paper.yaml"
    paper.write_text(
        "title: On leaks\nauthors: A. Author\nyear: 2023\nlink: https://example.org\nclaims: It leaks.\n"
    )
    text = page.claim(result(), [str(paper)])
    assert text.startswith("# A title\n\n**Claimed (fig-1):** One sentence.")
    assert "*A. Author, On leaks, 2023.* https://example.org" in text
    assert "It leaks." in text
    assert "Author" not in page.claim(result())


def test_the_protocol_says_how_long_attacks_ran() -> None:
    facts = {"device": "cpu", "code": "c" * 64, "spec": "d" * 64, "absent_cells": {"a": "too long"}}
    text = page.protocol(result([cell(), cell(attack="grnn", metric="ssim")], parts=PARTS, facts=facts))
    assert "  - GRNN: A generator; after 1,000 iterations of 2,000" in text
    assert "- n behind each number: 3 images" in text
    assert "`cccccccccccccccc`" in text
    assert "- Not measured: too long" in text


def test_a_threat_model_is_a_list() -> None:
    text = page.threat_model(result(facts={"knows": {"labels": "unknown"}}))
    assert text == "## Threat model\n\n- labels: unknown"
    assert "Nothing is attacked" in page.threat_model(result())


def test_the_table_has_a_line_for_each_condition_and_a_column_for_each_metric() -> None:
    rows = [cell(attack=a, metric=m) for a in ("dlg", "grnn") for m in ("psnr", "ssim")]
    shown = page.table(result([*rows, cell(baseline="random-noise")]))
    assert shown.index.tolist() == ["DLG", "GRNN"]
    assert shown.columns.tolist() == ["PSNR (dB)", "SSIM"]
    assert shown.iloc[0, 0] == "20 [18, 22] (n = 3)"
    assert page.table(result([cell(baseline="random-noise")])).empty


def test_verdicts_are_a_table_in_plain_columns(tmp_path: Path) -> None:
    card = tmp_path / "verdicts.csv"
    pd.DataFrame([("a.1", "grnn", "differs")], columns=["id", "work", "verdict"]).to_csv(card, index=False)
    text = page.verdicts(result(), [str(card)])
    assert "a.1" in text
    assert "differs" in text
    assert "grnn" not in text
    pd.DataFrame(columns=["id", "work", "verdict"]).to_csv(card, index=False)
    assert page.verdicts(result(), [str(card)]) == "No statement is about this experiment alone."
    assert "once the whole scale has run" in page.verdicts(result())


def test_the_origin_is_a_command_with_the_target_first(tmp_path: Path) -> None:
    given = result()
    assert (
        "    snakemake --cores 1 results/quick/figures/t.png\n"
        in page.origin(given, "results/quick/tables/t.csv") + "\n"
    )
    given.spec["scale"] = "paper"
    assert "figures/t.png --config scale=paper" in page.origin(given, "x/t.csv")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stripped_and_short(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "parameters" in cells[0].metadata.tags
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    assert all(len(cell.source.splitlines()) <= 8 for cell in cells)
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("metric", ["psnr", "other"])
def test_the_verb_writes_figure_and_page_and_an_empty_file_for_no_figure(metric: str, tmp_path: Path) -> None:
    facts = {"absent_cells": {"c": "too long"}, "scale": "quick"}
    files = _files(tmp_path, [cell(metric=metric)], result().spec, **facts)
    trials, papers = tmp_path / "t.parquet", Path(__file__).parents[3] / "papers"
    write_table(trials, pd.DataFrame({"metric": [metric]}), {})
    out, executed = tmp_path / "out.png", tmp_path / "out.ipynb"
    figure(NOTEBOOKS[0], **files, out=out, executed=executed, trials=trials, papers=papers)
    assert out.read_bytes()[:4] == (b"\x89PNG" if metric == "psnr" else b"")
    text = executed.read_text()
    assert ("image/png" in text) == (metric == "psnr")
    outputs = str([cell.get("outputs") for cell in nbformat.reads(text, 4).cells])
    assert ("measures nothing that could be drawn" in outputs) == (metric != "psnr")
    assert "# A title" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [("metric,mean,n\n", "column 'baseline' is missing"), ("", "not a whole table"), (None, "no such file")],
)
def test_a_bad_table_is_one_sentence(text: str | None, message: str, tmp_path: Path) -> None:
    files = _files(tmp_path, [cell()], result().spec)
    files["table"].unlink()
    if text is not None:
        files["table"].write_text(text)
    with pytest.raises(UserError, match=message):
        read_result(*(str(path) for path in files.values()))


def test_printed_numbers_are_read_and_an_empty_file_is_none(tmp_path: Path) -> None:
    files = [str(path) for path in _files(tmp_path, [cell()], result().spec).values()]
    marks = tmp_path / "marks.csv"
    marks.write_text("")
    assert read_result(*files, marks=[str(marks)]).marks.empty
    marks.write_text("id,metric,value\na,psnr,12.5\n")
    assert read_result(*files, marks=[str(marks)]).marks["value"].tolist() == [12.5]
    marks.write_text("id,metric\na,psnr\n")
    with pytest.raises(UserError, match="column 'value' is missing"):
        read_result(*files, marks=[str(marks)])
