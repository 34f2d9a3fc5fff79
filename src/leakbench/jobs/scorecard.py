"""scorecard: put every published number and claim beside the longest evidence there is, with a verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from leakbench.base.artefacts import open_tensors, read_csv, read_facts, read_table, to_json, write_listed
from leakbench.base.errors import UserError
from leakbench.base.processes.process import commit
from leakbench.base.provenance import machine
from leakbench.catalogue import costs
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.resolve import plan
from leakbench.catalogue.schema import Scale as ScaleFile
from leakbench.catalogue.spec import opened
from leakbench.jobs.record import outdated
from leakbench.jobs.verify import summary_of
from leakbench.papers.facts import reader
from leakbench.papers.reference import Kept, run_of
from leakbench.papers.reference import tables as recorded_tables
from leakbench.papers.scorecard.evidence import ScaleEvidence, Table
from leakbench.papers.scorecard.kinds import kinds
from leakbench.papers.scorecard.quantity import NotMeasured
from leakbench.papers.scorecard.recorded import COLUMNS, EVERY, by_seed, joined, of_records
from leakbench.papers.scorecard.scorecard import Card, to_csv
from leakbench.papers.work import read_papers


def scorecard(
    tables: list[Path], trials: list[Path], exhibits: list[Path], data: list[Path], recorded: list[Path],
    papers: Path, spec: Path, out: Path, root: Path, seeds: Path, seeded: Sequence[Path] | None = None,
    device: str = "cpu",
) -> None:  # fmt: skip
    """Write scorecard.csv: one row for every published number and every claim.

    Beside it, with the suffix .json, lie the counts of each class's verdicts, by class and word, and those of
    reproduced results by kind, of the core works and of the others. Where a record of this scale exists and
    the run used another device, the record is the evidence. One printed line names these experiments.

    tables: the tables of every experiment of the run that has something to show.
    trials: the trials behind these tables, in the same order.
    exhibits: the exhibits of these experiments, in the same order.
    data: the data sets of the run.
    recorded: files below reference/, of the experiments' own seeds.
    papers: the folder of works.
    spec: the spec of the job: what the catalogue says, the run's scale, where facts lie, and which
    experiments the run leaves out and why.
    out: the file of the scorecard.
    root: the checkout.
    seeds: the file that gets the verdicts of those statements that recorded tables of raised seeds measure
    too, one row for each seed.
    seeded: files below reference/, of raised seeds. Their trials are pooled with those of `recorded`.
    device: torch's name of the device on which the run computed attacks and studies.
    """
    summary = summary_of(out)
    if seeds in (out, summary):
        raise UserError(f"--seeds {seeds}: is also the place of another file of --out (name another)")
    described = opened("scorecard", spec).plain()
    drawn = {path.stem: path for path in exhibits}
    beside = {name: read_facts(path) for name, path in drawn.items()}
    left_out = described["left_out"]
    frames = {table.stem: read_csv(table, dtype={"seeds": str}) for table in tables}
    known = frozenset(frames) | frozenset(left_out)

    def exhibit(name: str) -> Any:
        if name in left_out.keys() - drawn.keys():
            raise NotMeasured("; ".join(dict.fromkeys(left_out[name].values())))
        if name not in drawn:
            raise NotMeasured(f"experiment {name} has no exhibit")
        return open_tensors(drawn[name])

    kept_trials = dict(zip(frames, trials, strict=True))
    lines = {
        name: Table(name, frame, read_table(kept_trials[name])[0])
        for name, frame in frames.items() if len(frame)
    }  # fmt: skip
    run = ScaleEvidence(
        scale=described["run"]["scale"], lines=lines, attacks=described["attacks"], known=known,
        absent=left_out | {name: facts["absent_cells"] for name, facts in beside.items()},
        shares={name: facts.get("shares", {}) for name, facts in beside.items()},
        falls={name: facts.get("falls", {}) for name, facts in beside.items()},
        fact=reader(described, described["files"]), exhibit=exhibit, device=_named(device),
        commit=commit(root),
    )  # fmt: skip
    order = _order(root)
    records = recorded_tables(recorded)
    everything = [*records, *recorded_tables(seeded or [])]
    kept = longest_first(everything, root, known, described["attacks"])
    for block in (block for each in kept.values() for block in each.blocks):
        for name in (name for name, reasons in block.absent.items() if EVERY in reasons):
            age = block.absent[name][EVERY]
            print(f"scorecard: {name}: {age}, so its trials are not pooled (make renew ONLY={name})")
    together = [joined([*kept.values()])] if kept else []
    ran = _without_other_devices(run, records)
    scales = [*kept.values(), *together, ran]
    scales.sort(key=lambda scale: (order.get(scale.scale, 0), scale is ran), reverse=True)
    missing = {path.stem: str(why) for path in data if (why := read_facts(path).get("absent"))}
    works = read_papers(papers)
    card = Card(works, scales, run, published_costs(root), missing).frame()
    write_listed(out, to_csv(card))
    counts = pd.crosstab(card["class"], card["verdict"])
    worth = kinds(card, [work.name for work in works if work.paper.core])
    shown = {
        of: {kind: n for kind, n in found.items() if n} for of, found in worth.items() if any(found.values())
    }
    told = counts.to_dict("index") | ({"reproduced": shown} if shown else {})
    write_listed(summary, to_json(told) + "\n")
    judged = [by_seed(works, each) for each in kept.values() if each.blocks]
    rows = pd.concat(judged) if judged else pd.DataFrame(columns=COLUMNS)
    write_listed(seeds, rows.to_csv(index=False, float_format="%.6g"))


def _named(device: str) -> str:
    """Return torch's device in words, as records name it. A GPU that this machine lacks keeps its name."""
    if device == "cpu":
        return machine()
    import torch

    return torch.cuda.get_device_name(device) if torch.cuda.is_available() else device


