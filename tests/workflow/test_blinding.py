"""An attack cannot see the truth: it has no such input, and gives the same bytes when truth and data are
gone."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
from project import CELL, ROOT, Project

from leakbench.base.artefacts import read_tensors
from leakbench.base.seeds import stream
from leakbench.catalogue.workflow import Workflow

GUESSES = f"results/quick/guesses/{CELL}/fidel/0.safetensors"
FORBIDDEN = (
    "data/", "results/quick/truth/", "results/quick/scores/", "results/quick/victims/",
    "src/leakbench/datasets/", "src/leakbench/federation/", "src/leakbench/metrics/",
)  # fmt: skip
HIDDEN = (
    "data", "results/quick/truth", "results/quick/oracle", "results/quick/scores", "results/quick/tables",
    "results/quick/trials", "results/quick/exhibits",
)  # fmt: skip


def test_an_attack_without_truth_and_data_gives_the_same_bytes(copied: Project) -> None:
    before = copied.path(GUESSES).read_bytes()
    for folder in HIDDEN:
        shutil.rmtree(copied.path(folder))
    copied.path(GUESSES).unlink()
    ran = copied.leakbench(*copied.words("attack", "/fidel/"))
    assert ran.rc == 0, ran.text
    assert copied.path(GUESSES).read_bytes() == before


def test_no_attack_has_a_truth_or_data_file_among_its_inputs(copied: Project) -> None:
    ran = copied.snakemake("--detailed-summary")
    assert ran.rc == 0, ran.stderr
    rows = list(csv.DictReader(ran.stdout.splitlines(), delimiter="\t"))
    inputs = {row["output_file"]: row["input-file(s)"].split(",") for row in rows}

    def told(files: list[str]) -> list[str]:
        """Add the source files whose digests an input holds."""
        stamps = [file for file in files if "/specs/code/" in file]
        return [*files, *(source for file in stamps for source in json.loads(copied.path(file).read_text()))]

    guesses = [files for name, files in inputs.items() if name.startswith("results/quick/guesses/")]
    assert len(guesses) == 2
    for files in map(told, guesses):
        assert f"results/quick/captures/{CELL}/0.safetensors" in files
        assert "src/leakbench/attacks/fidel.py" in files
        assert not [name for name in files if name.startswith(FORBIDDEN)]
    # The summary does list such files where a rule reads them.
    captured = told(inputs[f"results/quick/truth/{CELL}/0.safetensors"])
    assert len([name for name in captured if name.startswith(FORBIDDEN)]) >= 3


def test_no_attack_of_the_catalogue_names_truth_or_data(tmp_path: Path) -> None:
    rule = (ROOT / "workflow/rules/attack.smk").read_text().partition("    output:")[0]
    assert re.findall(r"^        (\w+)=", rule, re.MULTILINE) == [
        "capture", "spec", "generator", "labels", "code",
    ]  # fmt: skip
    flow = Workflow(ROOT, "paper", home=tmp_path)
    given = set()
    attacks = {name for name in flow.plan.specs if name.startswith("attack/")}
    for name in attacks:
        stem = name.partition("/")[2]
        # Labels are read only by an attack that says so in its name, and from a file that holds nothing else.
        asked = flow.plan.specs[name]["attack"]["labels"] == "oracle"
        oracle = f"results/paper/oracle/{stem.rsplit('/', 2)[0]}/{stem.rpartition('/')[2]}.safetensors"
        assert flow.oracle(stem) == ([oracle] if asked else [])
        assert all(file.startswith("results/paper/generators/") for file in flow.generator(stem))
        given.add((asked, bool(flow.generator(stem))))
    assert len(attacks) > 20
    assert {asked for asked, _ in given} == {some for _, some in given} == {True, False}


def test_the_oracles_file_holds_labels_and_nothing_else(finished: Project) -> None:
    oracle, facts = read_tensors(finished.path(f"results/quick/oracle/{CELL}/0.safetensors"))
    truth, _ = read_tensors(finished.path(f"results/quick/truth/{CELL}/0.safetensors"))
    assert set(oracle) == {name for name in truth if name.startswith("labels/")}
    assert all((value == truth[name]).all() for name, value in oracle.items())
    assert "split" not in facts


def test_capture_is_the_same_whatever_attacks_it(copied: Project) -> None:
    files = [f"results/quick/{kind}/{CELL}/0.safetensors" for kind in ("captures", "truth")]
    before = [copied.path(name).read_bytes() for name in files]
    for name in files:
        copied.path(name).unlink()
    shutil.rmtree(copied.path("config/attacks"))
    ran = copied.leakbench(*copied.words("capture", "/tiny/"))
    assert ran.rc == 0, ran.text
    assert [copied.path(name).read_bytes() for name in files] == before


def test_attacks_draw_from_streams_of_their_own(finished: Project) -> None:
    one, _ = read_tensors(finished.path(GUESSES))
    other, _ = read_tensors(finished.path(GUESSES.replace("/fidel/", "/other/")))
    assert (one["images"] == other["images"]).all()
    # Files of zeros would be equal too.
    assert one["images"].shape[:2] == (3, 2)
    assert one["usable"].any()
    assert one["images"].std() > 0.01
    assert (one["null/images"] != other["null/images"]).any()


@pytest.mark.parametrize("seed", [0, 1])
def test_streams_of_the_verbs_differ(seed: int) -> None:
    names = [
        (verb, "tiny", seed)
        for verb in ("initialise", "train", "private", "capture", "local", "attack", "null")
    ]
    assert len({stream(*name) for name in names}) == len(names)
    assert stream("a", "bc") != stream("ab", "c")
