"""What a command asks for, and the one line that answers a mistake in it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.run import _OF_CELLS, _PAGES, _SHOWN
from leakbench.catalogue.workflow import Workflow

ROOT = Path(__file__).parents[3]
STEM = "mnist/cnn-relu/fidel-demo/none/fidel-generator/0"


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("results/standard/figures/dlg-lenet.png", "add --config scale=standard)"),
        ("./results/standard-seed3/report.html", "add --config scale=standard seed=3)"),
        ("results/standrad/report.html", "did you mean 'standard'?)"),
        ("results/paper/figure/dlg-lenet.png", "no rule makes 'figure' (did you mean 'figures'?)"),
        ("results/paper/figures/dlg-lenet.svg", "write results/paper/figures/dlg-lenet.png)"),
        ("results/paper/figures/dlg-lenett.png", "no experiment 'dlg-lenett' (did you mean 'dlg-lenet'?)"),
        ("results/paper/reprot.html", "did you mean 'report.html'?)"),
        ("reprot.html", "write results/paper/report.html)"),
        ("data/mnits.safetensors", "did you mean 'mnist.safetensors'?)"),
    ],
)
def test_a_target_that_no_rule_makes_is_answered_with_what_to_write(
    word: str, says: str, flow: Workflow
) -> None:
    with pytest.raises(UserError, match=re.escape(says)):
        flow.check(["-n", word])


def test_every_target_of_a_rule_and_every_other_word_passes(flow: Workflow) -> None:
    made = ["tables/dlg-lenet.csv", "figures/dlg-lenet.png", "notebooks/dlg-lenet.ipynb", "report.html"]
    made += ["exhibits/dlg-lenet.safetensors", "trials/dlg-lenet.parquet", f"guesses/{STEM}.safetensors"]
    words = ["-n", "--cores", "2", "all", "report", "--config", "scale=paper", "data/mnist.safetensors"]
    flow.check([*words, *(f"results/paper/{name}" for name in made), "--report", "results/x/page.html"])
    others = ["--report=reprot.html", "data/digests/mnist.sha256", "results/paper", "README.md"]
    flow.check([*others, "only=" + "a," * 999])


def test_the_files_that_targets_are_compared_with_are_those_of_the_rules() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    made = set(re.findall(r"(?:=|\(|^ +)f\"\{R\}/([\w./{}-]+)\"", text, re.MULTILINE))
    shown = {f"{kind}/{{{{experiment}}}}.{ending}" for kind, ending in _SHOWN.items()}
    assert shown <= made | {name.replace("{experiment}", "{{experiment}}") for name in made}
    assert {name for name in made if "/" not in name} <= {*_PAGES}
    assert {name.partition("/")[0] for name in made if "/" in name} <= {*_SHOWN, *_OF_CELLS}


def test_another_workflow_has_targets_of_its_own(root: Callable[..., Path], tmp_path: Path) -> None:
    outer = Workflow(root(), "quick", home=tmp_path / "outer")
    outer.check(["results/own/summary.csv", "data/own.safetensors", "results/quick/own/x.csv"])
