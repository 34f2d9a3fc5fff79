"""The schema of a part: its keyword arguments, read from the source. (An import may need torch.)"""

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, create_model
from pydantic_core import SchemaError

from leakbench.base.code import PACKAGE
from leakbench.base.errors import UserError
from leakbench.base.expression import evaluated, parse
from leakbench.base.parts import NAME, SECTIONS, judge, place, stem
from leakbench.base.yamls import suggest
from leakbench.catalogue.cell import Arguments

# Neither `true` nor "10" is a number. (A list is taken for a tuple, because YAML has no tuples.)
_PLAIN: Mapping[str, Any] = {
    "int": StrictInt, "float": StrictFloat, "str": str, "bool": StrictBool, "list": list, "dict": dict,
    "tuple": tuple,
}  # fmt: skip
_FIELD = {"gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "description"}

# What pydantic may raise of an annotation.
_RAISED = (AssertionError, AttributeError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError,
           SchemaError)  # fmt: skip

# What an expression in COST may call.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {each.__name__: each for each in (len, max, min, sum, zip)}

# Room → what the function of each part takes before its keywords, and what it may return, as parts write it.
# An attack also takes the parts of its sections there, by the names of the sections.
SIGNATURES: dict[str, tuple[str, ...]] = {
    "datasets": ("folder: Path", "Found"),
    "victims": ("shape: tuple[int, int, int], classes: int", "nn.Module"),
    "generators": ("inputs: tuple[int, ...], shape: tuple[int, int, int]", "nn.Module"),
    "servers": ("model: nn.Module, held: Held", "Written"),
    "defences": ("", "Defence"),
    "adaptive": ("", "Adaptation"),
    "attacks": ("observation: Observation, rng: torch.Generator", "Reconstruction"),
    "objectives": ("", "Distance", "Weights", "Entries", "Penalty", "Prior"),
    "unknowns": ("", "Parameterisation"),
    "optimisers": ("", "Make"),
    "epochs": ("", "Epochs"),
    "labels": ("layer: LastLayer", "Tensor"),
    "aggregation": ("report: Report", "np.ndarray"),
    "encryption": ("", "Scheme"),
    "detectors": ("received: Received", "float"),
    "drawing": ("result: Result", "Body | None", "Body"),
}


def module_file(room: str, module: str) -> Path:
    """Return the file of part `module` in `room`. The file need not exist."""
    return PACKAGE / place(room) / f"{stem(module)}.py"


@cache
def constant(room: str, module: str, name: str, default: Any = ...) -> Any:
    """Return the constant `name` of a part's file, which must be written as a literal."""
    path = module_file(room, module)
    for node in parsed(path).body if name.encode() in path.read_bytes() else ():
        if isinstance(node, ast.Assign) and [getattr(each, "id", "") for each in node.targets] == [name]:
            try:
                return ast.literal_eval(node.value)
            except (ValueError, TypeError, RecursionError, MemoryError) as problem:
                raise UserError(f"{path}: {name}: is no literal (write numbers and texts)") from problem
    if default is not ...:
        return default
    raise LookupError(f"{path}: {name} is missing")


def stated(
    room: str, module: str, asked: Mapping[str, Any], parameters: Mapping[str, Any], known: Mapping[str, Any]
) -> Arguments:
    """Return what a part's file states in COST, or else `asked`: key → number, in the order of `asked`.

    An expression reads `known` quantities, the part's parameters and the keys before.
    """
    path, said = f"{module_file(room, module)}: COST", constant(room, module, "COST", None) or {}
    if odd := [*said.keys() - asked.keys()] if isinstance(said, dict) else [said]:
        raise UserError(f"{path}: {odd[0]}: is no key of COST ({suggest(str(odd[0]), asked)})")
    fields = parameters_model(room, module).model_fields
    own = {**known, **{key: field.default for key, field in fields.items()}, **parameters}
    for key, default in asked.items():
        value = said.get(key, default)
        try:
            if isinstance(value, str):
                names = frozenset(own.keys() - FUNCTIONS.keys())
                value = evaluated(parse(value, f"{path}: {key}", frozenset(FUNCTIONS), names), FUNCTIONS, own)
            if not 0 <= value < math.inf:
                raise ValueError(f"it is {value}")
        except (ArithmeticError, LookupError, TypeError, ValueError) as wrong:
            raise UserError(
                f"{path}: {key}: is no number from 0 on: {wrong} (mend the expression)"
            ) from wrong
        own[key] = value
    return {key: own[key] for key in asked}


@cache
def part_names(room: str) -> list[str]:
    """Return the parts of a room by their names in YAML: its files that hold a function of their own name."""
    files = sorted((PACKAGE / place(room)).glob("*.py"))
    texts = {path.stem: b"\n" + path.read_bytes() for path in files}
    return [own.replace("_", "-") for own, text in texts.items() if f"\ndef {own}(".encode() in text]


def check_part(room: str, name: str, where: str) -> None:
    """Raise UserError at `where` unless a room has a part, with what is wrong in a file of its name."""
    known = part_names(room)
    if stem(name) in map(stem, known):
        return
    wrong = f"'{name}' is no part of src/leakbench/{place(room)}"
    if not re.fullmatch(NAME, name) or not module_file(room, name).is_file():
        raise UserError(f"{where}: {wrong} ({suggest(name, known)})")
    try:
        definition(room, name)
    except UserError as problem:
        raise UserError(f"{where}: {wrong}: {problem}") from problem


def parsed(path: Path) -> ast.Module:
    """Return the tree of a source file. Raises UserError with the line where it is no Python."""
    data = path.read_bytes()
    try:
        return ast.parse(data.decode())
    except UnicodeDecodeError as problem:
        line, what = data.count(b"\n", 0, problem.start) + 1, "is no UTF-8"
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        # Of a null byte Python gives no line.
        line = getattr(problem, "lineno", None) or data.partition(b"\0")[0].count(b"\n") + 1
        what = getattr(problem, "msg", "") or str(problem)
    raise UserError(f"{path}: line {line}: {what} (mend the file)")


@cache
def definition(room: str, module: str) -> ast.FunctionDef:
    """Return the function that a part's file is named after. Raises UserError if there is none."""
    path = module_file(room, module)
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef) and node.name == path.stem:
            return node
    raise UserError(f"{path}: no function '{path.stem}' (a part's file holds `def {path.stem}(…)`)")


