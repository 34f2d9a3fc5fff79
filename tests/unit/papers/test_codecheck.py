"""codecheck.yml: thirty figures, each of an experiment that there is, and the command that makes each."""

import re
import shlex
from fnmatch import fnmatch

import yaml
from project import ROOT
from snakemake.cli import parse_args

from leakbench.catalogue.load import load_kind
from leakbench.papers.entries import entries
from leakbench.papers.work import read_papers


def test_every_figure_of_the_manifest_is_an_experiments() -> None:
    manifest = yaml.safe_load((ROOT / "codecheck.yml").read_text())["manifest"]
    files = [entry["file"].split("/") for entry in manifest]
    assert len(manifest) == len({tuple(file) for file in files}) == 30
    experiments = load_kind(ROOT / "config", "experiments")
    rows = {entry.id for work in read_papers(ROOT / "papers") for entry in entries(work)}
    for (results, scale, figures, name), entry in zip(files, manifest, strict=True):
        assert (results, figures) == ("results", "figures")
        assert (ROOT / f"config/scales/{scale}.yaml").is_file()
        experiment = name.removesuffix(".png")
        title, _, how = entry["comment"].partition(". Check: ")
        assert title == experiments[experiment].title
        assert (ROOT / f"reference/standard/{experiment}.csv").is_file()
        assert how.endswith(f"reference/standard/{experiment}.csv")
        for pattern in re.findall(r"\S+\.[a-z0-9*-]+(?= of scorecard| and \S+ of scorecard)", how):
            assert any(fnmatch(row, pattern) for row in rows), pattern


def test_the_command_of_the_manifest_asks_for_its_figure_at_its_scale() -> None:
    text = (ROOT / "codecheck.yml").read_text()
    command = re.search(r": snakemake (.*) FILE \[(.*)\]\.", text)
    assert command
    for entry in yaml.safe_load(text)["manifest"]:
        file = entry["file"]
        scale = file.split("/")[1]
        more = command[2].split() if scale != "quick" else []
        _, asked = parse_args([*shlex.split(command[1]), file, *more])
        assert list(asked.targets) == [file]
        assert asked.config == ([f"scale={scale}"] if more else None)
