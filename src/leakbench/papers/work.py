"""The reader of papers/<work>/: what a work prints, which rows of ours belong to it, and what it claims."""

import fnmatch
import importlib.util
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, read_yaml, suggest, validated
from leakbench.papers.printed import Columns, Relation, Row, read_tables

MANUAL = "papers/README.md"
ID = re.compile(r"[A-Za-z0-9.-]+")
Above0 = Annotated[float, Field(gt=0)]
Class = Literal["result", "setting", "arithmetic", "doubt"]


class Convention(Strict):
    """Printed numbers that are not the standard metric of their name."""

    item: re.Pattern[str]  # a regular expression over the item, such as table-3\.4
    metric: re.Pattern[str]  # a regular expression over the printed metric


class Paper(Strict):
    """papers/<work>/paper.yaml: the work, and what holds for all of its rows."""

    source: str  # the first part of the ids of this work
    title: str
    authors: str
    year: int
    link: str
    claims: str  # one sentence on what the work claims
    threat_model: str
    doubts: dict[int, str] | list[str] = []  # what is known to be doubtful
    lengths: dict[str, Above0] = {}  # published iterations, by glob over our attacks
    rounds: dict[str, Above0] = {}  # published rounds, by glob over our trainings
    # Trainings whose length the work does not state: ours then binds no verdict. `iterations`: the `lengths`
    # are those of the authors' code, so an attack that fails after them refutes no printed success unless it
    # has settled.
    unstated: list[Literal["victim", "generator", "rounds", "images", "iterations"]] = []
    core: bool = False  # whether it is one of the works that leakbench was made to rerun
    stand_ins: dict[str, str] = {}  # data set -> the one on which a claim is judged where it is absent
    # Glob over our data sets -> how ours is less than the paper's: which part, how many, and what follows.
    partial: dict[str, str] = {}
    conventions: list[Convention] = []

    def parts(self, datasets: Iterable[str]) -> list[str]:
        """Return a sentence for each data set that is only a part of the paper's, with what follows."""
        return [
            f"{name} is a part: {words}"
            for name in datasets
            for pattern, words in self.partial.items()
            if fnmatch.fnmatchcase(name, pattern)
        ]


class Claim(Strict):
    """One entry of claims.yaml: a sentence of the work, and the quantity that decides it."""

    id: str
    item: str
    claim: str
    read: Columns = {}  # columns that every at() of the quantity shares
    quantity: str | None = None
    check: str | None = None  # a function of checks.py in place of a quantity
    absent: str | None = None  # why nothing measures the claim
    relation: Relation = ">"
    threshold: float = 0.0
    tolerance: Annotated[float, Field(ge=0)] = 0.0  # for the relation =
    success: bool = False  # the claim says that an attack succeeds
    hidden: bool = False  # the claim says that an attack fails; a shorter run that succeeds refutes it
    trivial: str = ""  # why the claim says little, such as that it holds by construction
    needs: str | None = None
    note: str = ""
    headline: str = ""  # a sentence for the report's first screen, with {value} for the measured value
    class_: Annotated[Class | None, Field(alias="class")] = None

    @model_validator(mode="after")
    def _one_way(self) -> "Claim":
        if sum(each is not None for each in (self.quantity, self.check, self.absent)) != 1:
            raise ValueError(f"{self.id}: give exactly one of quantity, check and absent")
        if "tolerance" in self.model_fields_set and self.relation != "=":
            raise ValueError(f"{self.id}: tolerance: belongs to the relation = alone, not to {self.relation}")
        if self.hidden and (self.success or self.relation == "="):
            raise ValueError(
                f"{self.id}: hidden: belongs to an inequality that says that an attack fails (leave out "
                "`success`, or the relation =)"
            )
        # No format of a stranger's is tried, because its width may be any number.
        words = re.sub(r"\{value(:\.\d[efg%])?\}", "", self.headline)
        if self.headline and (words == self.headline or {*"{}"} & {*words}):
            raise ValueError(
                f"{self.id}: headline: must hold the measured value as {{value}} and nothing else"
            )
        return self


class Claims(Strict):
    """The claims of a work, papers/<work>/claims.yaml."""

    let: Columns = {}  # names that expressions may use
    claims: list[Claim] = []


class Explanation(Strict):
    """One entry of differs.yaml: why a statement may differ from our measurement, and what a test showed."""

    hypothesis: str  # one sentence: what is suspected to make the difference
    variant: str = ""  # the run, record or calculation that tests the hypothesis; empty without one
    outcome: str = ""  # one sentence: what the test showed; empty without one

    @model_validator(mode="after")
    def _tested(self) -> "Explanation":
        if bool(self.variant) != bool(self.outcome):
            raise ValueError("variant and outcome belong together: give both, or neither (not tested yet)")
        return self

    def __str__(self) -> str:
        tested = f"Tested by: {self.variant}. Outcome: {self.outcome}" if self.variant else "Not tested yet"
        return f"Hypothesis: {self.hypothesis}. {tested}."


