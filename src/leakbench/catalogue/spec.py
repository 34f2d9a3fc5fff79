"""The reader of a job's spec, which `leakbench plan` writes and a person may change or write.

A spec is read strictly, so that neither `true` nor "10" is a number. It must state every key except the
arguments of parts, so that no job depends on a default.
"""

import json
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS, names, stem
from leakbench.base.provenance import read_spec
from leakbench.base.yamls import KEYS, suggest
from leakbench.catalogue import jobs
from leakbench.catalogue.entry import FOR_PEOPLE
from leakbench.catalogue.load import RULES, too_large, validate
from leakbench.catalogue.regime import Regime
from leakbench.catalogue.signature import check_part, parameters_model
from leakbench.defences.aggregation import cross_validates

M = TypeVar("M", bound=BaseModel)
SPECS = "docs/observation.md"
ASKED = {"attack_name", "null_rounds", "seed"}
_MEND = f"see {KEYS}, or take what `python -m leakbench plan` writes"
# Key that names a part by `module` → the room of the part.
_ROOMS = {
    "victim": "victims", "generator": "generators", "defence": "defences", "malicious": "servers",
    "aggregation": "aggregation", "encryption": "encryption", "adaptation": "adaptive",
}  # fmt: skip
# The keys that a spec may lack. It has them only with a value.
_MAY_LACK = {*FOR_PEOPLE, *_ROOMS, "hold_out", "fusion", "privacy", "poisoned", "faults", "studies"}
_KINDS: dict[str, type[jobs.JobSpec]] = {
    "fetch": jobs.FetchSpec, "capture": jobs.CaptureSpec, "attack": jobs.AttackSpec, "score": jobs.ScoreSpec,
    "table": jobs.TableSpec, "figure": jobs.FigureSpec, "scorecard": jobs.ScorecardSpec,
}  # fmt: skip
# What `train` trains is the first of these that its spec names.
_TRAINED = (jobs.StudySpec, jobs.GeneratorSpec, jobs.VictimSpec)


def opened(verb: str, path: Path) -> jobs.JobSpec:
    return spec_of(verb, read_spec(path), str(path))


def spec_of(verb: str, value: Mapping[str, Any], where: str) -> jobs.JobSpec:
    trained = (model for model in _TRAINED if model.kind in value)
    model = _KINDS.get(verb) or next(trained, jobs.VictimSpec)
    found = _valid(model, value, where)
    if wrong := next(_unstated(found), ""):
        raise UserError(f"{where}: {wrong}")
    for key, room in _ROOMS.items():
        if part := value.get(key):
            # A file in adaptive/ may hold only a function of another name, for attackers who do not adapt.
            if room != "adaptive" or stem(part["module"]) not in names(room):
                check_part(room, part["module"], f"{where}: {key}.module")
            if "parameters" in part:
                _valid(parameters_model(room, part["module"]), part["parameters"], where, key, "parameters")
    if wrong := next(too_large(value), ""):
        raise UserError(f"{where}: {wrong} ({_MEND})")
    if isinstance(found, jobs.FetchSpec):
        check_part("datasets", found.module or "", f"{where}: module")
        _valid(parameters_model("datasets", found.module or ""), found.parameters, where, "parameters")
    if isinstance(found, jobs.StudySpec):
        _check_rules(value, where)
    if isinstance(found, jobs.AttackSpec):
        found = found.model_copy(update={"attack": _attack_of(value, where)})
    found._where = where
    return found


def _attack_of(spec: Mapping[str, Any], where: str) -> jobs.PlannedAttack:
    """Return the entry of a spec's attack with its defaults. Raises UserError at the first mistake."""
    given = spec["attack"]
    if not isinstance(given, dict) or not isinstance(given.get("generator"), str | None):
        raise UserError(f"{where}: attack: is no mapping with the name of a generator (see {SPECS})")
    if not given.get("module"):
        raise UserError(f"{where}: attack.module: is missing (see {SPECS})")
    # What a spec is digested by, and the parts that are found in it, rest on the form that is planned.
    if section := next((key for key in SECTIONS if not isinstance(given.get(key, {}), dict)), ""):
        raise UserError(
            f"{where}: attack.{section}: a spec maps each part to its arguments (write "
            f'{{"{section}": {{"NAME": {{}}}}}}; see {SPECS})'
        )
    # A spec names the one generator of its data set, the catalogue one for each.
    named = {"it": "it"} if given.get("generator") else {}
    entry = validate("attacks", "", f"{where}: attack", given | {"summary": "", "generator": named})
    known = {key: value for key, value in entry if key not in FOR_PEOPLE}
    return jobs.PlannedAttack.model_construct(**known | {"generator": given.get("generator")})


