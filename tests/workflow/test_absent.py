"""A data set that no source has makes its cells absent, and adding a paper is one folder without Python."""

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from project import EXPERIMENT, FEDERATION, Project

from leakbench.base.artefacts import read_facts, read_tensors

REASON = "cifar10: no source has it; tried LEAKBENCH_DATA, whose folders lack it"
CELL = "cifar10/tiny/few/none"
FIGURE = "fidel-figure-9"


def photographs(folder: Path) -> Path:
    """Write small pictures of two kinds, laid out as ImageNet is."""
    rng = np.random.default_rng(3)
    for split in ("train", "val"):
        for kind in range(2):
            place = folder / "imagenet" / split / f"n0000000{kind + 1}"
            place.mkdir(parents=True)
            for number in range(40):
                picture = rng.integers(0, 90, (28, 28, 3)).astype(np.uint8)
                picture[:, :, kind] += 150
                Image.fromarray(picture).save(place / f"{number:02d}.png")
    return folder


@pytest.fixture
def project(copied: Project) -> Project:
    """Return the finished project with one more experiment, on a data set that no source here has."""
    copied.write(
        "datasets/cifar10",
        {"summary": "a set with no source but LEAKBENCH_DATA", "module": "imagenet",
         "parameters": {"resize": 28, "size": 28, "per_class": 40}, "shape": [28, 28, 3], "classes": 2,
         "counts": {"train": 80, "test": 80}, "sources": [{"folders": ["imagenet"]}]},
    )  # fmt: skip
    copied.write("federations/few", FEDERATION | {"private": {"split": "test", "start": 0, "stop": 80}})
    cells = [{"dataset": ["cifar10"], "victim": ["tiny"], "federation": ["few"], "attack": ["fidel"]}]
    copied.write(f"experiments/{FIGURE}", EXPERIMENT | {"item": "fig-9", "cells": cells})
    printed = "id,source,table,metric,value\nfound.fig-9.1,found,fig-9,pearson,0.9\n"
    read = {"experiment": FIGURE, "metric": "pearson", "local_samples": 3}
    claim = {"id": "found.fig-9.leaks", "item": "fig-9", "claim": "It leaks.", "read": read}
    claim["quantity"] = "at()"
    copied.work("found", printed, read, [claim])
    return copied


def test_absent_then_found_in_a_local_folder(project: Project, tmp_path: Path) -> None:
    before = project.path("results/quick/scores/tiny/tiny/tiny/none/0.parquet").stat().st_mtime_ns
    ran = project.snakemake()
    assert ran.rc == 0, ran.text[-3000:]
    assert not [message for message in ran.messages if " tiny, tiny" in message or "on tiny" in message]

    for kind, name in (("captures", f"{CELL}/0.safetensors"), ("guesses", f"{CELL}/fidel/0.safetensors")):
        assert read_facts(project.path(f"results/quick/{kind}/{name}"))["absent"].startswith(REASON)
    assert read_facts(project.path(f"results/quick/scores/{CELL}/0.parquet"))["absent"].startswith(REASON)
    assert project.path("results/quick/scores/tiny/tiny/tiny/none/0.parquet").stat().st_mtime_ns == before
    assert len(pd.read_csv(project.path(f"results/quick/tables/{FIGURE}.csv"))) == 0
    assert len(pd.read_csv(project.path("results/quick/tables/tiny.csv"))) > 0

    card = pd.read_csv(project.path("results/quick/scorecard.csv"), keep_default_na=False)
    rows = card[card["work"] == "found"]
    assert len(rows) == 2
    assert set(rows["verdict"]) == {"not-run"}
    assert rows["reason"].str.contains(REASON, regex=False).all()
    assert REASON in project.path("results/quick/report.html").read_text()
    assert "Nothing to be done" in project.snakemake("-n").text

    # Who names the experiment gets an exit code, and the same results.
    project.path(f"results/quick/tables/{FIGURE}.csv").unlink()
    ran = project.snakemake(f"results/quick/tables/{FIGURE}.csv", "--config", f"only={FIGURE}")
    assert ran.rc == 2, ran.text[-3000:]
    assert len(pd.read_csv(project.path(f"results/quick/tables/{FIGURE}.csv"))) == 0
    assert f"leakbench: --config only: {FIGURE}: nothing was measured: {REASON}" in ran.text

    # The set turns up: its cells run, those of the other set do not.
    offered = photographs(tmp_path / "photographs")
    project.environment["LEAKBENCH_DATA"] = f"{project.data}:{offered}"
    score = f"results/quick/scores/{CELL}/0.parquet"
    ran = project.snakemake(score)
    assert ran.rc == 0, ran.text[-3000:]
    assert "fetch cifar10" in ran.messages
    assert {re.split(r"\W", message)[0] for message in ran.messages} == {
        "fetch", "train", "capture", "attack", "score",
    }  # fmt: skip
    assert all("cifar10" in message for message in ran.messages)
    assert "absent" not in read_facts(project.path(score))
    tensors, _ = read_tensors(project.path("data/cifar10.safetensors"))
    assert tensors["train/images"].shape == (80, 28, 28, 3)

    # The folder is gone again, as on a node without it: what was fetched stays, and a line names the folder.
    shutil.rmtree(offered)
    ran = project.snakemake("-n", score)
    assert "Nothing to be done" in ran.text, ran.text[-2000:]
    assert f"leakbench: LEAKBENCH_DATA: {offered} is no directory" in ran.text


