"""A damaged input is one line that names the file, exit code 2, no traceback, and no output."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from nightly import daily
from project import CELL, Project

from leakbench.base.artefacts import read_facts, read_json, read_tensors, told, write_tensors
from leakbench.jobs.cli import main

R = "results/quick"
INPUTS = [
    ("fetch", "/tiny", "data/specs/tiny.json"),
    ("train", "/tiny/", "data/tiny.safetensors"),
    ("train", "/tiny/", f"{R}/specs/train/tiny/tiny/0.json"),
    ("capture", "/tiny/", "data/tiny.safetensors"),
    ("capture", "/tiny/", f"{R}/victims/tiny/tiny/0.safetensors"),
    ("attack", "/fidel/", f"{R}/captures/{CELL}/0.safetensors"),
    ("attack", "/fidel/", f"{R}/specs/attack/{CELL}/fidel/0.json"),
    ("score", "/fidel/", f"{R}/guesses/{CELL}/fidel/0.safetensors"),
    ("score", "/fidel/", f"{R}/truth/{CELL}/0.safetensors"),
    ("score", "/fidel/", f"{R}/records/attack/{CELL}/fidel/0.json"),
    ("table", "/tiny", f"{R}/scores/{CELL}/0.parquet"),
    ("table", "/tiny", f"{R}/truth/{CELL}/0.safetensors"),
    ("scorecard", "/tiny", f"{R}/tables/tiny.csv"),
    ("scorecard", "/tiny", f"{R}/exhibits/tiny.safetensors"),
    ("report", "/tiny", f"{R}/scorecard.csv"),
    ("report", "/tiny", f"{R}/specs/figure/tiny.json"),
]


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])


def remove(path: Path) -> None:
    path.unlink()


DAMAGES = (halve, empty, garble, remove)


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
    verb: str,
    part: str,
    name: str,
    damage: Callable[[Path], None],
    copied: Project,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What is printed is read where a process prints, since an attack runs in a child."""
    monkeypatch.chdir(copied.root)
    words = shlex.split(copied.logged(verb, part).split(" 2> ")[0])[3:]
    out = copied.path(words[words.index("--out") + 1])
    out.unlink()
    damage(copied.path(name))
    code = main(words)
    printed = capfd.readouterr()
    assert code == 2, printed.err
    lines = printed.err.splitlines()
    assert len(lines) == 1, printed.err
    assert lines[0].startswith(f"leakbench {verb}: ")
    assert name in lines[0]
    assert not out.exists()
    assert copied.leftovers() == []


def test_snakemake_shows_the_line_and_no_traceback(copied: Project) -> None:
    halve(copied.path(f"{R}/captures/{CELL}/0.safetensors"))
    guesses = f"{R}/guesses/{CELL}/fidel/0.safetensors"
    copied.path(guesses).unlink()
    ran = copied.snakemake("--allowed-rules", "attack", "--", guesses)
    assert ran.rc == 1
    line = [line for line in ran.text.splitlines() if line.startswith("leakbench attack: ")]
    assert len(line) == 1
    assert f"{R}/captures/{CELL}/0.safetensors: truncated" in line[0]
    assert "Traceback" not in ran.text
    assert not copied.path(guesses).exists()


def test_a_failing_notebook_is_one_line(copied: Project) -> None:
    notebook = copied.path("notebooks/experiment.ipynb")
    notebook.write_text(notebook.read_text().replace("read_result(", "no_such_function("))
    ran = copied.shell(copied.logged("figure", "/tiny").split(" 2> ")[0])
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
    f"{R}/captures/{CELL}/0.safetensors",
    f"{R}/guesses/{CELL}/fidel/0.safetensors",
    f"{R}/records/attack/{CELL}/fidel/0.json",
    f"{R}/truth/{CELL}/0.safetensors",
    f"{R}/victims/tiny/tiny/0.safetensors",
    "data/tiny.safetensors",
]


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
    told = [line for line in ran.text.splitlines() if f": {name}: " in line]
    assert told, ran.text[-3000:]
    assert "set aside" in told[0]
    assert path.with_name(f"{path.name}.damaged").is_file()
    assert not path.exists()
    again = copied.snakemake(wanted)
    assert again.rc == 0, again.text[-3000:]
    assert "records" in name or path.read_bytes() == whole
    assert copied.snakemake().rc == 0
    assert "Nothing to be done" in copied.snakemake().text


