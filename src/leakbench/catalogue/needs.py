"""What the metrics need beyond images. It is read from their files without importing them."""

import ast
from dataclasses import dataclass
from functools import cache

from leakbench.base.code import PACKAGE
from leakbench.base.needs import judge


@dataclass(frozen=True)
class Declared:
    """A metric as its file declares it.

    module: the dotted name of the module.
    needs: what the metric needs beyond the images.
    """

    module: str
    needs: tuple[str, ...]

    @property
    def judges(self) -> tuple[str, ...]:
        """Return the victims that the metric asks as judges of who is on a reconstruction."""
        return tuple(filter(None, map(judge, self.needs)))


@cache
def declared_metrics() -> dict[str, Declared]:
    """Return the metrics that the files declare, by name. Names and needs must be literals."""
    found: dict[str, Declared] = {}
    for path in sorted((PACKAGE / "metrics").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Metric"
                and node.args
            ):
                needs = next((ast.literal_eval(k.value) for k in node.keywords if k.arg == "needs"), ())
                found[ast.literal_eval(node.args[0])] = Declared(f"leakbench.metrics.{path.stem}", needs)
    return found
