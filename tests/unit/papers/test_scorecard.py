"""From a paper's folder and our tables to verdicts: scorecards.yaml, and what no row of it says."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from pydantic import ValidationError
from tests_world import CLAIMS, TRUE, card, cell_of, evidence, files_of, lines, paper, tabled

from leakbench.base.errors import UserError
from leakbench.base.expression import evaluated, parse
from leakbench.jobs.scorecard import _without_other_devices, scorecard
from leakbench.papers.reference import Kept
from leakbench.papers.scorecard.evidence import ScaleEvidence
from leakbench.papers.scorecard.kinds import kinds
from leakbench.papers.scorecard.recorded import joined, of_records
from leakbench.papers.scorecard.scorecard import COLUMNS, Card
from leakbench.papers.work import Claim, read_papers

TABLE = yaml.safe_load(Path(__file__).with_name("scorecards.yaml").read_text())
OF_CARD = ("costs", "missing")
OF_EVIDENCE = ("falls", "attacks", "facts", "absent", "origins")
OF_CASE = {
    "shows", "paper", "differs", "checks", "map", "claim", "print", "words", "rows", "runs", "known", "cells",
    *OF_CARD, *OF_EVIDENCE,
}  # fmt: skip


def ran(run: dict[str, Any], known: Any) -> ScaleEvidence:
    """Return the evidence of a run of a case."""
    cells = {tuple(key.split()): cell_of(each) for key, each in run.get("only", run.get("cells", {})).items()}
    cells, name = cells if "only" in run else TRUE | cells, run.get("table", "tiny-table-1")
    more = {key: run[key] for key in OF_EVIDENCE if key in run} | (
        {"known": frozenset(known)} if known else {}
    )
    return evidence({name: lines(name, cells)} if cells else {}, run.get("scale", "quick"), **more)


def agrees(found: Any, wanted: Any) -> bool:
    """Return whether a value of a card is the wanted one."""
    if isinstance(wanted, str) and wanted.startswith(("~", "!~")):
        return (wanted.lstrip("!")[1:] in found) is (wanted[0] == "~")
    if wanted is None:
        return bool(pd.isna(found))
    return bool(found == (pytest.approx(wanted) if isinstance(wanted, float | int) else wanted))


@pytest.mark.parametrize("case", TABLE, ids=lambda case: str(case["shows"]))
def test_a_card_says(case: dict[str, Any], tmp_path: Path) -> None:
    assert case.keys() <= OF_CASE
    scales = [ran(run, case.get("known")) for run in case.get("runs", [case])]
    more = {key: case[key] for key in OF_CARD if key in case}
    found = card(paper(tmp_path, **files_of(case)), *scales, **more)
    for key, wanted in case["rows"].items():
        row = found.loc[f"tiny.table-1.{key}"]
        assert {name: row[name] for name, each in wanted.items() if not agrees(row[name], each)} == {}, key


def test_a_card_has_its_columns(tmp_path: Path) -> None:
    assert [*card(paper(tmp_path), tabled()).columns] == [name for name in COLUMNS if name != "id"]


def test_a_statement_may_rest_on_experiments_that_are_recorded_at_different_scales(tmp_path: Path) -> None:
    """No scale has both experiments of the claim; together they have."""
    parts = [{key: value for key, value in TRUE.items() if key[1] == name} for name in ("fast", "slow")]
    claim = CLAIMS["claims"][0] | {
        "read": {"dataset": "digits", "metric": "psnr"},
        "quantity": "at(experiment=of['fast'], attack='fast') - at(experiment=of['slow'], attack='slow')",
    }  # fmt: skip
    scales = [
        evidence({name: lines(name, cells)}, scale, known=None, origins={name: (scale, device, "abc")})
        for name, cells, scale, device in [
            ("tiny-table-1", parts[0], "paper", "large"), ("tiny-longer", parts[1], "standard", "small"),
        ]
    ]  # fmt: skip
    of = {"fast": "tiny-table-1", "slow": "tiny-longer"}
    papers = paper(tmp_path, claims={"let": {"of": of}, "claims": [claim]})
    assert card(papers, *scales, evidence({}, known=None)).loc[claim["id"], "verdict"] == "not-run"
    row = card(papers, *scales, joined(scales), evidence({}, known=None)).loc[claim["id"]]
    assert (row["verdict"], row["scale"], row["device"]) == ("reproduced", "paper; standard", "large; small")
    # A record of a longer run stands before that of a shorter one.
    more = tabled({key: value - 15 for key, value in parts[0].items()}, "standard", known=None)
    assert joined([*scales, more]).lines["tiny-table-1"] is scales[0].lines["tiny-table-1"]


def test_many_reasons_are_counted_instead_of_listed() -> None:
    def why(number: int) -> str:
        cells = {f"digits/v/f/none/a{cell}/0": f"reason {cell}" for cell in range(number)}
        return evidence({}, absent={"tiny-table-1": cells | {"again": "reason 0"}}).why("tiny-table-1")

    assert [why(1), why(3)] == ["reason 0", "reason 0; reason 1; reason 2"]
    assert why(7) == "reason 0; reason 1; 5 more reasons"


def test_kinds_are_counted_of_core_works_and_of_others() -> None:
    rows = [
        ("a", "result", "reproduced", "success"), ("a", "result", "reproduced", "as-null"),
        ("b", "result", "reproduced", "success"), ("a", "doubt", "reproduced", "success"),
        ("a", "result", "differs", ""),
    ]  # fmt: skip
    found = kinds(pd.DataFrame(rows, columns=["work", "class", "verdict", "kind"]), ["a"])
    assert found == {
        "core": {"success": 1, "failure": 0, "as-rival": 0, "as-null": 1},
        "others": {"success": 1, "failure": 0, "as-rival": 0, "as-null": 0},
    }


LARGE = [
    (" + ".join(["9" * 18] * 20), {}), (" * ".join(["10"] * 30), {}), ("a + a + a", {"a": "x" * 15_000}),
    ("[y for x in [a] for y in [x + x + x]]", {"a": [0] * 15_000}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "let"), LARGE)
def test_numbers_texts_and_lists_have_a_longest(text: str, let: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="more than"):
        evaluated(parse(text, "x", frozenset(), frozenset(let)), {}, let)


def claim(headline: str) -> Claim:
    return Claim.model_validate(
        {"id": "a", "item": "table-1", "claim": "x", "quantity": "1", "headline": headline}
    )


def test_a_headline_has_a_plain_format() -> None:
    for text in ("is {value}", "is {value:.0%}", "is {value:.2f} and {value:.1e}"):
        assert claim(text).headline == text
    for text in ("is", "{value:2000000000}", "{value:.2000000000f}", "{value.real}", "{value} {", "{0}"):
        with pytest.raises(ValidationError, match="headline"):
            claim(text)


def test_two_files_of_one_place_are_one_line(tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    spec.write_text("{}")
    for out, seeds, words in (
        ("n.json", "seeds.csv", r"--out n\.json: its summary has this place"),
        ("n.csv", "n.json", r"--seeds n\.json: is also the place"),
        ("n.csv", "n.csv", r"--seeds n\.csv: is also the place"),
    ):
        with pytest.raises(UserError, match=words):
            scorecard([], [], [], [], [], tmp_path, spec, Path(out), tmp_path, Path(seeds))


NAME = "tiny-table-1"


def _kept(folder: Path, device: str, seeds: str = "0", scale: str = "quick") -> Kept:
    table = lines(NAME, TRUE)
    place = folder / scale / f"{NAME}.csv"
    place.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "device": device, "commit": "abc", "date": "2026-01-01", "absent": {}, "shares": {}, "falls": {},
    }  # fmt: skip
    return Kept(place, table.frame.assign(seeds=seeds), record)


def _run(device: str) -> object:
    table = lines(NAME, {place: values + 5 for place, values in TRUE.items()})
    table.frame["seeds"] = "0"
    return evidence({NAME: table}, device=device)


def test_a_run_on_another_device_decides_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, kept = _run("cpu: mine"), _kept(tmp_path, "cpu: theirs")
    ran = _without_other_devices(run, [kept])
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert f"{NAME}: recorded at scale quick on cpu: theirs, and this run is on cpu: mine" in said
    found = Card(read_papers(paper(tmp_path)), [ran, of_records([kept])], run).frame().set_index("id")
    row = found.loc["tiny.table-1.1"]
    assert row["device"] == "cpu: theirs"
    assert row["measured"] == pytest.approx(TRUE["digits", "fast", "psnr"].mean())
    assert row["here"] == pytest.approx(TRUE["digits", "fast", "psnr"].mean() + 5)


def test_the_first_device_of_a_record_is_that_of_its_attacks(tmp_path: Path) -> None:
    here, gpu = "cpu: mine", "NVIDIA H100"
    for device, recorded in ((here, here), (gpu, f"{gpu}, {here}"), (here, f"{gpu}, {here}"), (gpu, here)):
        left = _without_other_devices(_run(device), [_kept(tmp_path, recorded)])
        assert (NAME in left.lines) == recorded.startswith(device), (device, recorded)


def test_a_record_of_another_scale_or_of_other_seeds_is_another_experiment(tmp_path: Path) -> None:
    others = [_kept(tmp_path, "cpu: theirs", seeds="1"), _kept(tmp_path, "cpu: theirs", scale="standard")]
    assert NAME in _without_other_devices(_run("cpu: mine"), others).lines
