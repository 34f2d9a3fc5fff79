"""Real digits through the whole chain at a very small scale: from the files to the page."""

import struct
from pathlib import Path

import chromium
import numpy as np
import pandas as pd
import pytest
from project import ROOT, Project, bare_project

from leakbench.base.artefacts import open_tensors, read_facts

FILES = {"train/images": "train-images-idx3", "train/labels": "train-labels-idx1",
         "test/images": "t10k-images-idx3", "test/labels": "t10k-labels-idx1"}  # fmt: skip


def fetched_digits(folder: Path) -> Path | None:
    """Return a folder for LEAKBENCH_DATA with digits fetched already, or None."""
    kept = ROOT / "data" / "mnist.safetensors"
    if not kept.is_file() or "absent" in read_facts(kept):
        return None
    tensors, _ = open_tensors(kept)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, file in FILES.items():
        array = tensors[name][..., 0] if name.endswith("images") else tensors[name].astype(np.uint8)
        header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        (raw / f"{file}-ubyte").write_bytes(header + np.ascontiguousarray(array).tobytes())
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a finished project: one victim of Fidel, one epoch, clients with 1 and 10 real digits."""
    folder = tmp_path_factory.mktemp("real")
    made = Project(bare_project(folder), fetched_digits(folder / "digits"))
    made.write("scales/quick", {"summary": "tiny", "null_rounds": 10, "caps": {
        "victims": {"fcnn*": {"training.epochs": 1}}, "federations": {"few": {"rounds": 20}}}})  # fmt: skip
    made.write("federations/few", {
        "summary": "two clients", "clients": [1, 10], "rounds": 200, "local": {"lr": 0.01},
        "private": {"split": "test", "start": 6000, "stop": 10000}})  # fmt: skip
    cells = [
        {"dataset": ["mnist"], "victim": ["fcnn-relu-dropout", "fcnn-sigmoid"], "federation": ["few"],
         "attack": ["fidel"]}
    ]  # fmt: skip
    made.write("experiments/fidel-figure-13", {
        "item": "fig-13", "title": "Revealed digits",
        "shows": "ReLU with dropout reveals most.",
        "cells": cells, "metrics": ["pearson", "mse", "ssim"],
        "figure": {"drawing": "dots", "metrics": ["pearson"]}})  # fmt: skip
    printed = (
        "id,source,table,local_samples,metric,value\n"
        "real.fig-13.1,real,fig-13,1,revealed,1\n"
        "real.fig-13.2,real,fig-13,10,revealed,9.9\n"
    )
    reads = {"experiment": "fidel-figure-13", "metric": "revealed", "victim": "fcnn-relu-dropout",
             "local_samples": {"by": "local_samples", "1": 1, "10": 10}}  # fmt: skip
    claims = [
        {"id": f"real.fig-13.{name}", "item": "fig-13", "claim": "ReLU with dropout reveals most.",
         "read": {"experiment": experiment, "metric": "revealed", "local_samples": 10},
         "quantity": f"at(victim='fcnn-relu-dropout') - at(victim='{other}')"}
        for name, experiment, other in (
            ("most", "fidel-figure-13", "fcnn-sigmoid"), ("unmeasured", "fidel-figure-13", "fcnn-tanh"),
        )
    ]  # fmt: skip
    made.work("real", printed, reads, claims)
    ran = made.snakemake()
    assert ran.rc == 0, ran.text[-3000:]
    return made


def revealed(project: Project, victim: str, samples: int, baseline: str = "") -> pd.Series:
    table = pd.read_csv(project.path("results/quick/tables/fidel-figure-13.csv"), keep_default_na=False)
    rows = table[
        (table["victim"] == victim) & (table["local_samples"] == samples) & (table["baseline"] == baseline)
    ]
    (row,) = rows[rows["metric"] == "revealed"].to_dict("records")
    return pd.Series(row)


def test_relu_with_dropout_reveals_real_digits(project: Project) -> None:
    one, ten = (revealed(project, "fcnn-relu-dropout", k) for k in (1, 10))
    assert one["mean"] == 1.0
    assert 3 < ten["ci_low"] <= ten["mean"] <= 10
    assert (one["n"], ten["n"], ten["scale"]) == (20, 20, "quick")


def test_sigmoid_reveals_fewer(project: Project) -> None:
    assert (
        revealed(project, "fcnn-sigmoid", 10)["ci_high"]
        < revealed(project, "fcnn-relu-dropout", 10)["ci_low"] / 2
    )


@pytest.mark.parametrize("baseline", ["random-gradient", "random-noise", "dataset-mean"])
@pytest.mark.parametrize("samples", [1, 10])
def test_null_baselines_reveal_nothing(project: Project, baseline: str, samples: int) -> None:
    row = revealed(project, "fcnn-relu-dropout", samples, baseline)
    assert row["mean"] == 0
    # A quarter of the twenty rounds.
    assert row["n"] == 5


def test_the_victim_learnt_and_the_scale_capped_it(project: Project) -> None:
    facts = read_facts(project.path("results/quick/victims/mnist/fcnn-relu-dropout/0.safetensors"))
    assert facts["checkpoints"] == [0, 1]
    assert facts["test_accuracy"]["1"] > 0.8 > facts["test_accuracy"]["0"]


def test_the_scorecard_says_what_was_measured_and_what_was_not(project: Project) -> None:
    card = pd.read_csv(project.path("results/quick/scorecard.csv"), keep_default_na=False)
    # One epoch is a thirtieth of the victim's training, which binds; a condition that did not run says so.
    assert card["verdict"].tolist() == ["inconclusive", "inconclusive", "inconclusive", "not-run"]
    assert (card["reason"] != "").all()
    assert card["measured"].tolist()[0] == "1"


def test_the_page_is_whole_in_a_browser(project: Project) -> None:
    assert chromium.faults(project.path("results/quick/report.html")) == []
