"""A damaged input is one line that names the file, exit code 2, no traceback, and no output."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from nightly import daily
from project import CELL, Project

from leakbench.base.artefacts import read_facts, read_json, read_tensors, told, write_tensors
from leakbench.catalogue import run
from leakbench.catalogue.workflow import Workflow
from leakbench.jobs.cli import main

R, SCORE = "results/quick", "score tiny of tiny on tiny, defence none"
INPUTS = [
    ("fetch", "/tiny", "data/specs/tiny.json"), ("train", "/tiny/", "data/tiny.safetensors"),
    ("train", "/tiny/", f"{R}/specs/train/tiny/tiny/0.json"), ("capture", "/tiny/", "data/tiny.safetensors"),
    ("capture", "/tiny/", f"{R}/victims/tiny/tiny/0.safetensors"),
    ("attack", "/fidel/", f"{R}/captures/{CELL}/0.safetensors"),
    ("attack", "/fidel/", f"{R}/specs/attack/{CELL}/fidel/0.json"),
    ("score", "/fidel/", f"{R}/guesses/{CELL}/fidel/0.safetensors"),
    ("score", "/fidel/", f"{R}/truth/{CELL}/0.safetensors"),
    ("score", "/fidel/", f"{R}/records/attack/{CELL}/fidel/0.json"),
    ("table", "/tiny", f"{R}/scores/{CELL}/0.parquet"), ("table", "/tiny", f"{R}/truth/{CELL}/0.safetensors"),
    ("scorecard", "/tiny", f"{R}/tables/tiny.csv"), ("scorecard", "/tiny", f"{R}/exhibits/tiny.safetensors"),
    ("report", "/tiny", f"{R}/scorecard.csv"), ("report", "/tiny", f"{R}/specs/figure/tiny.json"),
]  # fmt: skip


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])


def remove(path: Path) -> None:
    path.unlink()


DAMAGES = (halve, empty, garble, remove)


@pytest.fixture(scope="module")
def shared(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the finished project whose damaged files are made good after each test."""
    return finished.copy(tmp_path_factory.mktemp("damage"))


