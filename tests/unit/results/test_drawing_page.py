"""The page of an experiment: what stands around the figure, and the notebook that makes it."""

import json
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from drawings import cell, drawn, panel, result, texts
from PIL import Image

from leakbench.base.artefacts import read_csv, read_facts, write_table, write_tensors
from leakbench.base.errors import UserError
from leakbench.jobs.figure import figure, fullest
from leakbench.papers.reference import EXHIBIT, TEXT, kept_digests, tables
from leakbench.results.figures import page
from leakbench.results.figures.result import Result, read_result
from leakbench.results.figures.words import BOTTOM, FOOT, TOP

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("experiment*.ipynb"))
PARTS = {"attack": [{"name": "grnn", "summary": "A generator.", "parameters": {"iterations": 2000}}]}


def _record(root: Path, rows: list[dict], **more: Any) -> list[Path]:
    folder = root / "reference/standard"
    folder.mkdir(parents=True)
    pd.DataFrame(rows).assign(seeds="3").to_csv(folder / "t.csv", index=False)
    made = {"device": "cpu: another", "commit": "abc", "date": "2026-01-02", "specs": "", "code": ""}
    made |= {"versions": {}, "absent": {}, "seeds": [3], "knows": {"cell": {"labels": "given"}}} | more
    (folder / "t.json").write_text(json.dumps(made))
    return _recorded(folder / "t.csv")


def _recorded(table: Path) -> list[Path]:
    """Give a record the digests of the files beside it; return all its files."""
    made = json.loads(table.with_suffix(".json").read_text())
    table.with_suffix(".json").write_text(json.dumps(made | {"files": kept_digests(table)}))
    return sorted(table.parent.iterdir())


def _read(folder: Path, rows: list[dict], drawing: dict | None = None, **more: Any) -> Result:
    """Read a run of the experiment t with some rows, and the `recorded` files or `marks` beside it."""
    files = _files(folder, rows, result(drawing=drawing).spec).values()
    return read_result(*map(str, files), **{key: [*map(str, paths)] for key, paths in more.items()})


def _files(folder: Path, rows: list[dict], spec: dict, **facts: object) -> dict[str, Path]:
    table, exhibit, written = folder / "t.csv", folder / "t.safetensors", folder / "t.json"
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=["metric", "mean", "n", "baseline"])
    frame.to_csv(table, index=False)
    write_tensors(exhibit, {}, {"panels": [], "seeds": [0], "knows": {}} | facts)
    written.write_text(json.dumps(spec))
    return {"table": table, "exhibit": exhibit, "spec": written}


def test_a_claim_names_its_paper(tmp_path: Path) -> None:
    paper = tmp_path / "paper.yaml"
    about = "title: On leaks\nauthors: A. Author\nyear: 2023\nlink: https://example.org\n"
    paper.write_text(f"{about}claims: It leaks.\n")
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


