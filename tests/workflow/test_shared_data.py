"""Every data set of a folder of samples, through fetch, train, capture and a short attack or training."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from nightly import daily
from project import EXPERIMENT, FEDERATION, ROOT, VICTIM, Project, bare_project

from leakbench.base.artefacts import open_tensors, read_facts
from leakbench.catalogue.load import load_kind
from leakbench.catalogue.schema import Dataset
from leakbench.datasets.local import available

BESIDE = ROOT.parent / "shared" / "data"
SEARCH = (
    [BESIDE, BESIDE / "text"]
    if BESIDE.is_dir()
    else [Path(part) for part in os.environ.get("LEAKBENCH_DATA", "").split(":") if part]
)
# Variants are the same pictures at other sizes.
KNOWN = {
    name: entry
    for name, entry in load_kind(ROOT / "config", "datasets").items()
    if isinstance(entry, Dataset)
    and (ROOT / "config" / "datasets" / f"{name}.yaml").is_file()
    and available(entry.model_dump()["sources"], SEARCH)
}
WORDS = sorted(name for name, entry in KNOWN.items() if entry.labels == "words")
PICTURES = sorted(name for name, entry in KNOWN.items() if entry.shape and entry.labels == "classes")
# By day one of each. Where it is there, one with words to train on.
SHORT_PICTURES = [name for name in PICTURES if name == "lfw"] or PICTURES[:1]
SHORT_WORDS = [name for name in WORDS if name == "synth90k"] or WORDS[:1]

pytestmark = pytest.mark.skipif(
    not KNOWN, reason="no samples of data: neither ../shared/data nor LEAKBENCH_DATA holds a known set"
)


@pytest.fixture(scope="module")
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project where every set was attacked, or trained on, as far as it goes; all in quick caps.

    By day it is one set of pictures and one of words.
    """
    night = any(item.get_closest_marker("nightly") for item in request.session.items)
    pictures, words = (PICTURES, WORDS) if night else (SHORT_PICTURES, SHORT_WORDS)
    made = Project(
        bare_project(tmp_path_factory.mktemp("samples")), None, {"LEAKBENCH_DATA": ":".join(map(str, SEARCH))}
    )
    small = VICTIM | {"parameters": {"width": 16, "dropout": 0.5}}
    made.write("victims/tiny", small | {"training": VICTIM["training"] | {"epochs": 1, "images": 500}})
    made.write("victims/raw", {key: value for key, value in small.items() if key != "training"})
    private = {"split": "test", "start": 0, "stop": 200}
    made.write("federations/few", FEDERATION | {"private": private, "clients": [2], "rounds": 2})
    made.write("scales/quick", {"summary": "tiny", "null_rounds": 1, "caps": {
        "attacks": {"*/dlg-adam": {"parameters.iterations": 1}},
        "federations": {"imagenet/agic-gradient": {"rounds": 1}}}})  # fmt: skip
    cells = [
        {"dataset": pictures, "victim": ["tiny", "raw"], "federation": ["few"], "attack": ["fidel"]},
        # ImageNet's own network, and more private images than a sample has.
        {"dataset": [name for name in pictures if name == "imagenet"], "victim": ["resnet50"],
         "federation": ["agic-gradient"], "attack": ["dlg-adam"]},
    ]  # fmt: skip
    cells = [each for each in cells if each["dataset"]]
    if cells:
        metrics = ["pearson", "psnr", "lpips_alex"]
        made.write("experiments/samples", EXPERIMENT | {"cells": cells, "metrics": metrics})
    if words:
        made.write("trainings/short", {
            "summary": "a round of words", "task": "recognition", "optimiser": "adadelta", "lr": 1.0,
            "batch_size": 16, "rounds": 1, "validation": 0.1, "images": 48, "evaluate": 40,
            "tested_on": words,
        })  # fmt: skip
        trainings = [{"dataset": words, "victim": ["crnn"], "training": ["short"]}]
        entry = {key: EXPERIMENT[key] for key in ("item", "title", "shows")}
        figure = {"drawing": "dots", "y": ["training"], "metrics": ["accuracy"]}
        made.write("experiments/words", entry | {"trainings": trainings, "figure": figure})
    names = [path.stem for path in made.path("papers/leakbench/experiments").glob("*.yaml")]
    ran = made.snakemake(*(f"results/quick/tables/{name}.csv" for name in names))
    assert ran.rc == 0, ran.text[-3000:]
    return made


def splits(project: Project, name: str) -> set[str]:
    """Return the splits that a set has here."""
    file = project.path(f"data/{name}.safetensors")
    assert "absent" not in read_facts(file)
    return {key.partition("/")[0] for key in open_tensors(file)[0] if key.endswith("/images")}


def read(project: Project, name: str) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return an experiment's table without its baselines, and why cells are absent."""
    table = pd.read_csv(project.path(f"results/quick/tables/{name}.csv"), keep_default_na=False)
    reasons = read_facts(project.path(f"results/quick/exhibits/{name}.safetensors"))["absent_cells"]
    return table[table["baseline"] == ""], reasons


@pytest.mark.parametrize("name", daily(PICTURES, SHORT_PICTURES))
def test_pictures_are_attacked_with_and_without_training_images(project: Project, name: str) -> None:
    table, reasons = read(project, "samples")
    own = table[(table["dataset"] == name) & (table["metric"] == "psnr")]
    told = reasons.get(f"{name}/tiny/few/none/fidel/0", "")
    assert "raw" in set(own["victim"])
    if "train" in splits(project, name):
        assert ("tiny" in set(own["victim"]), told) == (True, "")
    else:
        assert "tiny" not in set(own["victim"])
        assert told.startswith(f"the copy of {name} that is here has no images of the split train")
    assert ("resnet50" in set(own["victim"])) == (name == "imagenet")
    if "lpips-backbones" in KNOWN:
        assert "lpips_alex" in set(table.loc[table["dataset"] == name, "metric"])


@pytest.mark.nightly
@pytest.mark.skipif("imagenet" not in PICTURES, reason="no samples of ImageNet")
def test_a_network_for_imagenet_is_attacked_in_the_memory_of_a_laptop(project: Project) -> None:
    record = "results/quick/records/attack/imagenet/resnet50/agic-gradient/none/dlg-adam/0.json"
    assert json.loads(project.path(record).read_text())["peak_memory_mb"] < 6_000


@pytest.mark.parametrize("name", daily(WORDS, SHORT_WORDS))
def test_words_are_read_and_trained_on_where_there_are_training_words(project: Project, name: str) -> None:
    table, reasons = read(project, "words")
    there = splits(project, name)
    told = reasons.get(f"{name}/crnn/short/none/0", "")
    assert (name in set(table["dataset"])) == ({"train", "test"} <= there)
    assert told == "" or "no images of the split" in told
    assert (told == "") == (name in set(table["dataset"]))
    tested = set(table.loc[table["metric"] == "accuracy", "tested"])
    assert (name in tested) == ("test" in there)