def _valid(model: type[M], value: Mapping[str, Any], where: str, *within: str) -> M:
    try:
        # In strict mode pydantic takes lists for tuples only in JSON.
        return model.model_validate_json(json.dumps(value), strict=True)
    except ValidationError as problem:
        key, what = _mistake(problem, model, value)
        line = f"{where}: {'.'.join((*within, *key)) or '(whole file)'}: {what}"
        # A person may write the spec of an attack.
        by_hand = model is jobs.AttackSpec and {*key[:1]} & ASKED and what != "is missing"
        mend = f"see {SPECS}" if by_hand else _MEND
        raise UserError(line if line.endswith(")") else f"{line} ({mend})") from problem


def _mistake(problem: ValidationError, model: type[BaseModel], value: Any) -> tuple[list[str], str]:
    errors = problem.errors()
    # A misspelt key is reported twice: as unknown, and as a missing one.
    error = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    place, kind = error["loc"], error["type"]
    held = _held(value, place)
    if kind == "extra_forbidden":
        return held, f"is no key of it ({suggest(held[-1], _fields(model, place[:-1]))})"
    if kind == "missing":
        return [*held, str(place[-1])], "is missing"
    if kind == "value_error":
        said = str(error["ctx"]["error"])
        # If several keys do not fit each other, the message itself names one of them.
        key, colon, what = said.partition(": ")
        return ([*held, key], what) if colon and " " not in key else (held, said)
    given = "" if kind == "json_invalid" else f", got {reprlib.repr(error['input'])}"
    return held, error["msg"] + given


def _held(value: Any, place: Sequence[int | str]) -> list[str]:
    """Return the keys of a value in pydantic's `place`, which also names members of unions."""
    held = []
    for key in place:
        inside = dict(enumerate(value)) if isinstance(value, list) else value
        if isinstance(inside, dict) and key in inside:
            value = inside[key]
            held.append(str(key))
    return held


def _fields(model: Any, place: Sequence[int | str]) -> list[str]:
    """Return the keys that a model has at pydantic's `place` within it."""
    for key in place:
        # A list or a mapping has one model for all of its entries.
        held = get_args(model)[-1] if get_origin(model) else model.model_fields[key].annotation
        of_union = get_args(held) if get_origin(held) in (Union, UnionType) else (held,)
        model = next(each for each in of_union if each is not type(None))
    return list(model.model_fields)


def _unstated(value: Any, *keys: str) -> Iterator[str]:
    """Yield each key that a spec lacks or has as null, although the model accepts the spec."""
    if isinstance(value, dict | list):
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _unstated(inside, *keys, str(key))
    for name, field in type(value).model_fields.items() if isinstance(value, BaseModel) else ():
        at, inside = (*keys, name), getattr(value, name)
        optional = field.exclude_if is not None or name in _MAY_LACK
        if name in value.model_fields_set and inside is None and optional:
            yield f"{'.'.join(at)}: is null (leave it out, or give it a value)"
        elif name in value.model_fields_set:
            yield from _unstated(inside, *at)
        elif not optional:
            yield f"{'.'.join(at)}: is missing ({_MEND})"


def _check_rules(spec: Mapping[str, Any], where: str) -> None:
    """Raise UserError if a study's training does not fit the rules that stand beside it."""
    given = {key: value for key, value in spec["training"].items() if key not in ("beside", "augmentation")}
    rules = {key: spec[key] for key in RULES if key in spec}
    _valid(Regime, {"summary": "", **given, **rules}, where, "training")
    rule = rules.get("aggregation", {}).get("module", "")
    if rule and cross_validates(rule) and "hold_out" not in given:
        raise UserError(
            f"{where}: training.hold_out: is missing, and under aggregation '{rule}' clients validate each "
            "other's models (add it)"
        )
