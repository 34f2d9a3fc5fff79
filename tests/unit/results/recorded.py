"""Results of recorded tables, as the job of a figure reads them where a run measures nothing itself."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pandas as pd
from invented import ROOT, planned

from leakbench.papers.marks import every_mark, framed, sentences
from leakbench.papers.reference import Kept, files, fuller, tables
from leakbench.papers.work import Work, read_papers
from leakbench.results.figures.result import Result, _of_record, with_others
from leakbench.results.figures.rows import SAID, chosen

SEED = ("fidel", "agic", "grnn", "fedboosting", "fedkl")
KEYS = ("where", "columns", "medians", "unmeasured", "convention", "over_updates")


@cache
def works() -> list[Work]:
    return read_papers(ROOT / "papers")


@cache
def _marks() -> list[Mapping[str, Any]]:
    return list(every_mark(works()))


@cache
def record(name: str) -> Kept | None:
    """Return the fullest record of an experiment, None where there is none."""
    return fuller(pd.DataFrame(), tables(files(ROOT, name)), "", pictured=False)


def names() -> list[str]:
    """Return the experiments of the core works that have a record."""
    specs = planned("standard").specs
    asked = (
        name for name in sorted(planned("standard").experiments) if specs[f"figure/{name}"]["work"] in SEED
    )
    return [name for name in asked if files(ROOT, name)]


def recorded(name: str) -> Result:
    """Return the result from which a figure is drawn where an experiment's record is shown."""
    spec = planned("standard").specs[f"figure/{name}"]
    beside = [each for part in spec["figure"] for each in part.get("beside", ())]
    found = {each: _result(each, spec) for each in (name, *beside)}
    return with_others(found.pop(name), found)


def _result(name: str, spec: dict[str, Any]) -> Result:
    kept = record(name)
    assert kept is not None, name
    # A file has no text where a column is empty.
    said = framed(each for each in _marks() if each["experiment"] == name).replace("", math.nan)
    words = sentences(works(), spec["work"], spec["item"], name)["says"]
    return _of_record(Result(pd.DataFrame(), [], {}, {}, spec, said, said=list(words)), kept)


def printed(result: Result) -> Iterator[str]:
    """Yield the ids of what is printed beside the measured values of a figure."""
    for part in result.spec["figure"]:
        if "metrics" not in part:
            continue
        given = {key: part[key] for key in KEYS if key in part} | {
            "unmeasured": part.get("unmeasured", "beside" in part)
        }
        for each in (result, *(result.others[name] for name in part.get("beside", ()))):
            rows = chosen(each, part["metrics"], **given)
            yield from rows.loc[rows["baseline"].isin(SAID), "id"] if "id" in rows else ()
