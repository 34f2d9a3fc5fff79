"""codecheck.yml: thirty figures, each of an experiment that there is."""

import yaml
from project import ROOT

from leakbench.catalogue.load import load_kind


def test_every_figure_of_the_manifest_is_an_experiments() -> None:
    manifest = yaml.safe_load((ROOT / "codecheck.yml").read_text())["manifest"]
    files = [entry["file"].split("/") for entry in manifest]
    assert len(manifest) == len({tuple(file) for file in files}) == 30
    experiments = load_kind(ROOT / "config", "experiments")
    for (results, scale, figures, name), entry in zip(files, manifest, strict=True):
        assert (results, figures) == ("results", "figures")
        assert (ROOT / f"config/scales/{scale}.yaml").is_file()
        assert entry["comment"] == experiments[name.removesuffix(".png")].title