@cache
def check_signature(room: str, module: str) -> None:
    """Raise UserError if the function of a part takes or returns something else than its room's parts do."""
    node, path = definition(room, module), module_file(room, module)
    wanted, *returned = SIGNATURES[room]
    given = [*node.args.posonlyargs, *node.args.args]
    several = [ast.unparse(each) for each in (node.args.vararg, node.args.kwarg) if each]
    own = [each for each in given if room != "attacks" or each.arg not in SECTIONS]
    returns = ast.unparse(node.returns) if node.returns else ""
    if several or _types(own) != _types(_arguments(wanted)) or returns not in returned:
        taken = ", ".join([*map(ast.unparse, given), *several])
        said = f"-> {returns}" if returns else "without a return type"
        head = ", ".join([*filter(None, [wanted]), "*", "…"])
        ways = " or ".join([f"`def {path.stem}({head}) -> {returned[0]}`", *returned[1:]])
        raise UserError(f"{path}: {path.stem}({taken}) {said} is no part of {room} (write {ways})")


def _arguments(text: str) -> list[ast.arg]:
    function = ast.parse(f"def f({text}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    return function.args.args


def _types(arguments: list[ast.arg]) -> list[str]:
    return [ast.unparse(each.annotation) if each.annotation else "" for each in arguments]


def _typed(node: ast.expr) -> Any:
    """Return the type that an annotation names. No code of a part's file is evaluated for it.

    Raises ValueError for anything but plain types, their unions and subscripts, Literal, and Annotated with
    a Field of literal keywords.
    """
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Name(id=name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return Union[_typed(left), _typed(right)]  # noqa: UP007 - of values, not in an annotation
        case ast.Subscript(value=ast.Name(id="Literal"), slice=words):
            return Literal[ast.literal_eval(words)]
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[of, bound])):
            return Annotated[_typed(of), _field(bound)]
        case ast.Subscript(value=ast.Name(id="list" | "dict" | "tuple" as name), slice=of):
            inner = of.elts if isinstance(of, ast.Tuple) else [of]
            every = [... if ast.unparse(each) == "..." else _typed(each) for each in inner]
            return _PLAIN[name][tuple(every)]
    raise ValueError(f"{ast.unparse(node)} is no plain type")


def _field(node: ast.expr) -> Any:
    """Return the Field that an annotation calls with literal keywords. Raises ValueError for another call.

    `exclude_if=lambda value: value == …` leaves a keyword of this literal value out of specs.
    """
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Field" or node.args:
        raise ValueError(f"{ast.unparse(node)} is no Field")
    given = Arguments()
    for each in node.keywords:
        match each:
            case ast.keyword(arg=str(name), value=value) if name in _FIELD:
                given[name] = ast.literal_eval(value)
            case ast.keyword(
                arg="exclude_if" as name,
                value=ast.Lambda(body=ast.Compare(left=ast.Name(), ops=[ast.Eq()], comparators=[value])),
            ):
                given[name] = partial(operator.eq, ast.literal_eval(value))
            case _:
                raise ValueError(f"{ast.unparse(each)} is no keyword of a Field in an annotation")
    return Field(**given)


@cache
def parameters_model(room: str, module: str) -> type[BaseModel]:
    """Return a pydantic model of a part's keyword-only arguments, whose annotations `_typed` reads."""
    path, node = module_file(room, module), definition(room, module)
    fields: Any = {}
    for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
        text = ast.unparse(argument.annotation) if argument.annotation else ""
        if not text:
            raise UserError(
                f"{path}: {path.stem}({argument.arg}): has no type (write one, as in `{argument.arg}: float`)"
            )
        try:
            assert argument.annotation is not None
            annotation = _typed(argument.annotation)
            value = ... if default is None else ast.literal_eval(default)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as problem:
            raise UserError(
                f"{path}: {path.stem}({argument.arg}: {text}): not a plain annotation ({problem})"
            ) from problem
        fields[argument.arg] = (annotation, value)
    strict = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False)
    try:
        return create_model(f"{room}.{module}", __config__=strict, **fields)
    except _RAISED as problem:
        raise UserError(f"{path}: a keyword's annotation is no plain one: {problem} (mend it)") from problem


@dataclass(frozen=True)
class Declared:
    """A metric as its file declares it: its module, and what it needs beyond the images."""

    module: str
    needs: tuple[str, ...]

    @property
    def judges(self) -> tuple[str, ...]:
        """The victims that the metric asks as judges of who is on a reconstruction."""
        return tuple(filter(None, map(judge, self.needs)))


@cache
def declared_metrics() -> dict[str, Declared]:
    """Return the metrics that the files declare, by name. Names and needs must be literals."""
    found: dict[str, Declared] = {}
    for path in sorted((PACKAGE / "metrics").glob("*.py")):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Metric" and node.args:
                needs = next((ast.literal_eval(k.value) for k in node.keywords if k.arg == "needs"), ())
                found[ast.literal_eval(node.args[0])] = Declared(f"leakbench.metrics.{path.stem}", needs)
    return found
