"""`leakbench audit FILE.py:NAME`: whatever a user's file does is one line, and nothing of it is left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import apps
import pytest
from nightly import daily

from leakbench.jobs.audit import BESIDE


def audit(folder: Path, code: str, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "my_app.py").write_text(code)
    command = [sys.executable, "-m", "leakbench", "audit", "my_app.py:client", "--out", "out"]
    return subprocess.run(
        [*command, "--budget", "5s", "--local-steps", "1", *more],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def of_us(folder: Path) -> list[str]:
    """Return the processes whose working folder this is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(folder):
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


BAD = {
    "raises": (apps.RAISES, "KeyError: 'weights of\\nyesterday' (my_app.py, line 2)"),
    "raises at import": (apps.RAISES_AT_IMPORT, "ModuleNotFoundError: No module named 'no_such_library'"),
    "forks": (apps.FORKS, "ValueError: after two forks (my_app.py, line 11)"),
    "forks that stay": (apps.FORKS_THAT_STAY, "ValueError: beside four forks (my_app.py, line 10)"),
    "exits": (apps.EXITS, "SystemExit: enough"),
    "dies": (apps.DIES, "its process ended without a result"),
    "returns nonsense": (apps.NONSENSE, "neither returned (model, loss, batch) nor took a step of an optim"),
    "eats memory": (apps.EATS_MEMORY, "more than 1 GB (raise --memory)"),
}


# One of each way to end: by its error, with a process of its own left, for its memory.
SHORT = ("raises", "forks", "eats memory")


@pytest.mark.parametrize("kind", daily(BAD, SHORT))
def test_a_bad_file_is_one_line_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    code, words = BAD[kind]
    done = audit(tmp_path, code, "--memory", "1g")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("leakbench audit: my_app.py:client: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["my_app.py"]
    assert of_us(tmp_path) == []


def test_a_file_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from leakbench.base.errors import UserError
    from leakbench.jobs import audit as verb

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "BESIDES", 1.0)
    Path("my_app.py").write_text(apps.HANGS)
    with pytest.raises(UserError, match="not finished after 2 s"):
        verb.audit("my_app.py:client", out=Path("out"), local_steps=1, budget="1s", memory="2g")
    assert not Path("out").exists()
    assert not [line for line in of_us(tmp_path) if "leakbench" in line]


def test_a_condition_fails_the_build_and_what_a_file_prints_is_counted_and_not_shown(tmp_path: Path) -> None:
    done = audit(tmp_path, apps.PRINTS, "--fail-if", "exposed > 0 at A..D")
    assert done.returncode == 1, done.stderr
    assert "fails: exposed > 0 at A..D" in done.stdout
    assert "printed 50 lines" in done.stdout
    assert "secret" not in done.stdout + done.stderr
    value = json.loads((tmp_path / "out/audit.json").read_text())
    assert value["exposed"] > 0
    assert value["command"] == (
        "leakbench audit my_app.py:client --local-steps 1 --lr 0.01 --budget 5s --memory 4g "
        "--fail-if 'exposed > 0 at A..D'"
    )
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["audit.json", "audit.sarif", "report.html"]


def test_training_is_watched(tmp_path: Path) -> None:
    done = audit(tmp_path, apps.TRAINS, "--budget", "3s")
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "out/audit.json").read_text())["about"]
    assert (about["records"], about["optimiser"], about["sends"]) == (8, "SGD at rate 0.1", "new weights")


def test_the_light_half_of_the_command_needs_no_workflow() -> None:
    code = (
        "import sys, leakbench, leakbench.jobs.audit, leakbench.audit.audit\n"
        "found = {'snakemake', 'dvc', 'papermill'} & set(sys.modules)\n"
        "assert not found, found\nassert callable(leakbench.audit)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


FORGED = {"patches": (1, 8), "says": (3, 0), "ends": (2, None), "looks": (1, 8)}


@pytest.mark.parametrize("how", daily(FORGED, ["patches", "says"]))
def test_no_report_is_forged_without_saying_whose_code_ran(how: str, tmp_path: Path) -> None:
    """A client that is data is measured by a process that runs none of its code; the report names others."""
    code = (Path(__file__).parents[1] / "cheats/forger.py").read_text()
    done = audit(tmp_path, f"{code}\nclient = {how}\n", "--fail-if", "exposed > 0", "--apart")
    assert "\x1b" not in done.stdout + done.stderr
    assert of_us(tmp_path) == []
    rc, exposed = FORGED[how]
    assert done.returncode == rc, done.stdout + done.stderr
    if how == "ends":
        assert not (tmp_path / "out").exists()
        return
    texts = {path.suffix: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert json.loads(texts[".json"])["exposed"] == exposed
    beside = [BESIDE.replace("'", "&#39;") in text or BESIDE in text for text in texts.values()]
    assert beside == [how != "patches"] * 3
    assert (BESIDE[1:] in done.stdout) is (how != "patches")
