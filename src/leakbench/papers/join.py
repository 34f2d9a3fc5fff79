"""From a printed row to the row of ours that belongs to it, by papers/<work>/measured.yaml."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from leakbench.base.errors import UserError
from leakbench.base.yamls import Strict, validated
from leakbench.papers.printed import Columns, Row
from leakbench.papers.work import MANUAL, Class, Work

OURS = {"experiment", "metric"}
# Keys that a reading repeats as they are.
SHARED = {"success", "hidden", "trivial", "note", "needs", "repeats", "tolerance"}
# Keys that hold words or columns of their own.
NESTED = {"against", "rows", "otherwise", "beside", "drawn"}
OUTCOMES = ("success", "failure")
# Ways to measure a row other than by one row of a table, and the class that such a row usually has.
OWN_WAYS = {"absent": "result", "fact": "setting", "quantity": "result", "check": "result"}
BY_SOURCE = {"not run": "not run by the source either", "not reported": "not reported by the source either"}


class RowKeys(Strict):
    """The keys of measured.yaml that are no columns, after they have been looked up for a row."""

    unit: Annotated[float, Field(gt=0)] | None = None
    unit_std: Annotated[float, Field(gt=0)] | None = None
    success: bool | None = None
    hidden: bool | None = None
    rival: str | None = None
    trivial: str | None = None
    repeats: Annotated[int, Field(gt=0)] | None = None
    tolerance: Annotated[float, Field(ge=0)] | None = None
    class_: Annotated[Class | None, Field(alias="class")] = None
    absent: str | None = None
    fact: str | None = None
    quantity: str | None = None
    check: str | None = None
    needs: str | None = None
    note: str | None = None
    tells: str | None = None


# The keys of measured.yaml that are no columns.
ALSO = {field.alias or name for name, field in RowKeys.model_fields.items()} | NESTED


@dataclass(frozen=True)
class RowReading:
    """How one printed row is measured."""

    way: str  # mean, deviation, outcome, fact, quantity, check or absent
    where: Mapping[str, Any]  # experiment, metric and columns of our table
    text: str = ""  # the path of a fact, an expression, a function's name, or why nothing can be measured
    unit: float = 1.0  # the factor from our unit to the printed one
    spread: float = 1.0  # the factor from the unit of a printed deviation to the unit of the mean
    against: str | None = None  # the id of the printed row that it is ordered against
    success: bool = False  # whether the number is that of an attack that succeeds
    needs: str | None = None  # a guard that must hold, or else the verdict is inconclusive
    note: str = ""  # words that the reason of the verdict adds
    label: str = "result"
    repeats: int | None = None  # how many trials the paper took
    # The distance within which the number counts as reproduced, None for that of the metric.
    tolerance: float | None = None
    # Columns to read instead where nothing was measured.
    otherwise: Mapping[str, Any] = field(default_factory=dict)
    # Columns of another row of ours, whose value the reason names.
    beside: Mapping[str, Any] = field(default_factory=dict)
    # Columns of another row of ours beside which figures draw the number too.
    drawn: Mapping[str, Any] = field(default_factory=dict)
    hidden: bool = False  # whether the number is that of an attack that fails
    rivals: tuple[str, ...] = ()  # the ids of the printed rows of other methods in the same condition
    trivial: str = ""  # why the statement says little, empty where it does not


def words_of(row: Row) -> dict[str, str]:
    """Return the words that `by` may name: the printed columns, and `printed`."""
    return {**row.words, "printed": "number" if not math.isnan(row.number.value) else row.published}


def looked_up(value: Any, row: Row, where: str) -> Any:
    if isinstance(value, list):
        raise UserError(f"{where}: a list has no place here (give one value, or {{by: ...}}; see {MANUAL})")
    if not isinstance(value, dict):
        return value
    if "by" not in value:
        raise UserError(f"{where}: by: is missing (name the printed column; see {MANUAL})")
    columns = value["by"] if isinstance(value["by"], list) else [value["by"]]
    words = words_of(row)
    for column in columns:
        if column not in words:
            raise UserError(f"{where}: by: no printed column {column!r} (there are: {', '.join(words)})")
    word = " | ".join(words[column] for column in columns)
    known = {str(key): each for key, each in value.items() if key != "by"}
    key = word if word in known else "else"
    if key not in known:
        raise UserError(f"{where}: no value for {word!r}, which {row.id} prints (add it, or `else`)")
    return looked_up(known[key], row, f"{where}.{key}")


def read(work: Work, row: Row) -> RowReading:
    file = f"{work.folder / 'measured.yaml'}: {row.table}"
    try:
        return _read(work, row, file)
    except (TypeError, ValueError, AttributeError, KeyError) as problem:
        raise UserError(f"{file}: cannot be read for {row.id}: {problem} (see {MANUAL})") from problem


def published_convention(work: Work, row: Row) -> bool:
    """Return whether a printed number is something other than the standard metric of its name."""
    return any(
        each.item.fullmatch(row.item) and each.metric.fullmatch(row.metric) for each in work.paper.conventions
    )


def _read(work: Work, row: Row, file: str) -> RowReading:
    table = dict(work.maps.get(row.table, {}))
    own = (table.pop("rows", None) or {}).get(row.id, {})
    merged = {**table, **own}
    if own and OWN_WAYS.keys() & own.keys():
        # A row that is measured in a way of its own takes no other way from its table.
        merged = {
            key: value for key, value in merged.items() if key in own or key not in ALSO - {"class", "note"}
        }
    if not merged:
        raise UserError(f"{file}: says nothing of {row.id} (map its columns, or say why it is `absent`)")
    said = {
        key: looked_up(each, row, f"{file}.{key}") for key, each in merged.items() if key in ALSO - NESTED
    }
    value = validated(RowKeys, said, f"{file}.", MANUAL)
    where = _columns(merged, row, file, row.published in BY_SOURCE or any(said.get(key) for key in OWN_WAYS))
    if value.success and value.hidden:
        raise UserError(f"{file}: {row.id} is given as a success and as hidden (leave out one of the two)")
    shared = value.model_dump(exclude_none=True, include=SHARED)
    shared |= {
        key: _nested(merged.get(key) or {}, row, f"{file}.{key}") for key in ("otherwise", "beside", "drawn")
    }
    shared |= {"where": where, "rivals": _rivals(work, row, value.rival, f"{file}.rival")}
    shared["unit"] = (value.unit_std if row.spread else value.unit) or 1.0
    shared["spread"] = shared["unit"] / (value.unit_std or value.unit or 1.0)
    label = value.class_
    if value.absent or row.published in BY_SOURCE:
        text = value.absent or BY_SOURCE[row.published]
        return RowReading("absent", text=text, label=label or "result", **shared)
    for way, usual in OWN_WAYS.items():
        if said.get(way):
            return RowReading(way, text=said[way], label=label or usual, **shared)
    for key in OURS:
        if key not in where:
            raise UserError(f"{file}: {key}: is missing for {row.id} (or say why it is `absent`)")
    way = "deviation" if row.spread else value.tells or "mean"
    if row.published in OUTCOMES:
        way = "outcome"
    if way not in ("mean", "outcome", "deviation"):
        raise UserError(f"{file}.tells: {way!r} is no way to measure (mean or outcome)")
    if way == "mean" and published_convention(work, row) != (where.get("convention") == "published"):
        raise UserError(
            f"{file}.convention: {row.id} is printed in the other convention "
            "(mend it, or paper.yaml's conventions)"
        )
    partner = _partner(work, row, merged.get("against") or {}, f"{file}.against")
    return RowReading(way, against=partner, label=label or "result", **shared)


def _columns(merged: Mapping[str, Any], row: Row, file: str, own_way: bool) -> Columns:
    where = {}
    for key, each in merged.items():
        if key in ALSO:
            continue
        try:
            value = looked_up(each, row, f"{file}.{key}")
        except UserError:
            if not own_way:
                raise
            continue
        if value is not None:
            where[key] = value
    return where


def _nested(value: Any, row: Row, where: str) -> Columns:
    """Return the columns that a key maps, without those that have no value."""
    if not isinstance(value, dict) or "by" in value:
        raise UserError(f"{where}: must map columns of our table (see {MANUAL})")
    found = {column: looked_up(each, row, f"{where}.{column}") for column, each in value.items()}
    return {column: each for column, each in found.items() if each is not None}


def _rivals(work: Work, row: Row, column: str | None, where: str) -> tuple[str, ...]:
    """Return the ids of the rows that have the same printed words except in one column."""
    if column is None:
        return ()
    if column not in row.words:
        raise UserError(f"{where}: no printed column {column!r} (there are: {', '.join(row.words)})")
    same = {**row.words, column: ""}
    rows = (other for other in work.tables[row.table] if other.spread == row.spread and other.id != row.id)
    return tuple(other.id for other in rows if {**other.words, column: ""} == same)


def _partner(work: Work, row: Row, against: Any, where: str) -> str | None:
    """Return the id of the row against which a row is ordered, None where there is none."""
    if not isinstance(against, dict):
        raise UserError(f"{where}: must map a printed column to the other row's word (see {MANUAL})")
    if row.spread:
        return None
    changed = {column: looked_up(value, row, f"{where}.{column}") for column, value in against.items()}
    wanted = {**row.words, **{key: str(word) for key, word in changed.items() if word is not None}}
    if unknown := sorted(set(against) - row.words.keys()):
        raise UserError(f"{where}: no printed column {unknown[0]!r} (there are: {', '.join(row.words)})")
    if wanted == row.words:
        return None
    found = [other.id for other in work.tables[row.table] if other.words == wanted and not other.spread]
    if len(found) > 1:
        raise UserError(
            f"{where}: {row.id} is ordered against {len(found)} rows, {', '.join(found)} (name more columns)"
        )
    if not found:
        raise UserError(f"{where}: no printed row is {row.id} with {changed} (mend the words)")
    return found[0]
