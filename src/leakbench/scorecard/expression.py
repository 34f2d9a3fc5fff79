"""Evaluates the expressions of papers/: Python syntax, with only the functions and names handed in."""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from leakbench.errors import UserError
from leakbench.papers.printed import as_text
from leakbench.scorecard.quantity import Measured, NotMeasured

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.Not: operator.not_, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
LONGEST = 5_000
# Steps of all comprehensions of one expression together.
MOST = 20_000
# What `there` passes over items of: those of its list that nothing measured.
TOLERANT = "there"


def parse(text: str, where: str, functions: set[str], names: set[str]) -> ast.expr:
    """Return the syntax tree of an expression.

    text: the expression. where: file and key, for messages. functions, names: what it may call and name.
    Raises UserError for anything but the syntax of the module, or for a function or name that there is not.
    """
    if not isinstance(text, str) or len(text) > LONGEST:
        raise UserError(f"{where}: is no expression of at most {LONGEST:,} characters (see papers/README.md)")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise UserError(f"{where}: {problem} (mend the expression)") from problem
    bound = {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in functions):
            known = ", ".join(sorted(functions))
            raise UserError(f"{where}: {ast.unparse(node.func)} is no function here (there are: {known})")
        if isinstance(node, ast.Name) and id(node) not in called and node.id not in names | bound:
            raise UserError(f"{where}: no name {node.id!r} (add it to `let`, or mend the expression)")
        if type(node) not in _ALLOWED and type(node) not in _OPERATORS:
            raise UserError(
                f"{where}: {type(node).__name__} has no place in an expression (see papers/README.md)"
            )
        if isinstance(node, ast.keyword) and node.arg is None:
            raise UserError(f"{where}: ** has no place in an expression (see papers/README.md)")
    return tree


_ALLOWED = {
    ast.Constant, ast.Name, ast.Load, ast.Store, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.And, ast.Or,
    ast.Compare, ast.Call, ast.keyword, ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.GeneratorExp,
    ast.DictComp, ast.comprehension, ast.IfExp, ast.Subscript, ast.JoinedStr, ast.FormattedValue,
}  # fmt: skip


class Evaluation:
    """One evaluation of a parsed expression with the functions and names that it may use."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], names: Mapping[str, Any]) -> None:
        self.functions = functions
        self.names = dict(names)
        self.steps = 0

    def value(self, node: ast.expr) -> Any:
        """Return the value of a node. Raises NotMeasured, or TypeError and the like for what does not fit."""
        return getattr(self, f"_{type(node).__name__}")(node)

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _Name(self, node: ast.Name) -> Any:
        return self.names[node.id]

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node.op, ast.Mult) and (isinstance(left, str | list) or isinstance(right, str | list)):
            raise TypeError("a text or list cannot be multiplied")
        return _OPERATORS[type(node.op)](left, right)

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        return _OPERATORS[type(node.op)](self.value(node.operand))

    def _BoolOp(self, node: ast.BoolOp) -> bool:
        values = (bool(self.value(each)) for each in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)

    def _Compare(self, node: ast.Compare) -> bool:
        sides = [self.value(each) for each in (node.left, *node.comparators)]
        # Quantities are compared by their values; what needs an interval is a claim of its own.
        plain = [side.value if isinstance(side, Measured) else side for side in sides]
        return all(_OPERATORS[type(op)](a, b) for op, a, b in zip(node.ops, plain, plain[1:], strict=False))

    def _IfExp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _Subscript(self, node: ast.Subscript) -> Any:
        return self.value(node.value)[self.value(node.slice)]

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.value(each)) for each in node.values)

    def _FormattedValue(self, node: ast.FormattedValue) -> Any:
        found = self.value(node.value)
        if isinstance(found, list):
            return ",".join(map(as_text, found))
        if isinstance(found, Measured):
            found = found.value if node.format_spec else as_text(found.value)
        return format(found, self.value(node.format_spec) if node.format_spec else "")

    def _List(self, node: ast.List | ast.Tuple) -> list[Any]:
        return [self.value(each) for each in node.elts]

    _Tuple = _List

    def _Dict(self, node: ast.Dict) -> dict[Any, Any]:
        return {
            self.value(k): self.value(v) for k, v in zip(node.keys, node.values, strict=True) if k is not None
        }

    def _ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        return [self.value(node.elt) for _ in self._turns(node.generators)]

    _GeneratorExp = _ListComp

    def _DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        return {self.value(node.key): self.value(node.value) for _ in self._turns(node.generators)}

    def _Call(self, node: ast.Call) -> Any:
        name = node.func.id  # type: ignore[attr-defined]
        if name == TOLERANT:
            return self._there(node)
        keywords = {each.arg: self.value(each.value) for each in node.keywords if each.arg}
        return self.functions[name](*(self.value(each) for each in node.args), **keywords)

    def _there(self, node: ast.Call) -> list[Any]:
        """Return the measurable items of the one list argument. Raises NotMeasured where there is none."""
        (listed,) = node.args
        found, reason = [], ""
        turns: Iterator[ast.expr]
        if isinstance(listed, ast.List):
            turns = iter(listed.elts)
        elif isinstance(listed, ast.ListComp | ast.GeneratorExp):
            element = listed.elt
            turns = (element for _ in self._turns(listed.generators))
        else:
            raise TypeError(f"{TOLERANT}() takes a list that is written out")
        for element in turns:
            try:
                found.append(self.value(element))
            except NotMeasured as missing:
                reason = reason or str(missing)
        if not found:
            raise NotMeasured(reason or "there is nothing to combine")
        return found

    def _turns(self, generators: list[ast.comprehension]) -> Iterator[None]:
        if not generators:
            yield
            return
        first, *rest = generators
        outer = dict(self.names)
        for item in self.value(first.iter):
            self.steps += 1
            if self.steps > MOST:
                raise ValueError(f"more than {MOST:,} steps")
            self._bind(first.target, item)
            if all(self.value(test) for test in first.ifs):
                yield from self._turns(rest)
        self.names = outer

    def _bind(self, target: ast.expr, item: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = item
            return
        assert isinstance(target, ast.Tuple)
        for name, part in zip(target.elts, item, strict=True):
            self._bind(name, part)
