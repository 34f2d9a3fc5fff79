"""Runs of one plan share a folder, and targets that no plan has are refused."""

import errno
import fcntl
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from leakbench.base.errors import UserError
from leakbench.catalogue.run import _OF_CELLS, _PAGES, _SHOWN, Settings, checked, write
from leakbench.catalogue.workflow import Workflow
from tests.unit.catalogue.conftest import ENTRIES

FOLDER = "results/quick/specs"
ONE, OTHER = {f"{FOLDER}/a.json": "1\n"}, {f"{FOLDER}/a.json": "2\n", f"{FOLDER}/b.json": "3\n"}


def test_specs_that_a_run_goes_by_are_not_changed(tmp_path: Path) -> None:
    lock = write(tmp_path, FOLDER, ONE)
    assert lock
    with pytest.raises(UserError, match=rf"^{FOLDER}: a run with other settings goes on here \(wait"):
        write(tmp_path, FOLDER, OTHER)
    assert (tmp_path / FOLDER / "a.json").read_text() == "1\n"
    assert not (tmp_path / FOLDER / "b.json").exists()
    lock.close()
    assert write(tmp_path, FOLDER, OTHER)
    assert {name: (tmp_path / name).read_text() for name in OTHER} == OTHER


def test_specs_of_data_sets_are_shared_by_all(tmp_path: Path) -> None:
    lock, fetched = write(tmp_path, FOLDER, ONE), "data/specs/d.json"
    assert write(tmp_path, FOLDER, ONE | {fetched: "1\n"})
    assert (tmp_path / fetched).read_text() == "1\n"
    assert lock


def test_runs_of_one_plan_share_its_specs(tmp_path: Path) -> None:
    first, second = write(tmp_path, FOLDER, ONE), write(tmp_path, FOLDER, ONE)
    assert first
    assert second
    first.close()
    with pytest.raises(UserError):
        write(tmp_path, FOLDER, OTHER)
    second.close()
    assert write(tmp_path, FOLDER, OTHER)


def test_a_killed_run_holds_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        lock = write(tmp_path, FOLDER, ONE)
        os.write(writing, b"x" if lock else b"-")
        signal.pause()
    try:
        assert os.read(reading, 1) == b"x"
        with pytest.raises(UserError):
            write(tmp_path, FOLDER, OTHER)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert write(tmp_path, FOLDER, OTHER)


def test_a_file_system_without_locks_does_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    assert write(tmp_path, FOLDER, ONE) is None
    assert write(tmp_path, FOLDER, OTHER) is None
    assert (tmp_path / FOLDER / "a.json").read_text() == "2\n"


def test_planning_with_other_settings_leaves_a_run_alone(root: Callable[..., Path]) -> None:
    other = ENTRIES["experiments/e"] | {"seeds": [7]}
    place = root({"experiments/other": other})
    run = Workflow(place, "quick")
    specs = {path: path.read_text() for path in (place / FOLDER).rglob("*.json")}
    assert specs
    with pytest.raises(UserError, match="other settings"):
        Workflow(place, "quick", only="other")
    assert {path: path.read_text() for path in (place / FOLDER).rglob("*.json")} == specs
    del run
    assert Workflow(place, "quick", only="other").plan.experiments["other"]
    assert {path: path.read_text() for path in (place / FOLDER).rglob("*.json")} != specs


ROOT = Path(__file__).parents[3]
STEM = "mnist/cnn-relu/fidel-demo/none/fidel-generator/0"


@pytest.mark.parametrize(
    ("word", "says"),
    [("results/standard/figures/dlg-lenet.png", "add --config scale=standard)"),
     ("./results/standard-seed3/report.html", "add --config scale=standard seed=3)"),
     ("results/standrad/report.html", "did you mean 'standard'?)"),
     ("results/paper/figure/dlg-lenet.png", "no rule makes 'figure' (did you mean 'figures'?)"),
     ("results/paper/figures/dlg-lenet.svg", "write results/paper/figures/dlg-lenet.png)"),
     ("results/paper/figures/dlg-lenett.png", "no experiment 'dlg-lenett' (did you mean 'dlg-lenet'?)"),
     ("results/paper/tables/dlg-lenett.csv", "no experiment 'dlg-lenett' (did you mean 'dlg-lenet'?)"),
     ("results/paper/reprot.html", "did you mean 'report.html'?)"),
     ("reprot.html", "write results/paper/report.html)"),
     ("data/mnits.safetensors", "did you mean 'mnist.safetensors'?)")],
)  # fmt: skip
def test_a_target_that_no_rule_makes_is_told_what_to_write(word: str, says: str, flow: Workflow) -> None:
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