def test_neither_clock_nor_copy_hides_another_spec(copied: Project) -> None:
    """A result that is dated after its spec and follows another: Snakemake alone has nothing to do."""
    guesses = copied.path(f"{R}/guesses/{CELL}/fidel/0.safetensors")
    whole = guesses.read_bytes()
    # The same attack by another name, so its spec alone differs.
    guesses.write_bytes(copied.path(f"{R}/guesses/{CELL}/other/0.safetensors").read_bytes())
    assert guesses.read_bytes() != whole
    # Dated far in the future, as by a clock that went back since.
    os.utime(guesses, (2**32, 2**32))
    ran = copied.snakemake()
    assert ran.rc == 0, ran.text[-3000:]
    assert f"made again: 1 ({R}/guesses/{CELL}/fidel/0.safetensors)\n" in ran.stderr
    assert "attack tiny of tiny on tiny with fidel" in ran.messages
    assert "attack tiny of tiny on tiny with other" not in ran.messages
    assert "score" in ran.verbs
    assert guesses.read_bytes() == whole
    assert "Nothing to be done" in copied.snakemake("--dry-run").text


def test_no_copy_hides_other_code(copied: Project) -> None:
    """A result that says it was made by other code, as one from another checkout would."""
    scores = copied.path(f"{R}/scores/{CELL}/0.parquet")
    captures = copied.path(f"{R}/captures/{CELL}/0.safetensors")
    whole = captures.read_bytes()
    tensors, facts = read_tensors(captures)
    code, other = facts["code"], "0" * 64
    write_tensors(captures, tensors, facts | {"code": other})
    os.utime(captures, (2**32, 2**32))
    assert told(captures) == (facts["spec"], other)
    assert told(scores) == tuple(read_facts(scores)[name] for name in ("spec", "code"))
    ran = copied.snakemake()
    assert ran.rc == 0, ran.text[-3000:]
    assert f"other code, to be made again: 1 ({R}/captures/{CELL}/0.safetensors)\n" in ran.stderr
    assert "capture" in ran.verbs
    assert captures.read_bytes() == whole
    assert told(captures)[1] == code
    assert "Nothing to be done" in copied.snakemake("--dry-run").text


def test_results_of_older_code_are_accepted_on_purpose_alone_and_kept_in_writing(copied: Project) -> None:
    guesses, source = f"{R}/guesses/{CELL}/fidel/0.safetensors", copied.path("src/leakbench/attacks/fidel.py")
    old = told(copied.path(guesses))[1]
    text = source.read_text()
    source.write_text(text + "# Another line.\n")
    assert "attack" in copied.snakemake("--dry-run").verbs
    touched = copied.snakemake("--touch")
    assert touched.rc == 0, touched.text[-3000:]
    then = copied.snakemake("--dry-run")
    assert "Nothing to be done" in then.text
    assert "accepted by --touch: 2 (" in then.stderr
    accepted = read_json(copied.path(f"{R}/accepted.json"), "a list", "")
    assert {name for name in accepted if "other" not in name} == {guesses}
    assert accepted[guesses][0] == old
    # It was accepted for that code, and not for the next.
    source.write_text(text + "# A third line.\n")
    assert "attack" in copied.snakemake("--dry-run").verbs
    # With the first code back, nothing is of other code.
    source.write_text(text)
    again = copied.snakemake("--touch")
    assert again.rc == 0, again.text[-3000:]
    assert "accepted" not in copied.snakemake("--dry-run").stderr


LATER = [
    f"{R}/guesses/{CELL}/fidel/0.safetensors",
    f"{R}/exhibits/tiny.safetensors",
    f"{R}/tables/tiny.csv",
    f"{R}/figures/tiny.png",
    f"{R}/scorecard.csv",
]


@pytest.mark.parametrize("name", LATER)
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
    ran = copied.snakemake()
    assert ran.rc == 0, ran.text[-3000:]
    assert "dated to now" in ran.stderr
    assert copied.path(f"{R}/tables/tiny.csv").read_bytes() != before
    facts = read_facts(copied.path(f"{R}/guesses/{CELL}/other/0.safetensors"))
    assert facts["spec"] == told(copied.path(f"{R}/guesses/{CELL}/other/0.safetensors"))[0]
    assert "Nothing to be done" in copied.snakemake().text
