"""The strict reader of YAML mappings.

A repeated key, a file that is no mapping, or broken text is answered by one line with file and key.
"""

import difflib
import math
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from leakbench.base.errors import UserError, raise_unless_file

M = TypeVar("M", bound=BaseModel)
# Where a reader finds what each key of the configuration means.
KEYS = "results/manual/config, by `leakbench manual`"
DEEPEST, MOST = 50, 100_000
FLOAT = "tag:yaml.org,2002:float"


class Strict(BaseModel):
    """Refuse unknown keys, values of another type, and numbers that are NaN or infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class Described(Strict):
    """A strict model of which the text below a key is the key's description in the manual."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class _Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
    """Read safe YAML, and refuse a key that is given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key is no plain word", problem_mark=key_node.start_mark)
            if key_node.value in seen:
                problem = f"key '{key_node.value}' is given twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key_node.start_mark)
            seen.add(key_node.value)
            # A key is a name, and is kept as it is written: 1e-2 does not become 0.01.
            if key_node.tag == FLOAT:
                key_node.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


# To YAML 1.1, 1e-4 is a word, for it has no dot. Everybody who writes it means the number.
_Loader.add_implicit_resolver(
    FLOAT, re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return "did you mean 'x'?" for the nearest known name, or a list of the known names if none is near."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known) or 'none'}"


def _check_size(text: str) -> None:
    open_, weights = [("", 0)], {"": 0}
    for event in yaml.parse(text, Loader=_Loader):
        anchor = getattr(event, "anchor", None) or ""
        if isinstance(event, yaml.CollectionStartEvent) and len(open_) <= DEEPEST:
            open_.append((anchor, 1))
            continue
        if isinstance(event, yaml.AliasEvent) and any(anchor == name for name, _ in open_):
            raise yaml.YAMLError(f"&{anchor} is within itself")
        weight = weights.get(anchor, 0) if isinstance(event, yaml.AliasEvent) else 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, weight = open_.pop()
        if not isinstance(event, yaml.AliasEvent):
            weights[anchor] = weight
        open_[-1] = open_[-1][0], open_[-1][1] + weight
        if len(open_) > DEEPEST or open_[-1][1] > MOST:
            raise yaml.YAMLError(f"more than {DEEPEST} levels or {MOST} values")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping. Raises UserError that names file and line."""
    raise_unless_file(path, mend="mend the name")
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError as problem:
        raise UserError(f"{path}: not YAML text: {problem} (mend the file)") from problem
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror} (mend the file)") from problem
    return yaml_of(text, str(path))


def yaml_of(text: str, where: str) -> dict[str, Any]:
    """Return the mapping of a YAML text. Raises UserError that names the place and the line."""
    try:
        # Text without aliases and with few signs that open a level cannot exceed the limits.
        if "*" in text or sum(map(text.count, "[{-?")) > 1000:
            _check_size(text)
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else "?"
        what = " ".join((problem.problem or "not YAML").split())
        raise UserError(f"{where}: line {line}: {what} (mend the YAML)") from problem
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        why = str(problem).splitlines()[0]
        raise UserError(f"{where}: not YAML text: {why} (mend the file)") from problem
    if not isinstance(value, dict):
        raise UserError(f"{where}: holds no mapping of keys (see {KEYS})")
    return value


def validated(model: type[M], value: Any, where: str, manual: str = KEYS) -> M:
    """Return a value as an instance of its model. Raises UserError with the first mistake."""
    try:
        return model.model_validate(value)
    except ValidationError as problem:
        raise UserError(f"{where}{_mistake(problem, model.model_fields, manual)}") from problem


def _mistake(problem: ValidationError, fields: Iterable[str], manual: str) -> str:
    """Return the first mistake that pydantic found in one line: key, what is wrong, and how to mend it."""
    errors = problem.errors()
    error, mend = errors[0], f"see {manual}"
    # A misspelt key is reported twice: as one that is missing, and as one that nobody knows.
    for each in (each for each in errors if each["type"] == "extra_forbidden"):
        *place, name = each["loc"]
        beside = [e["loc"][-1] for e in errors if e["type"] == "missing" and [*e["loc"][:-1]] == place]
        known = [str(key) for key in ([*beside] if place else fields)]
        if not place or difflib.get_close_matches(str(name), known, 1, 0.6):
            error, mend = each, suggest(str(name), known)
            break
    key = ".".join(map(str, error["loc"])) or "(whole file)"
    given = "" if error["type"] in ("missing", "value_error") else f", got {reprlib.repr(error['input'])}"
    message = " ".join(error["msg"].split()).removeprefix("Value error, ")
    message = "there is no such key" if error["type"] == "extra_forbidden" else message
    # A check of our own says how to mend what it refuses.
    return f"{key}: {message}" if message.endswith(")") else f"{key}: {message}{given} ({mend})"


# The largest number of a spec, and so of a YAML. No attack of the catalogue comes near, and ten million steps
# do not end.
LARGEST = 10_000_000
# Beyond this, floating-point numbers do not hold every whole number.
LARGEST_SEED = 2**53


def _distinct(values: list[Any]) -> list[Any]:
    twice = [value for number, value in enumerate(values) if value in values[:number]]
    if twice:
        raise ValueError(f"{twice[0]!r} is given twice")
    return values


def _small(shape: tuple[int, int, int]) -> tuple[int, int, int]:
    if math.prod(shape) > LARGEST:
        raise ValueError(f"an image of more than {LARGEST} numbers (lower it)")
    return shape


Distinct = AfterValidator(_distinct)
Positive = Annotated[int, Field(gt=0)]
Seed = Annotated[int, Field(ge=0, le=LARGEST_SEED)]
# Rows, columns and channels. YAML has no tuples, so a list is taken for one.
Shape = Annotated[tuple[Positive, Positive, Positive], Field(strict=False), AfterValidator(_small)]
NAME = r"[a-z0-9][a-z0-9.-]{0,99}"
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Names = Annotated[list[Name], Field(min_length=1), Distinct]
