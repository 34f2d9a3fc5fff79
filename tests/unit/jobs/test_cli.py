"""The command line: a subcommand for every verb, one line for a mistake, help for everything."""

import errno
import inspect
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from nightly import daily
from project import ROOT

from leakbench.audit.page import write
from leakbench.base.errors import UserError
from leakbench.base.processes.process import INSTRUCTIONS
from leakbench.jobs import audit as verb
from leakbench.jobs import cli
from leakbench.jobs.cli import main
from leakbench.jobs.parser import JOBS, parser

COMMANDS = parser().verbs


def shells() -> list[tuple[str, str]]:
    """Return (rule, command) of every shell command in the workflow."""
    found = []
    for path in (ROOT / "workflow" / "rules").glob("*.smk"):
        for block in re.split(r"^(?=rule |use rule )", path.read_text(), flags=re.MULTILINE):
            name = re.match(r"rule (\w+):", block)
            if name and (shell := re.search(r"shell:\n((?:\s+\".*\"\n)+)", block)):
                found.append((name[1], "".join(re.findall(r'"(.*)"', shell[1]))))
    return found


def test_no_variable_chooses_the_instructions_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in INSTRUCTIONS:
        monkeypatch.setenv(name, "1")
    assert cli.main(["fetch", "--spec", "none.json", "--out", "x"]) == 2
    assert not {*INSTRUCTIONS} & os.environ.keys()


def test_files_are_read_as_utf_8_whatever_the_locale() -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    read = "from leakbench.catalogue.workflow import Workflow as W; from pathlib import Path; "
    for call in (["-m", "leakbench", "--help"], ["-c", f"{read}W(Path(), 'quick', None, Path(), None)"]):
        words, env = [sys.executable, *call], os.environ | plain
        done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    bare = [path for path in (ROOT / "src").rglob("*.py") if ".read_text()" in path.read_text("utf-8")]
    assert bare == []


def test_every_rule_is_a_command() -> None:
    assert {rule for rule, _ in shells()} == {*JOBS, "verify", "train_generator", "train_study"}


@pytest.mark.parametrize(("rule", "command"), shells())
def test_a_rule_calls_the_command_of_its_name_with_options_that_it_has(rule: str, command: str) -> None:
    assert command.startswith(f"python -m leakbench {rule.partition('_')[0]} ")
    actions = COMMANDS[rule.partition("_")[0]]._actions
    options = {option for action in actions for option in action.option_strings}
    assert set(re.findall(r"--[a-z-]+", command)) <= options


@pytest.mark.parametrize("verb", sorted(COMMANDS))
def test_a_verb_is_a_function_that_takes_the_options(verb: str) -> None:
    own = verb.replace("-", "_")
    function = getattr(import_module(f"leakbench.jobs.{own}"), own)
    parameters = set(inspect.signature(function).parameters)
    options = {action.dest for action in COMMANDS[verb]._actions} - {"help", "threads"}
    assert parameters - {"scratch", "seal"} <= options
    # A Flower app's updates are taken by a function of their own, on which no capture that is played depends.
    assert options - {"root", "from_flower"} <= parameters
    assert function.__doc__ or verb in ("fetch",)


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("compare a b c", "old", Path("a")), ("compare a b c", "new", [Path("b"), Path("c")]),
        ("recheck --scale s --only a b --only c", "only", ["a", "b", "c"]), ("enter", "file", None),
        ("audit --fail-if x --fail-if y t", "fail_if", ["x", "y"]), ("audit", "out", Path("audit")),
        ("audit --local-steps 03", "local_steps", 3), ("audit --lr 1e-3", "lr", 0.001),
        ("plan", "scale", "quick"), ("plan --seed 0", "seed", 0), ("plan --headlines", "headlines", True),
        ("record --scale s --device two", "device", "two"), ("verify --tables", "tables", []),
    ],
)  # fmt: skip
def test_an_argument_is_read_as_the_signature_of_the_verb_says(words: str, name: str, value: object) -> None:
    assert getattr(parser().parse_args(words.split(" ")), name) == value


