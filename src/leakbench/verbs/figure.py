"""figure: run an experiment's notebook on its table and pictures."""

import os
import sys
from pathlib import Path

from leakbench.artefacts import replacing
from leakbench.errors import UserError
from leakbench.provenance import read_spec


def figure(notebook: Path, table: Path, exhibit: Path, spec: Path, out: Path, executed: Path) -> None:
    """Write the figure to `out` and the executed notebook to `executed`.

    Raises UserError naming the notebook and its failing cell's error.
    """
    import papermill
    from jupyter_client.manager import AsyncKernelManager
    from papermill.exceptions import PapermillExecutionError

    class Kernel(AsyncKernelManager):
        """Starts the notebook's process as a job of ours, so that it too may be a fork of a warm one."""

        def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
            return [sys.executable, "-m", "leakbench", "kernel", "--connection", self.connection_file]

    shown = read_spec(spec)
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    with replacing(out) as picture, replacing(executed) as ran:
        png = picture.with_suffix(".png")
        values = {
            "table": str(table.resolve()),
            "exhibit": str(exhibit.resolve()),
            "out": str(png.resolve()),
            "title": shown["title"],
            "scale": shown["scale"],
            "published": shown["shows"],
        }
        # papermill chooses its reader by suffix, and the temporary file has none of its own.
        copy = ran.with_suffix(".ipynb")
        try:
            papermill.execute_notebook(
                str(notebook), str(copy), values, kernel_name="python3", progress_bar=False, log_output=False,
                kernel_manager_class=Kernel,
            )  # fmt: skip
        except PapermillExecutionError as problem:
            what = " ".join(f"{problem.ename}: {problem.evalue}".split())
            raise UserError(
                f"{notebook}: cell {problem.exec_count}: {what} (mend the notebook or what it draws)"
            ) from problem
        else:
            if not png.is_file():
                raise UserError(f"{notebook}: wrote no figure (it must save to `out`)")
            os.replace(png, picture)
            os.replace(copy, ran)
        finally:
            png.unlink(missing_ok=True)
            copy.unlink(missing_ok=True)
