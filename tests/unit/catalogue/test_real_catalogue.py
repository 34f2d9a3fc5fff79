"""The real catalogue's plans: every scale, the matrix, and that each defence meets an adaptive attacker."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import real
from project import ROOT

from leakbench.catalogue.job_specs import decays
from leakbench.catalogue.load import file_of, stems
from leakbench.catalogue.spec import spec_of

SPECS = yaml.safe_load(Path(__file__).with_name("specs.yaml").read_text())


@pytest.mark.parametrize(("scale", "digest"), SPECS.items())
def test_the_specs_of_every_scale_are_the_recorded_ones(scale: str, digest: str) -> None:
    """But for those of figures and of the scorecard, which hold words for people."""
    found = hashlib.sha256()
    for path, text in sorted(real(scale).texts.items()):
        if not {"figure", "scorecard"} & {*path.split("/")}:
            found.update(f"{path}\n{text}".encode())
    assert found.hexdigest() == digest, f"specs of {scale}: where this is meant, write it into specs.yaml"


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_every_spec_that_is_planned_is_read_by_its_verb_as_it_is(scale: str) -> None:
    verbs = {"generator": "train", "study": "train"}
    verbs |= {name: name for name in ("train", "capture", "attack", "score", "table")}
    specs = real(scale).specs
    checked = [name for name in specs if name.partition("/")[0] in verbs]
    for name in checked:
        assert spec_of(verbs[name.partition("/")[0]], specs[name], name).plain() == specs[name]
    # The quick scale runs no study.
    assert verbs.keys() - {name.partition("/")[0] for name in checked} <= {"study"}


@pytest.mark.parametrize("scale", ["quick", "standard"])
def test_the_real_catalogue_is_planned_at_every_scale(scale: str) -> None:
    own, paper = real(scale), real("paper")
    assert own.experiments.keys() == paper.experiments.keys()
    for name in own.experiments:
        cells, every = ([*each.experiments[name], *each.studies[name]] for each in (own, paper))
        apart = own.specs[f"table/{name}"]["cells_left_out"]
        # What a scale leaves out has its reason, and nothing else has one.
        assert {cell.stem for cell in every} - {cell.stem for cell in cells} <= apart.keys()
        assert all(apart.values())
        assert not apart.keys() & {cell.stem for cell in cells}
    # What costs little runs as often as it is published.
    size = own.specs["capture/mnist/fcnn-relu/fidel-reveal/none/0"]["federation"]
    assert size["rounds"] == 200
    assert size["clients"] == [1, 2, 5, 10, 20, 30, 50, 100, 200]


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_every_defence_meets_who_knows_nothing_of_it_and_who_adapts(scale: str) -> None:
    found, every = real(scale).experiments, real("paper").experiments
    tables = ("table-5-4", "table-5-5", "table-5-6", "table-5-7", "table-5-6-released", "table-3-16")
    for name in [*(f"thesis-{each}" for each in (*tables, "fedkl-adaptive")), "leakbench-matrix"]:
        attackers: dict[tuple[str, str], set[bool]] = {}
        # A capture that nobody attacks who knows its defence, at any scale, is another experiment's.
        adapted = {cell.capture for cell in every[name] if cell.attack.endswith("-adapted")}
        for cell in found[name]:
            if cell.capture in adapted:
                where = cell.defence, cell.capture
                attackers.setdefault(where, set()).add(cell.attack.endswith("-adapted"))
        assert attackers or scale == "quick", name
        assert {where for where, kinds in attackers.items() if len(kinds) < 2} == set(), name


def test_each_defence_has_a_control_cell_at_the_first_scale_that_runs_it() -> None:
    """Variants are the same defence with other settings."""
    left = {*stems(ROOT / "config", "defences")} - {"none"}
    for scale in ("quick", "standard"):
        runs: dict[str, bool] = {}
        for cell in real(scale).cells:
            name = file_of(ROOT / "config", "defences", cell.defence).stem
            runs[name] = runs.get(name, False) or "apart" in real(scale).specs[cell.path("capture")]
        assert all(runs[name] for name in left & runs.keys())
        left -= runs.keys()
    assert not left


def test_the_matrix_has_every_attack_and_defence_that_can_be_a_row() -> None:
    experiments = real("paper").experiments
    cells = [cell for kind in ("", "-dense", "-deep") for cell in experiments[f"leakbench-matrix{kind}"]]
    names = {kind: {*stems(ROOT / "config", kind)} for kind in ("attacks", "defences")}
    # These need several clients (leakbench-observers).
    seen = {"encrypted", "fused", "aggregated"}
    # One refuses the matrix' victims, which have batch norm, one depends on the step. All have experiments.
    own = {"dp-sgd", "outpost"}
    # Those of platforms change weights, which the matrix' clients do not send.
    own |= {"nvflare-percentile", "nvflare-svt", "nvflare-gaussian", "flower-local-dp", "flower-secagg-plus"}
    apart = [cell for name in ("dp", "outpost", "platforms") for cell in experiments[f"leakbench-{name}"]]
    assert own <= {cell.defence for cell in apart}
    assert names["defences"] - {cell.defence for cell in cells} == seen | own
    others = {"labels", "membership", "alignment", "agic-joint", "fidel-generator", "sme", "fedleak", "dlf"}
    others |= {"tokens", "token-span", "token-places", "sentences", "encoder-sentences"}
    others |= {"sentence-membership"}
    # GGL searches by gradients there.
    others |= {"learned-inverter", "ggl"}
    assert "ggl-adam" in {cell.attack for cell in cells}
    assert names["attacks"] - {cell.attack for cell in cells} == others
    assert {(cell.dataset, cell.victim) for cell in cells} == {
        ("mnist-32", "fcnn-relu-untrained"), ("mnist-32", "lenet-dlg-running-norm"),
        ("cifar10", "lenet-dlg-running-norm"), ("cifar10", "resnet20-sigmoid"),
    }  # fmt: skip


def test_a_step_size_that_decays_does_so_before_the_last_iteration() -> None:
    def falls(optimiser: dict[str, Any], **parameters: int) -> bool:
        return decays({"parameters": parameters, "optimiser": optimiser})

    lowered = {"adam": {"decay": True}}
    assert falls(lowered, iterations=160)
    # The first steps of a longer run, and an attack that lowers nothing.
    assert not falls(lowered, iterations=160, decay_over=4000)
    assert falls(lowered, iterations=160, decay_over=300)
    assert not falls({"adam": {"decay": False}}, iterations=160)
    assert not falls({})
    # As the catalogue writes it.
    scored = [spec["attacks"] for name, spec in real("paper").specs.items() if name.startswith("score/")]
    found = {name: entry["decays"] for attacks in scored for name, entry in attacks.items()}
    assert (found["invg"], found["invg-single"], found["grnn"]) == (True, True, False)