@pytest.mark.parametrize("verb", ["", *sorted(COMMANDS)])
def test_every_verb_has_help_and_help_lists_every_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([*verb.split(), "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: leakbench {verb}")
    assert verb == "" or "--root" in text
    assert verb or re.findall(r"^    ([\w-]+)(?: |$)", text, re.MULTILINE) == list(COMMANDS)


def broken(path: Path) -> None:
    path.write_text("x = 1\ndef class(): ...\n")
    compile(path.read_text(), str(path), "exec")


def raised(problem: BaseException) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        raise problem

    return run


# What ends a verb → the one line that says so.
MISTAKES = [
    (raised(UserError("config/x.yaml: key: wrong (mend it)")), "config/x.yaml: key: wrong (mend it)"),
    (broken, "PATH: line 2: invalid syntax (mend the file)"),
    *(
        (raised(OSError(number, os.strerror(number), "results/.x.part", None, "results/x")),
         f"results/x: {os.strerror(number).lower()} (name another path)")
        for number in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ELOOP)
    ),
]  # fmt: skip


@pytest.mark.parametrize(("run", "line"), MISTAKES, ids=[line for _, line in MISTAKES])
def test_a_users_mistake_is_one_line_and_exit_code_2(
    run: Callable[[Path], None], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "part.py"
    monkeypatch.setattr(cli, "_run", lambda _: run(path))
    assert cli.main(["plan"]) == 2
    assert capsys.readouterr().err == f"leakbench plan: {line.replace('PATH', str(path))}\n"
    # A mistake of ours is none.
    monkeypatch.setattr(cli, "_run", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        cli.main(["plan"])


def test_success_is_0_and_fixes_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    for name in names:
        monkeypatch.setenv(name, "7")
    monkeypatch.setattr(cli, "_run", lambda _: seen.update({name: os.environ[name] for name in names}) or 0)
    assert cli.main(["plan"]) == 0
    assert set(seen.values()) == {"1"}
    assert cli.main(["plan", "--threads", "3"]) == 0
    assert set(seen.values()) == {"3"}


def test_a_job_of_a_run_ends_with_the_runs_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `end_with` does is in tests/unit/base/test_warm_ends.py."""
    owners: list[int] = []
    monkeypatch.setattr(cli, "owner_of_the_run", lambda: 7)
    monkeypatch.setattr(cli, "end_with", owners.append)
    monkeypatch.setattr(cli, "_run", lambda _: 0)
    assert cli.run(["plan"]) == 0
    assert owners == [7]


def test_a_terminated_command_ends_as_an_exception() -> None:
    """So that what it was writing is removed (tests/workflow/test_killed.py shows that)."""
    script = (
        "import os, signal, sys; from leakbench.jobs import cli\n"
        "def end(_):\n"
        "    try: os.kill(os.getpid(), signal.SIGTERM)\n"
        "    finally: print('cleaned')\n"
        "cli._run = end; sys.exit(cli.main(['plan']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout == "cleaned\n"
    assert done.stderr == ""


def test_who_reads_only_the_first_line_of_a_plan_is_told_nothing_of_pipes() -> None:
    script = (
        "import sys; from leakbench.jobs import cli\n"
        "cli._run = lambda _: print('line\\n' * 99999); sys.exit(cli.main(['plan']))"
    )
    pipe = subprocess.PIPE
    job = subprocess.Popen([sys.executable, "-c", script], stdout=pipe, stderr=pipe)
    assert job.stdout is not None
    assert job.stderr is not None
    job.stdout.close()
    assert job.stderr.read() == b""
    assert job.wait() == 128 + signal.SIGPIPE


def test_a_command_that_a_warm_process_runs_loads_no_library_itself() -> None:
    loaded = "any(name in sys.modules for name in ('numpy', 'torch', 'pydantic'))"
    code = f"import sys, leakbench.jobs.cli; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


TABLE = yaml.safe_load(Path(__file__).with_name("refused.yaml").read_text())
# What stands for words that are too long, and for this checkout.
LONG = {"LONG": 300 * "a", "DIGITS": 5000 * "9", "ROOT": str(ROOT)}


def written(word: str) -> str:
    for short, long in LONG.items():
        word = word.replace(short, long)
    return word


# What takes a process of its own, as an audit does, is tried once by day.
CASES = [case for case in TABLE["cases"] if not case.get("nightly")]


@pytest.mark.parametrize("case", daily(TABLE["cases"], CASES), ids=lambda case: " ".join(case["words"])[:60])
def test_a_command_line_is_refused_in_one_line(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (TABLE["files"] | case.get("files", {})).items():
        Path(name).write_text(text)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    try:
        code = main([*map(written, case["words"])])
    except SystemExit as end:
        code = end.code
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    (line,) = printed.err.splitlines()
    assert line.startswith(case.get("whole", "leakbench" if case["words"] else ""))
    assert case.get("says", "") in line
    # The audited code does not run, and nobody is told to delete a file of their own.
    assert "ValueError" not in line
    assert case["words"][:1] != ["audit"] or "delete" not in line
    assert {path: path.read_bytes() for path in tmp_path.rglob("*")} == before


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text("def client():\n    raise ValueError('ran')\n")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the one line with which an audit is refused, before its code runs."""
    assert main(["audit", *words]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "ran" not in line
    return line


@pytest.mark.parametrize("out", ["app.py", "app.py/below", "a" * 256, "with-a-folder"])
def test_a_report_that_cannot_be_written_is_told_first(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("with-a-folder/report.html").mkdir(parents=True)
    before = sorted(Path().rglob("*"))
    assert f"audit: {out}" in refused(capsys, "app.py:client", "--out", out)
    assert sorted(Path().rglob("*")) == before
    with pytest.raises(UserError, match="cannot hold the report"):
        write(Path(out), *_nothing().values())


def _nothing() -> dict[str, Any]:
    from leakbench.audit.predictions import Look
    from leakbench.audit.report import Audit

    empty = Audit(1, {}, Look())
    return {"audit": empty.to_dict(), "shown": empty.shown()}


def test_a_probe_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "app.py:client", "--out", "new/below", "--budget", "1s"]) == 2
    assert "ValueError: ran" in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["app.py"]


def test_the_demo_is_a_flag_and_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("demo").mkdir()
    asked: list[Any] = []
    monkeypatch.setattr(verb, "supervised", lambda work, given, *_: asked.append(given) or _nothing())
    assert main(["audit", "demo", "--lr", "0.5"]) == main(["audit", "--demo"]) == 0
    found = [(name, options["demo"], options["lr"]) for name, options in asked]
    assert found == [("demo", False, 0.5), ("--demo", True, 0.01)]


def test_no_character_ends_an_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    def supervised(work: Any, given: Any, tell: Any, *more: Any) -> dict[str, Any]:
        tell("batch × 2")
        return _nothing()

    raw = io.BytesIO()
    monkeypatch.setattr(verb, "supervised", supervised)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert main(["audit", "app.py:client", "--out", "ü"]) == 0
    assert raw.getvalue().splitlines()[:2] == [b"batch \\xd7 2", b"report: \\xfc/report.html"]
    assert Path("ü/report.html").is_file()


@pytest.mark.parametrize(
    ("more", "code"),
    [([], 0), (["--fail-if", "exposed > 0"], 3), (["--fail-if", "exposed > 0", "--allow-unmeasured"], 0)],
)
def test_a_gate_without_a_result_fails(more: list[str], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "supervised", lambda *_: _nothing())
    assert main(["audit", "app.py:client", *more]) == code
