"""Runs the cells of a notebook in this process, as an engine of papermill.

A figure's job is a process of its own already. A kernel would be a second one, with sockets between the two.
"""

import ast
import io
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from IPython.core.formatters import DisplayFormatter
from nbformat import NotebookNode
from nbformat.v4 import new_output
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines

NAME = "in-process"


class InProcess(Engine):
    """The engine, which runs plain Python: no magics, no shell commands, no widgets."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, **settings: Any
    ) -> None:
        """Run the cells in order until one fails, and put their outputs into the notebook."""
        names: dict[str, Any] = {"__name__": "__main__"}
        code = [cell for cell in nb_man.nb.cells if cell.cell_type == "code"]
        for count, cell in enumerate(code, 1):
            index = nb_man.nb.cells.index(cell)
            nb_man.cell_start(cell, index)
            cell.execution_count = count
            cell.outputs = _run(cell.source, names, count)
            failed = any(output.output_type == "error" for output in cell.outputs)
            if failed:
                nb_man.cell_exception(cell, index)
            nb_man.cell_complete(cell, index)
            if failed:
                return


def _run(source: str, names: dict[str, Any], count: int) -> list[NotebookNode]:
    """Run a cell and return its printed text, its last value and its error as outputs."""
    printed = {"stdout": io.StringIO(), "stderr": io.StringIO()}
    last: list[NotebookNode] = []
    with redirect_stdout(printed["stdout"]), redirect_stderr(printed["stderr"]):
        try:
            value = _value(source, names, f"cell {count}")
            if value is not None:
                data, metadata = DisplayFormatter().format(value)
                last = [new_output("execute_result", data, metadata=metadata, execution_count=count)]
        except Exception as problem:  # noqa: BLE001 - whatever a cell raises is shown below it
            lines = traceback.format_exception(problem)
            about = {"ename": type(problem).__name__, "evalue": str(problem), "traceback": lines}
            last = [new_output("error", **about)]
    streams = {name: kept.getvalue() for name, kept in printed.items()}
    return [new_output("stream", name=name, text=text) for name, text in streams.items() if text] + last


def _value(source: str, names: dict[str, Any], place: str) -> Any:
    tree = ast.parse(source, place)
    ends = tree.body[-1:]
    asked = isinstance(ends[0], ast.Expr) if ends else False
    exec(compile(ast.Module(tree.body[:-1] if asked else tree.body, []), place, "exec"), names)
    if not asked:
        return None
    assert isinstance(ends[0], ast.Expr)
    return eval(compile(ast.Expression(ends[0].value), place, "eval"), names)


papermill_engines.register(NAME, InProcess)
