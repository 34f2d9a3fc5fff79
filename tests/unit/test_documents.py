"""Pages name what there is, and the examples of the guides work."""

import re
import shutil
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from project import ROOT

from leakbench.catalogue.resolve import plan
from leakbench.catalogue.schema import Dataset, Victim
from leakbench.jobs.record import planned
from leakbench.metrics.metric import Metric
from leakbench.papers import reference

PAGES = ("README.md", "docs/catalogue.md", "docs/reproduce.md")
SHOWN = "".join((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
MANIFEST = (ROOT / "codecheck.yml").read_text(encoding="utf-8")
FIGURES = sorted(set(re.findall(r"results/(quick|standard)/figures/([a-z0-9-]+)\.png", SHOWN + MANIFEST)))


@pytest.mark.parametrize("scale", ["quick", "standard"])
def test_every_figure_that_the_readme_or_the_manifest_names_is_measured_or_recorded(scale: str) -> None:
    found = planned(ROOT, scale)
    for name in (name for each, name in FIGURES if each == scale):
        measured = found.experiments[name] or found.studies[name]
        assert measured or reference.files(ROOT, name), f"{name} is empty at scale {scale}"


@pytest.mark.parametrize(
    "page",
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "papers").glob("*/decisions.md")),
        *(ROOT / room / "README.md" for room in ("papers", "reference", "entries")),
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)  # fmt: skip
def test_links_lead_somewhere_and_tables_are_whole(page: Path) -> None:
    text = re.sub(r"^ {4}.*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            heads = re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), re.MULTILINE)
            made = [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]
            assert anchor in made, target
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_no_reader_gets_more_words_than_are_meant() -> None:
    """What is generated does not count."""
    made = {"findings.md", "figures.md", "bench.md"}
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name not in made]
    count = [len(re.findall(r"\S*\w\S*", path.read_text(encoding="utf-8"))) for path in pages]
    assert sum(count) <= 35_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1_200


def blocks(page: str, opening: str) -> list[str]:
    """Return the indented blocks of a guide whose first line begins with `opening`, dedented."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"(?:^ {7}.*\n|^\n(?=\n* {7}))+", text, re.MULTILINE)
    return [code for code in map(textwrap.dedent, found) if code.strip().startswith(opening)]


def run(page: str) -> dict[str, Any]:
    """Run the module that a guide shows; return its names."""
    (code,) = blocks(page, '"""')
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)
    return names


def test_the_network_of_the_guide_maps_images_to_logits() -> None:
    network = run("adding-networks.md")["two_layers"]((4, 6, 3), 5, width=7)
    assert network(torch.rand(2, 3, 4, 6)).shape == (2, 5)
    (entry,) = blocks("adding-networks.md", "summary:")
    value = yaml.safe_load(entry)
    Victim(**value.pop("variants")["trained"] | value)


def test_the_data_set_of_the_guide_is_read(tmp_path: Path) -> None:
    images, labels = np.full((3, 28, 28, 1), 7), np.array([0, 1, 1])
    for split in ("train", "test"):
        np.savez(tmp_path / f"{split}.npz", images=images, labels=labels)
    found = run("adding-datasets.md")["shapes"](tmp_path)
    assert (found.tensors["test/images"] == images).all()
    assert found.tensors["test/images"].dtype == np.uint8
    assert found.tensors["train/labels"].tolist() == [0, 1, 1]
    (entry,) = blocks("adding-datasets.md", "summary:")
    dataset = Dataset(**yaml.safe_load(entry))
    assert (dataset.classes, dataset.shape) == (2, (28, 28, 1))


def test_the_metric_of_the_guide_measures_what_it_says() -> None:
    (metric,) = run("adding-metrics.md")["METRICS"]
    assert isinstance(metric, Metric)
    dark, bright = np.full((1, 1, 2, 2), 0.25), np.full((1, 1, 2, 2), 1.0)
    assert metric.function(dark, bright) == pytest.approx([0.75])
    assert np.isnan(metric.function(np.full((1, 1, 2, 2), np.nan), bright)).all()


@pytest.mark.parametrize("defence", ["none", "gaussian-1e-4"])
def test_the_tutorials_experiment_runs_with_and_without_defence(defence: str, tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to(ROOT / "config")
    shutil.copytree(ROOT / "papers", tmp_path / "papers")
    own = tmp_path / "papers/own/experiments/first-leak.yaml"
    own.parent.mkdir(parents=True)
    shutil.copy(ROOT / "docs/first-leak.yaml", own)
    (change,) = re.findall(r"sed -i '(.*)' ", (ROOT / "docs/first-leak.md").read_text(encoding="utf-8"))
    if defence != "none":
        subprocess.run(["sed", "-i", change, str(own)], check=True)
    (cell,) = plan(tmp_path, "quick", only=["first-leak"]).experiments["first-leak"]
    assert (cell.defence, cell.attack) == (defence, "peel")