@dataclass(frozen=True)
class Work:
    """One folder of papers/."""

    name: str
    folder: Path
    paper: Paper
    tables: Mapping[str, list[Row]]  # stem of a file in tables/ -> its printed rows
    maps: Mapping[str, Mapping[str, Any]]  # the same stems -> their part of measured.yaml
    let: Mapping[str, Any]  # the names that expressions of measured.yaml may use
    claims: Claims
    checks: ModuleType | None = field(compare=False)  # its checks.py, None where there is none
    # Id of a printed row or claim -> why it differs, where it does.
    differs: Mapping[str, Explanation] = field(default_factory=dict)

    def check(self, name: str, where: str) -> Callable[..., Any]:
        found = getattr(self.checks, name, None)
        if not callable(found):
            raise UserError(f"{where}: check: no function {name} in {self.folder / 'checks.py'} (write it)")
        return found


def published_for(globs: Mapping[str, float], name: str) -> float | None:
    """Return the value of the longest pattern that matches a name; None where no pattern does."""
    fitting = [pattern for pattern in globs if fnmatch.fnmatchcase(name, pattern)]
    return globs[max(fitting, key=len)] if fitting else None


def read_papers(folder: Path) -> list[Work]:
    """Return every work below `folder` (papers/), sorted by name."""
    folders = sorted(path.parent for path in folder.glob("*/paper.yaml"))
    if not folders:
        raise UserError(f"{folder}: no paper.yaml in any folder (see {MANUAL})")
    works = [_work(each) for each in folders]
    seen: dict[str, Path] = {}
    for work in works:
        ids = [row.id for rows in work.tables.values() for row in rows] + [c.id for c in work.claims.claims]
        for key in ids:
            wrong = ""
            if key in seen:
                wrong = f"is also in {seen[key]} (ids are unique over all papers)"
            elif key.partition(".")[0] != work.paper.source:
                wrong = f"must begin with {work.paper.source!r} (mend the id)"
            elif not ID.fullmatch(key):
                wrong = "is not of letters, digits, dots and hyphens (mend it)"
            if wrong:
                raise UserError(f"{work.folder}: id {key!r} {wrong}")
            seen[key] = work.folder
        if unknown := [key for key in work.differs if key not in ids]:
            raise UserError(
                f"{work.folder / 'differs.yaml'}: {unknown[0]}: {work.name} has no such row or claim "
                "(mend the id)"
            )
    return works


def read_paper(folder: Path) -> Paper | None:
    path = folder / "paper.yaml"
    return _read(Paper, path) if path.is_file() else None


def _read(model: type[Strict], path: Path) -> Any:
    return validated(model, read_yaml(path), f"{path}: ", MANUAL)


def _work(folder: Path) -> Work:
    tables, file = read_tables(folder / "tables"), folder / "measured.yaml"
    mapped = read_yaml(file) if file.is_file() else {}
    let = mapped.pop("let", {})
    if not isinstance(let, dict):
        raise UserError(f"{file}: let: must be a mapping of names (see {MANUAL})")
    for stem, value in mapped.items():
        if stem not in tables:
            known = ", ".join(sorted(tables)) or "none"
            raise UserError(f"{file}: {stem}: no such file in tables/ (there are: {known})")
        if not isinstance(value, dict) or not isinstance(value.get("rows") or {}, dict):
            raise UserError(f"{file}: {stem}: must be a mapping (see {MANUAL})")
        ids = {row.id for row in tables[stem]}
        if unknown := [str(key) for key in value.get("rows") or {} if key not in ids]:
            what = f"is no printed row of {stem}.csv ({suggest(unknown[0], ids)})"
            raise UserError(f"{file}: {stem}.rows: {unknown[0]}: {what}")
    claims, differs, checks = (folder / name for name in ("claims.yaml", "differs.yaml", "checks.py"))
    why = read_yaml(differs) if differs.is_file() else {}
    return Work(
        folder.name, folder, _read(Paper, folder / "paper.yaml"), tables, mapped, let,
        _read(Claims, claims) if claims.is_file() else Claims(),
        _module(checks) if checks.is_file() else None,
        {key: validated(Explanation, value, f"{differs}: {key}: ", MANUAL) for key, value in why.items()},
    )  # fmt: skip


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"leakbench_papers_{path.parent.name}", path)
    if not (spec and spec.loader):
        raise UserError(f"{path}: is no Python file (mend its name)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        raise UserError(f"{path}: {type(problem).__name__}: {problem} (mend the file)") from problem
    return module
