"""The evaluator of the expressions of papers/ and of COST: Python's own, restricted in syntax and functions.

No expression can use attributes, so none reaches anything that it is not given. Python evaluates the tree
after every node is found to be of the allowed kinds.
"""

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from leakbench.base.errors import NotMeasured, UserError
from leakbench.base.yamls import suggest

_ALLOWED = {
    ast.Constant, ast.Name, ast.Load, ast.Store, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.And, ast.Or,
    ast.Compare, ast.Call, ast.keyword, ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.GeneratorExp,
    ast.DictComp, ast.comprehension, ast.IfExp, ast.Subscript, ast.JoinedStr, ast.FormattedValue,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.USub, ast.Not, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt,
    ast.GtE, ast.In, ast.NotIn,
}  # fmt: skip
LONGEST = 5_000
# The largest number of steps of all comprehensions of one expression together.
MOST = 20_000
# The function that leaves out those items of its list that nothing measured.
TOLERANT = "there"
FORMAT = r"(\.\d)?[efg]?"


# A statement is judged by every scale.
@lru_cache(5_000)
def parse(text: str, where: str, functions: frozenset[str], names: frozenset[str]) -> CodeType:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise UserError(f"{where}: is no expression of at most {LONGEST:,} characters (see papers/README.md)")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise UserError(f"{where}: {problem} (mend the expression)") from problem
    if shadowed := sorted(names & functions):
        raise UserError(f"{where}: let: {shadowed[0]!r} is a function (choose another name)")
    named = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    bound = {node.id for node in named if isinstance(node.ctx, ast.Store)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in functions):
            known = ", ".join(sorted(functions))
            raise UserError(f"{where}: {ast.unparse(node.func)} is no function here (there are: {known})")
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in names | bound:
            raise UserError(f"{where}: no name {node.id!r} ({suggest(node.id, names)})")
        if type(node) not in _ALLOWED:
            raise UserError(
                f"{where}: {type(node).__name__} has no place in an expression (see papers/README.md)"
            )
        if isinstance(node, ast.keyword) and node.arg is None:
            raise UserError(f"{where}: ** has no place in an expression (see papers/README.md)")
        if isinstance(node, ast.FormattedValue) and not _fits(node.format_spec):
            raise UserError(f"{where}: a format is such as .2f (mend the f-string)")
        if isinstance(node, ast.Name) and node.id in bound & functions:
            raise UserError(f"{where}: {node.id!r} is a function (choose another name)")
    bounded = ast.fix_missing_locations(ast.Expression(_Bounded().visit(tree)))
    return compile(bounded, "expression", "eval")


def _fits(spec: ast.expr | None) -> bool:
    """Return whether a format is a plain one, which cannot make a text long."""
    return spec is None or re.fullmatch(FORMAT, ast.unparse(spec)[2:-1]) is not None


class _Bounded(ast.NodeTransformer):
    """Counts the steps of comprehensions, checks products, and delays the items of `there`."""

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.iter = _call("_counted", node.iter)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        name = {ast.Mult: "_times", ast.Add: "_plus"}.get(type(node.op))
        return _call(name, node.left, node.right) if name else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == TOLERANT:
            (listed,) = node.args
            if isinstance(listed, ast.List):
                listed.elts = [_later(each) for each in listed.elts]
            elif isinstance(listed, ast.ListComp | ast.GeneratorExp):
                # The items are evaluated one by one, while their names have their values.
                node.args = [ast.GeneratorExp(_later(listed.elt), listed.generators)]
            else:
                raise TypeError(f"{TOLERANT}() takes a list that is written out")
        return node


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), [*arguments], [])


def _later(item: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, item)


def _times(a: Any, b: Any) -> Any:
    if isinstance(a, str | list | tuple) or isinstance(b, str | list | tuple):
        raise TypeError("a text or list cannot be multiplied")
    return _bounded(a * b)


def _plus(a: Any, b: Any) -> Any:
    for each in (a, b):
        if isinstance(each, str | list | tuple) and len(each) > MOST:
            raise ValueError(f"a text or list of more than {MOST:,}")
    return _bounded(a + b)


def _bounded(number: Any) -> Any:
    """Return a sum or product. Raises ValueError for a whole number that no measurement has."""
    if isinstance(number, int) and abs(number) >= 1 << 63:
        raise ValueError("a whole number of more than 63 bits")
    return number


def _there(items: Iterable[Callable[[], Any]]) -> list[Any]:
    """Return the measurable items. Raises the first item's NotMeasured where there are none."""
    found: list[Any] = []
    reasons: list[NotMeasured] = []
    for item in items:
        try:
            found.append(item())
        except NotMeasured as missing:
            reasons.append(missing)
    if not found:
        raise reasons[0] if reasons else NotMeasured("there is nothing to combine")
    return found


def evaluated(code: CodeType, functions: Mapping[str, Callable[..., Any]], names: Mapping[str, Any]) -> Any:
    steps = itertools.count(1)

    def counted(items: Iterable[Any]) -> Iterable[Any]:
        for item in items:
            if next(steps) > MOST:
                raise ValueError(f"more than {MOST:,} steps")
            yield item

    own = {"__builtins__": {}, "_counted": counted, "_times": _times, "_plus": _plus, TOLERANT: _there}
    return eval(code, {**names, **functions, **own})
