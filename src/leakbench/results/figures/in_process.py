"""Runs the cells of a notebook in this process: plain Python without magics, shell commands and widgets.

A figure's job is a process of its own already. A kernel would be a second one, with sockets between the two.
"""

import ast
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.formatters import DisplayFormatter
from IPython.utils.capture import capture_output
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.iorw import load_notebook_node
from papermill.parameterize import parameterize_notebook


def run(notebook: Path, out: Path, values: Mapping[str, Any]) -> str:
    """Run a notebook with values for its parameters, write it, and return which cell failed, or ""."""
    whole = parameterize_notebook(load_notebook_node(str(notebook)), dict(values), kernel_name="python3")
    names: dict[str, Any] = {"__name__": "__main__"}
    failed = ""
    for count, cell in enumerate((each for each in whole.cells if each.cell_type == "code"), 1):
        cell.execution_count, cell.outputs = count, _run(cell.source, names, count)
        if error := next((each for each in cell.outputs if each.output_type == "error"), None):
            failed = f"cell {count}: {error.ename}: {error.evalue}"
            break
    nbformat.write(whole, out)
    return failed


def _run(source: str, names: dict[str, Any], count: int) -> list[NotebookNode]:
    """Run a cell and return its printed text, its last value and its error as outputs."""
    last: list[NotebookNode] = []
    with capture_output(display=False) as printed:
        try:
            value = _value(source, names, f"cell {count}")
            if value is not None:
                data, metadata = DisplayFormatter().format(value)
                last = [new_output("execute_result", data, metadata=metadata, execution_count=count)]
        except Exception as problem:  # noqa: BLE001 - whatever a cell raises is shown below it
            lines = traceback.format_exception(problem)
            about = {"ename": type(problem).__name__, "evalue": str(problem), "traceback": lines}
            last = [new_output("error", **about)]
    streams = {"stdout": printed.stdout, "stderr": printed.stderr}
    return [new_output("stream", name=name, text=text) for name, text in streams.items() if text] + last


def _value(source: str, names: dict[str, Any], place: str) -> Any:
    """Run a source, and return the value of its last line, None if that is no expression."""
    tree = ast.parse(source, place)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        exec(compile(tree, place, "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), place, "exec"), names)
    return eval(compile(ast.Expression(last.value), place, "eval"), names)