def _without_other_devices(run: ScaleEvidence, records: Sequence[Kept]) -> ScaleEvidence:
    """Return the evidence of a run without what a record of its scale and seeds has from another device."""
    both = (kept for kept in records if kept.scale == run.scale and kept.name in run.lines)
    elsewhere = {
        kept.name: kept.record["device"] for kept in both
        if kept.record["device"].split(", ")[0] != run.device
        and {*kept.rows["seeds"]} & {*run.lines[kept.name].frame["seeds"]}
    }  # fmt: skip
    if not elsewhere:
        return run
    print(
        f"scorecard: {', '.join(elsewhere)}: recorded at scale {run.scale} on "
        f"{'; '.join(dict.fromkeys(elsewhere.values()))}, and this run is on {run.device}: the record stays "
        "the evidence (the columns here and agrees have this run)"
    )
    return replace(run, lines={name: lines for name, lines in run.lines.items() if name not in elsewhere})


def _order(root: Path) -> dict[str, int]:
    scales = load_kind(root / "config", "scales").items()
    return {name: scale.order for name, scale in scales if isinstance(scale, ScaleFile)}


def longest_first(
    records: Sequence[Kept], root: Path, known: frozenset[str], attacks: Mapping[str, Any]
) -> dict[str, ScaleEvidence]:
    """Return scale → what its records measured, those of raised seeds as blocks, the longest scale first."""
    order, runs = _order(root), [*_recorded(records, root, known, attacks)]
    found = [each for each in runs if run_of(each.scale)[1] is None]
    found.sort(key=lambda each: -order.get(each.scale, 0))
    blocks: dict[str, list[ScaleEvidence]] = {}
    for each in runs:
        scale, seed = run_of(each.scale)
        blocks.setdefault(scale, []).extend([] if seed is None else [each])
    return {each.scale: replace(each, blocks=blocks[each.scale]) for each in found}


def _recorded(
    records: Sequence[Kept], root: Path, known: frozenset[str], attacks: Mapping[str, Any]
) -> Iterator[ScaleEvidence]:
    """Yield the recorded evidence of each scale, or of each of its seeds, from the records valid today."""
    scales: dict[str, list[Kept]] = {}
    for kept in records:
        scales.setdefault(kept.scale, []).append(kept)
    for scale, found in scales.items():
        ages = {kept.name: outdated(root, scale, kept.name, kept.record) for kept in found}
        yield of_records(found, ages, known, attacks)


# The scale that caps nothing.
PUBLISHED = "paper"


@cache
def published_costs(root: Path) -> dict[str, dict[str, float]]:
    """Return experiment → stem of a cell or study → core-seconds at the published size."""
    try:
        whole = plan(root, PUBLISHED)
    except UserError:
        # The scale may not fit a catalogue that was cut down. A run at this scale reports that itself.
        return {}
    found: dict[str, dict[str, float]] = {}
    for name, cells in whole.experiments.items():
        own = found.setdefault(name, {})
        for cell in cells:
            capture = whole.specs[f"capture/{cell.capture}"]
            own[cell.stem] = costs.of_attack(whole.specs[f"attack/{cell.stem}"], capture).seconds()
        for study in whole.studies[name]:
            own[study.stem] = costs.of_study(whole.specs[f"study/{study.stem}"]).seconds()
    return found
