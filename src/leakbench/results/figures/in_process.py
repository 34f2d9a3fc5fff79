"""Runs the cells of a notebook in this process, as an engine of papermill.

A figure's job is a process of its own already. A kernel would be a second one, with sockets between the two.
"""

import ast
import traceback
from typing import Any

from IPython.core.formatters import DisplayFormatter
from IPython.utils.capture import capture_output
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


papermill_engines.register(NAME, InProcess)
