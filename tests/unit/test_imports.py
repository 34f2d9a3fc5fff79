"""The rooms keep their walls, and only papers/ knows a paper."""

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from leakbench.base.moved import _MOVED

ROOT = Path(__file__).parents[2]
LINT = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PYTHONPATH": str(root / "src"), "PATH": str(Path(sys.executable).parent), "COLUMNS": "200",
    }  # fmt: skip
    return subprocess.run(LINT, cwd=root, env=environment, capture_output=True, text=True, check=False)


TRUTH, STOREYS = "An attack cannot see the truth", "Storeys"
LIGHT, VERDICT = (
    "Planning, drawing and reporting do without torch",
    "A verdict knows nothing of how a guess was made",
)
# A module, what it must not import, and the contract that says so.
FORBIDDEN = [
    ("attacks.fidel", "leakbench.federation.play", TRUTH), ("attacks.fidel", "leakbench.metrics.mse", TRUTH),
    ("networks.layers", "leakbench.datasets.idx", TRUTH),
    ("attacks.matching.loop", "leakbench.federation.play", TRUTH),
    ("attacks.label_inference.idlg", "leakbench.metrics.mse", TRUTH),
    ("observations.facts", "leakbench.attacks.fidel", STOREYS),
    ("base.processes.warm", "leakbench.jobs.cli", STOREYS),
    ("metrics.scoring.groups", "leakbench.results.tables.lines", STOREYS),
    ("results.tables.lines", "leakbench.jobs.table", STOREYS),
    ("metrics.mse", "leakbench.attacks.fidel", STOREYS), ("defences.none", "leakbench.jobs.capture", STOREYS),
    ("catalogue.load", "torch", LIGHT), ("results.figures.tile", "torch", LIGHT),
    ("papers.verdicts.verdict", "leakbench.attacks.fidel", VERDICT),
]  # fmt: skip


def part(text: str, contract: str) -> str:
    """Return what the linter says of a broken contract, below its underlined name."""
    _, *heads = re.split(r"^([A-Z][^\n]*)\n-{3,}$", text, flags=re.MULTILINE)
    return "".join(
        said for head, said in zip(heads[::2], heads[1::2], strict=True) if head.startswith(contract)
    )


def test_forbidden_imports_are_noticed(tmp_path: Path) -> None:
    """All of them at once, since the linter takes seconds."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for module, imported, _ in FORBIDDEN:
        path = (tmp_path / "src/leakbench").joinpath(*module.split(".")).with_suffix(".py")
        path.write_text(f"{path.read_text()}\nimport {imported}\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    for module, imported, contract in FORBIDDEN:
        assert f"leakbench.{module} -> {imported} " in part(done.stdout, contract), (module, imported)


def test_planning_imports_no_torch() -> None:
    """Snakemake plans at every start; torch would cost it seconds."""
    script = (
        "import sys; from pathlib import Path; from leakbench.catalogue.workflow import Workflow;"
        f"flow = Workflow(Path({str(ROOT)!r}), 'quick'); flow.drawing(); flow.page();"
        "[flow.table_code(name) for name in flow.plan.experiments];"
        "heavy = {'torch', 'torchvision', 'scipy', 'pandas', 'matplotlib', 'skimage'} & set(sys.modules);"
        "assert not heavy, heavy; assert flow.plan.cells"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("old", "new"),
    [("leakbench.victims", "leakbench.networks.victims"),
     ("leakbench.attacks.observation", "leakbench.observations.observation"),
     ("leakbench.auditing", "leakbench.audit")],
)  # fmt: skip
def test_an_import_by_an_old_path_names_the_new_one(old: str, new: str) -> None:
    with pytest.raises(ImportError, match=f"^{old} lies in {new} now$"):
        import_module(old)


def test_every_new_path_is_there() -> None:
    for name in _MOVED.values():
        import_module(f"leakbench.{name}")


PACKAGE = Path(__file__).parents[2] / "src/leakbench"
WORKS = re.compile(r"(?<![a-z])(fidel|agic|grnn|fedboosting|fedkl|thesis)(?![a-z])", re.IGNORECASE)


def named(path: Path) -> Iterator[str]:
    """Yield every name and text in a file's code that names a work; comments and docstrings may cite one."""
    yield path.stem
    tree = ast.parse(path.read_text())
    cited = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in cited:
                yield text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.alias(name=text):
                yield text
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield text


@pytest.mark.parametrize(
    "room",
    ["results/figures", "papers", "results/report", "papers/scorecard", "papers/verdicts", "metrics/scoring",
     "results/tables"],
)  # fmt: skip
def test_no_room_that_judges_or_tells_results_names_a_paper(room: str) -> None:
    files = sorted((PACKAGE / room).glob("*.py"))
    assert files
    found = {f"{path.name}: {text}" for path in files for text in named(path) if WORKS.search(text)}
    assert not found


def test_a_name_in_code_is_found_and_one_in_a_docstring_is_not(tmp_path: Path) -> None:
    code = (
        '"""Cites the thesis."""\ndef f(x):\n    """Fidel, Fig. 8."""\n    return x["fidel"], read_agic(x)\n'
    )
    (tmp_path / "a.py").write_text(code)
    assert [text for text in named(tmp_path / "a.py") if WORKS.search(text)] == ["fidel", "read_agic"]