def test_no_word_of_the_catalogue_is_a_tag_on_a_page() -> None:
    tag, parts = "<img src=x onerror=alert(1)>", {"attack": [{"name": "grnn", "summary": "<!-- <b>"}]}
    shown = result(facts={"knows": {"labels": tag}}, parts=parts)
    shown.spec.update(title=tag, shows="r < 0.1")
    text = page.claim(shown) + page.protocol(shown) + page.threat_model(shown)
    assert [part for part in text.split("<")[1:] if not part.startswith(" ")] == []
    assert text.count("&lt;img") == 2
    assert "&lt;!-- &lt;b>" in text


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
    given, command = result(), "    snakemake --cores 1 results/quick/figures/t.png\n"
    assert command in page.origin(given, "results/quick/tables/t.csv") + "\n"
    given.spec["scale"] = "paper"
    assert "figures/t.png --config scale=paper" in page.origin(given, "x/t.csv")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stripped_and_short(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert "parameters" in cells[0].metadata.tags
    assert all(not cell.outputs and cell.execution_count is None for cell in cells)
    assert all(len(cell.source.splitlines()) <= 9 for cell in cells)
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("drawn_of", ["the table", "nothing", "a record"])
def test_the_verb_writes_figure_and_page_and_an_empty_file_for_no_figure(
    drawn_of: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"absent_cells": {"c": "too long"}, "scale": "quick"}
    measured = {"the table": [cell()], "nothing": [cell(metric="other")], "a record": []}[drawn_of]
    files = _files(tmp_path, measured, result().spec, **facts)
    trials, papers = tmp_path / "t.parquet", Path(__file__).parents[3] / "papers"
    kept = pd.DataFrame({"line": [0], "cluster": "a", "trial": "a", "metric": ["psnr"], "value": [20.0]})
    write_table(trials, kept, {})
    out, executed = tmp_path / "out.png", tmp_path / "out.ipynb"
    recorded = _record(tmp_path, [cell()]) if drawn_of == "a record" else []
    figure(NOTEBOOKS[0], **files, out=out, executed=executed, trials=trials, papers=papers, recorded=recorded)
    empty, text = drawn_of == "nothing", executed.read_text()
    assert out.read_bytes()[:4] == (b"" if empty else b"\x89PNG")
    told = {} if empty else Image.open(out).info
    assert empty or 0 < int(told[TOP]) < Image.open(out).height / 2
    assert empty or (int(told[BOTTOM]) > 0 and told[FOOT].startswith("Scale "))
    assert ("image/png" in text) is not empty
    outputs = str([cell.get("outputs") for cell in nbformat.reads(text, 4).cells])
    assert ("measures nothing that could be drawn" in outputs) is empty
    assert "# A title" in text
    assert ("recorded on cpu: another" in text) is (drawn_of == "a record")
    said = capsys.readouterr().out
    assert ("out.png: empty, because scale quick measures nothing" in said) is empty
    assert ("that could be drawn: too long (see" in said) is empty
    of_record = f"{out}: drawn from the record of the standard scale, recorded on cpu: another"
    assert (of_record in said) is (drawn_of == "a record")


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


def test_the_fullest_recorded_run_is_drawn_in_place_of_a_slice(tmp_path: Path) -> None:
    ran = [cell(attack="dlg"), cell(attack="dlg", baseline="random-noise")]
    recorded = _record(tmp_path, [cell(attack=name) for name in ("dlg", "grnn")])
    shown = _read(tmp_path, ran, recorded=recorded)
    assert list(shown.rows["attack"]) == ["dlg", "grnn"]
    assert shown.spec["scale"] == "standard"
    assert shown.facts["seeds"] == [3]
    small = " ".join(texts(drawn(shown)))
    assert "Scale standard · recorded on cpu: another, 2026-01-02, commit abc · seed 3" in small
    assert "Threat model: labels: given" in small
    assert "a longer one, recorded on cpu: another" in page.protocol(shown)
    files = page.beyond(shown, "x/results/quick/tables/t.csv")
    assert files.startswith("All numbers, with nulls and snapshots: `reference/standard/t.csv`")
    assert "recorded" not in page.protocol(_read(tmp_path, ran))


def test_the_fullest_recorded_run_is_chosen_where_it_has_more_than_the_table(tmp_path: Path) -> None:
    ran = [cell(attack=name) for name in ("dlg", "grnn")]
    recorded = _record(tmp_path, [*ran, cell(baseline="random-noise")])

    def chosen(rows: list[dict], scale: str) -> Path | None:
        shown = result().spec
        files = _files(tmp_path, rows, shown, scale=scale)
        table, facts = read_csv(files["table"], dtype=TEXT), read_facts(files["exhibit"])
        kept = fullest(table, facts, tables(recorded), shown)
        return kept.table if kept else None

    assert chosen(ran[:1], "quick") == tmp_path / "reference/standard/t.csv"
    assert chosen(ran, "quick") is None
    assert chosen(ran[:1], "standard") is None


def test_recorded_pictures_are_the_median_of_their_cells(tmp_path: Path) -> None:
    recorded = _record(tmp_path, [cell()])
    pair = np.stack([np.arange(48), np.arange(48)[::-1]]).reshape(2, 4, 4, 3).astype(np.uint8)
    pictures = recorded[0].with_name("t.safetensors")
    write_tensors(pictures, {"mnist-32/lenet-dlg/grnn/none/grnn": pair}, {})
    shown = _read(tmp_path, [], {"drawing": "side-by-side"}, recorded=_recorded(recorded[0]))
    (only,) = shown.panels
    assert only.truth.shape == (1, 3, 4, 4)
    assert only.score[0] == pytest.approx(-1)
    assert {"private", "−1.000", "MNIST at 32×32 · DLG's LeNet · GRNN"} <= set(texts(drawn(shown)))


def test_a_recorded_exhibit_is_drawn_rather_than_pictures_at_the_median(tmp_path: Path) -> None:
    drawing, recorded = {"drawing": "grid"}, _record(tmp_path, [cell()])
    given = panel(k=2, m=3)
    arrays = {f"0/{name}": getattr(given, name) for name in ("truth", "guess", "usable", "sample", "score")}
    exhibit, medians = (recorded[0].with_name(name) for name in (f"t{EXHIBIT}", "t.safetensors"))
    write_tensors(exhibit, arrays, {"panels": [given.about], "classes": {"mnist-32": 10}})
    write_tensors(medians, {"mnist-32/lenet-dlg/grnn/none/grnn": np.zeros((2, 4, 4, 1), np.uint8)}, {})
    shown = _read(tmp_path, [], drawing, recorded=_recorded(recorded[0]))
    assert [len(each.guess) for each in shown.panels] == [3]
    assert (shown.facts["classes"], shown.facts["seeds"]) == ({"mnist-32": 10}, [3])
    assert "private samples" in texts(drawn(shown))
    write_tensors(exhibit, dict(list(arrays.items())[:2]), {"panels": [given.about]})
    with pytest.raises(UserError, match=r"t\.exhibit\.safetensors: tensor '0/usable' is missing"):
        _read(tmp_path, [], drawing, recorded=_recorded(recorded[0]))


def test_an_interval_ends_where_its_metric_does(tmp_path: Path) -> None:
    wide = [cell(metric=metric, ci_low=-0.2, ci_high=1.4) for metric in ("ssim", "accuracy", "made_up")]
    for shown in (_read(tmp_path, wide), _read(tmp_path, wide, recorded=_record(tmp_path, wide))):
        ends = shown.rows[["ci_low", "ci_high"]].to_numpy().tolist()
        assert ends == [[-0.2, 1], [0, 1], [-0.2, 1.4]]


def test_printed_numbers_are_read_and_an_empty_file_is_none(tmp_path: Path) -> None:
    marks = tmp_path / "marks.csv"
    for text, values in (("", []), ("id,metric,value\na,psnr,12.5\n", [12.5])):
        marks.write_text(text)
        assert _read(tmp_path, [cell()], marks=[marks]).marks.get("value", pd.Series()).tolist() == values
    marks.write_text("id,metric\na,psnr\n")
    with pytest.raises(UserError, match="column 'value' is missing"):
        _read(tmp_path, [cell()], marks=[marks])