PRINTED = """id,source,table,attack,metric,value
new.table-1.1,new,table-1,Fidel,pearson,{value}
new.table-1.2,new,table-1,Other,pearson,not run
"""
READ = {
    "experiment": "tiny", "metric": "pearson", "local_samples": 3,
    "attack": {"by": "attack", "Fidel": "fidel", "Other": "other"},
}  # fmt: skip


def test_a_paper_is_one_folder_and_a_table_is_three_data_files(finished: Project, copied: Project) -> None:
    """A table is what is printed, which rows of ours belong to it, and the experiment that measures it."""

    def card(project: Project) -> pd.DataFrame:
        path = project.path("results/quick/scorecard.csv")
        return pd.read_csv(path, keep_default_na=False).set_index("id")

    claim = {
        "id": "new.table-1.same", "item": "table-1", "claim": "Both attacks are one.",
        "read": {"experiment": "tiny", "metric": "pearson", "local_samples": 3},
        "quantity": "at(attack='fidel') - at(attack='other')", "relation": "=", "threshold": 0,
        "tolerance": 0.1,
    }  # fmt: skip
    copied.work("new", PRINTED.format(value=0.9), READ, [claim])
    folder = copied.path("papers/new")
    (folder / "tables" / "table-2.csv").write_text(
        "id,source,table,k,metric,value\nnew.table-2.1,new,table-2,3,revealed,2\n"
    )
    with (folder / "measured.yaml").open("a") as file:
        file.write(
            "table-2:\n  experiment: tiny-again\n  metric: revealed\n  attack: fidel\n"
            "  local_samples: {by: k, '3': 3}\n"
        )
    copied.write("experiments/tiny-again", EXPERIMENT | {"item": "table-2"})
    ran = copied.snakemake("results/quick/scorecard.csv")
    assert ran.rc == 0, ran.text[-3000:]
    assert "attack" not in ran.verbs
    after = card(copied)
    added = {"new.table-1.1", "new.table-1.2", "new.table-1.same", "new.table-2.1"}
    assert set(after.index) - set(card(finished).index) == added
    assert after.loc["new.table-1.1", "work"] == "new"
    assert float(after.loc["new.table-1.1", "measured"]) > 0
    assert after.loc["new.table-1.2", "reason"] == "not run by the source either"
    assert after.loc["new.table-1.same", "verdict"] in ("reproduced", "inconclusive")
    assert 0 <= float(after.loc["new.table-2.1", "measured"]) <= 3
    assert "figure tiny-again" in copied.snakemake("-n").messages


def test_a_run_ends_with_what_it_measured_itself(finished: Project) -> None:
    said = finished.path("run.log").read_text()
    assert "report.html: this run measured 0 of the 0 rows of results that have a value; 0 of the 1 " in said