# Every input has one damage each day, another beside its neighbour's, and all of them each night.
@pytest.mark.parametrize(
    ("verb", "part", "name", "damage"),
    [
        pytest.param(*case, damage, marks=[pytest.mark.nightly] * (place % len(DAMAGES) != number))
        for place, case in enumerate(INPUTS)
        for number, damage in enumerate(DAMAGES)
    ],
)
def test_one_line_for_a_damaged_input(
    verb: str, part: str, name: str, damage: Callable[[Path], None], shared: Project,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """What is printed is read where a process prints, since an attack runs in a child."""
    monkeypatch.chdir(shared.root)
    words = shared.words(verb, part)
    out, path = shared.path(words[words.index("--out") + 1]), shared.path(name)
    before = {file: file.read_bytes() for file in (out, path)}
    out.unlink()
    damage(path)
    code, made = main(words), out.exists()
    for file, data in before.items():
        file.write_bytes(data)
    printed = capfd.readouterr()
    assert (code, made) == (2, False), printed.err
    (line,) = printed.err.splitlines()
    assert line.startswith(f"leakbench {verb}: ")
    assert name in line
    assert shared.leftovers() == []


def test_a_failing_notebook_is_one_line(copied: Project) -> None:
    notebook = copied.path("notebooks/experiment.ipynb")
    notebook.write_text(notebook.read_text().replace("read_result(", "no_such_function("))
    ran = copied.leakbench(*copied.words("figure", "/tiny"))
    assert ran.rc == 2
    lines = [line for line in ran.stderr.splitlines() if line.startswith("leakbench ")]
    assert len(lines) == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    assert "notebooks/experiment.ipynb" in lines[0]
    assert "no_such_function" in lines[0]
    assert copied.leftovers() == []


def flip(path: Path) -> None:
    """Flip one bit near the end, and keep the file's time."""
    data, times = bytearray(path.read_bytes()), path.stat()
    data[-101] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


# One each day, and all of them each night.
FLIPPED = [
    f"{R}/captures/{CELL}/0.safetensors", f"{R}/guesses/{CELL}/fidel/0.safetensors",
    f"{R}/records/attack/{CELL}/fidel/0.json", f"{R}/truth/{CELL}/0.safetensors",
    f"{R}/victims/tiny/tiny/0.safetensors", "data/tiny.safetensors",
]  # fmt: skip


@pytest.mark.parametrize("name", daily(FLIPPED, FLIPPED[:1]))
def test_a_flipped_bit_is_named_set_aside_and_mended_by_the_next_run(name: str, copied: Project) -> None:
    """In each file that a score is made of; Snakemake itself has nothing to do for any of them."""
    wanted = f"{R}/scores/{CELL}/0.parquet"
    path = copied.path(name)
    whole = path.read_bytes()
    flip(path)
    copied.path(wanted).unlink()
    if "captures" in name:
        copied.path(f"{R}/guesses/{CELL}/fidel/0.safetensors").unlink()
    ran = copied.snakemake(wanted)
    assert ran.rc == 1
    (line,) = {line for line in ran.text.splitlines() if f": {name}: " in line}
    assert line.startswith("leakbench ")
    assert "set aside" in line
    assert "Traceback" not in ran.text
    assert path.with_name(f"{path.name}.damaged").is_file()
    assert not path.exists()
    again = copied.snakemake(wanted)
    assert again.rc == 0, again.text[-3000:]
    assert "records" in name or path.read_bytes() == whole


def test_neither_clock_nor_copy_hides_another_spec_or_other_code(copied: Project) -> None:
    """Results dated after all that they follow from, for which Snakemake alone has nothing to do."""
    guesses = copied.path(f"{R}/guesses/{CELL}/fidel/0.safetensors")
    exhibit, wanted = copied.path(f"{R}/exhibits/tiny.safetensors"), f"{R}/tables/tiny.csv"
    whole, shown = guesses.read_bytes(), exhibit.read_bytes()
    # The same attack by another name, so its spec alone differs.
    guesses.write_bytes(copied.path(f"{R}/guesses/{CELL}/other/0.safetensors").read_bytes())
    assert guesses.read_bytes() != whole
    # As one from another checkout says that it was made.
    tensors, facts = read_tensors(exhibit)
    write_tensors(exhibit, tensors, facts | {"code": "0" * 64})
    assert told(exhibit) == (facts["spec"], "0" * 64)
    # Dated far in the future, as by a clock that went back since.
    for path in (guesses, exhibit):
        os.utime(path, (2**32, 2**32))
    ran = copied.snakemake(wanted)
    assert ran.rc == 0, ran.text[-3000:]
    assert "results of another spec or other code, to be made again: 2 (" in ran.stderr
    assert all(str(path.relative_to(copied.root)) in ran.stderr for path in (guesses, exhibit))
    assert ran.messages == ["attack tiny of tiny on tiny with fidel", SCORE, "table tiny"]
    assert (guesses.read_bytes(), exhibit.read_bytes()) == (whole, shown)
    assert "Nothing to be done" in copied.snakemake("--dry-run", wanted).text


def test_older_results_are_accepted_on_purpose(copied: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the planner alone, whose code of attacks is another at each turn."""
    turn, code_of = "", run.code_of
    monkeypatch.setattr(run, "code_of", lambda spec, *more: code_of(spec, *more) + turn * ("attack" in spec))
    flow, accepted = Workflow(copied.root, "quick"), copied.path(f"{R}/accepted.json")
    guesses = [f"{R}/guesses/{CELL}/{name}/0.safetensors" for name in ("fidel", "other")]
    flow.accept()
    assert flow.strays() == []
    assert not accepted.exists()
    turn = " of another line"
    flow.accept()
    assert flow.strays() == [f"results of other code, accepted by --touch: 2 ({accepted} names them)"]
    old = told(copied.path(guesses[0]))[1]
    assert read_json(accepted, "a list", "") == {path: [old, old + turn] for path in guesses}
    # It was accepted for that code, and not for the next.
    turn = " of a third line"
    (line,) = flow.strays()
    assert line.startswith("results of another spec or other code, to be made again: 2 (")
    # With the first code back, nothing is of other code.
    turn = ""
    flow.accept()
    assert read_json(accepted, "a list", "") == {}
    assert flow.strays() == []


@pytest.mark.nightly
def test_snakemake_accepts_results_of_older_code_by_touching_them(copied: Project) -> None:
    guesses, source = f"{R}/guesses/{CELL}/fidel/0.safetensors", copied.path("src/leakbench/attacks/fidel.py")
    old = told(copied.path(guesses))[1]
    source.write_text(source.read_text() + "# Another line.\n")
    touched = copied.snakemake("--touch")
    assert touched.rc == 0, touched.text[-3000:]
    then = copied.snakemake("--dry-run")
    assert "Nothing to be done" in then.text
    assert "accepted by --touch: 2 (" in then.stderr
    accepted = read_json(copied.path(f"{R}/accepted.json"), "a list", "")
    assert {name for name in accepted if "other" not in name} == {guesses}
    assert accepted[guesses][0] == old


LATER = [
    f"{R}/guesses/{CELL}/fidel/0.safetensors", f"{R}/exhibits/tiny.safetensors", f"{R}/tables/tiny.csv",
    f"{R}/figures/tiny.png", f"{R}/scorecard.csv",
]  # fmt: skip


@pytest.mark.parametrize("name", daily(LATER, [f"{R}/tables/tiny.csv"]))
def test_what_was_set_aside_is_made_again_by_the_next_run(name: str, copied: Project) -> None:
    """Although all that follows from it is there; a table or a picture has its digest beside it."""
    path = copied.path(name)
    before = path.read_bytes()
    place = len(before) - (2 if path.suffix == ".csv" else 9)
    path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
    ran = copied.snakemake()
    assert ran.rc != 0, ran.text[-2000:]
    assert "set aside as" in "".join(log.read_text() for log in copied.path("logs").rglob("*.log"))
    assert not path.exists()
    ran = copied.snakemake()
    assert ran.rc == 0, ran.text[-2000:]
    assert f"set aside, to be made again: {name}" in ran.stderr
    assert path.read_bytes() == before
    assert "Nothing to be done" in copied.snakemake().text


def test_a_clock_set_back_hides_no_change(copied: Project) -> None:
    """All files are of tomorrow, and then the parameters of an attack change."""
    for top in ("results", "data"):
        for path in copied.path(top).rglob("*"):
            state = path.stat()
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 86400 * 10**9))
    entry = {"summary": "one neuron", "module": "fidel", "matching": "best", "parameters": {"neurons": 1}}
    before = copied.path(f"{R}/tables/tiny.csv").read_bytes()
    copied.write("attacks/other", entry)
    ran = copied.snakemake(f"{R}/tables/tiny.csv")
    assert ran.rc == 0, ran.text[-3000:]
    assert "dated to now" in ran.stderr
    assert copied.path(f"{R}/tables/tiny.csv").read_bytes() != before
    facts = read_facts(copied.path(f"{R}/guesses/{CELL}/other/0.safetensors"))
    assert facts["spec"] == told(copied.path(f"{R}/guesses/{CELL}/other/0.safetensors"))[0]
