"""What a command asks for, and the one line that answers a mistake in it: settings and targets."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.run import _OF_CELLS, _PAGES, _SHOWN, Settings, checked
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
        ("results/paper/tables/dlg-lenett.csv", "no experiment 'dlg-lenett' (did you mean 'dlg-lenet'?)"),
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


def test_every_setting_may_be_said_and_none_is_the_quick_scale_on_the_processor() -> None:
    assert checked({}) == Settings(scale="quick", seed=None, device="cpu", confirm=False)
    said = {"scale": "paper", "seed": 3, "only": "a-1,b", "device": "cuda:1", "confirm": "yes"}
    assert checked(said) == Settings(scale="paper", seed=3, only="a-1,b", device="cuda:1", confirm=True)


@pytest.mark.parametrize("key", ["only", "seed"])
def test_a_setting_without_a_value_is_refused(key: str) -> None:
    with pytest.raises(UserError, match=rf"^--config {key}: is given without a value \("):
        checked({key: None})


REFUSED: dict[str, list[object]] = {
    "seed": ["x", -1, 1.5, True, "1", 2**53 + 1, 10**24], "device": ["gpu", "cuda:", 0],
    "scale": [1, "../quick"], "confirm": ["maybe"], "only": ["", "a, b", "../a"],
}  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [(key, each) for key, of in REFUSED.items() for each in of])
def test_a_value_that_does_not_fit_is_refused_with_its_key(key: str, value: object) -> None:
    mend = "write .*" if key == "device" else "see docs/workflow.md"
    said = rf"^--config {key}: .*got {re.escape(repr(value))}.*\(({mend}|see docs/workflow.md)\)$"
    with pytest.raises(UserError, match=said):
        checked({key: value})


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^--config scal: .* \(did you mean 'scale'\?\)$"):
        checked({"scal": "paper"})
    known = "confirm, device, only, scale, seed"
    with pytest.raises(UserError, match=rf"^--config zzz: .* \(there are: {known}\)$"):
        checked({"zzz": 1})
