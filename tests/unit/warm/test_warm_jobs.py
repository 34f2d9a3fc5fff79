"""Jobs forked from a warm process do what cold ones do."""

import json
import signal
from pathlib import Path

import pytest
from warm_runs import Run


def test_environment_folder_arguments_and_streams_are_the_callers(served: Run, tmp_path: Path) -> None:
    look = (
        "import json, os, sys\n"
        "print(json.dumps({'folder': os.getcwd(), 'environment': dict(os.environ), 'argv': argv[1:],"
        " 'read': sys.stdin.read()}))\n"
        "print('aside', file=sys.stderr)\n"
    )
    environment = served.environment | {"ONLY": "here\udcff", "EMPTY": ""}
    del environment["PATH"]
    words = ("a word", "é", "")
    job = served.client(look, *words, env=environment, cwd=tmp_path)
    out, err = job.communicate("what is read")
    assert (job.returncode, err) == (0, "aside\n")
    seen = json.loads(out)
    assert seen["folder"] == str(tmp_path)
    assert seen["argv"] == list(words)
    assert seen["read"] == "what is read"
    ours = {name: value for name, value in seen["environment"].items() if name != "LC_CTYPE"}
    assert ours == {name: value for name, value in environment.items() if name != "LC_CTYPE"}


def test_a_jobs_process_is_neither_the_callers_nor_the_warm_one(served: Run) -> None:
    jobs = [served.client("import os; print(os.getpid(), os.getppid())") for _ in range(2)]
    found = [[int(word) for word in job.communicate()[0].split()] for job in jobs]
    assert served.server is not None
    everyone = {served.server.pid, *(job.pid for job in jobs), *found[0], *found[1]}
    assert len(everyone) == 7


def test_one_job_does_not_see_what_another_did(served: Run) -> None:
    for _ in range(2):
        job = served.client("import os, sys; print('mark' in os.environ, hasattr(sys, 'mark'));"
                            "os.environ['mark'] = '1'; sys.mark = 1; os.chdir('/')")  # fmt: skip
        assert job.communicate()[0] == "False False\n"


def test_jobs_run_side_by_side(served: Run, tmp_path: Path) -> None:
    """Each waits for the other's sign, so one after the other they would wait for ever."""
    code = (
        "import time; from pathlib import Path\n"
        "Path(argv[1]).touch()\n"
        "while not Path(argv[2]).exists(): time.sleep(0.01)\n"
    )
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    jobs = [served.client(code, one, two), served.client(code, two, one)]
    assert [job.wait(timeout=30) for job in jobs] == [0, 0]
    for job in jobs:
        job.communicate()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", 0),
        ("raise SystemExit", 0),
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("raise SystemExit('a word')", 1),
        ("1 / 0", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_exit_codes_are_those_of_a_process_of_its_own(served: Run, code: str, expected: int) -> None:
    job = served.client(code)
    out, err = job.communicate()
    assert job.returncode == expected
    assert out == ""
    if "word" in code:
        assert err == "a word\n"
    elif "1 / 0" in code:
        assert err.endswith("ZeroDivisionError: division by zero\n")
    else:
        assert err == ""
