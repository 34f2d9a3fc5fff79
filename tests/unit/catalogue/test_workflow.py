"""What the Snakefile asks of the catalogue."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from planning import BASES, real_flow

from leakbench.base.artefacts import write_tensors
from leakbench.base.digest import file_digest
from leakbench.base.errors import UserError
from leakbench.base.parts import judge
from leakbench.catalogue import run, workflow
from leakbench.catalogue.costs import REFERENCE, Effort
from leakbench.catalogue.load import file_of
from leakbench.catalogue.signature import declared_metrics
from leakbench.catalogue.workflow import _BUDGETED, Workflow, local_datasets
from leakbench.metrics import METRICS
from leakbench.papers.entries import entries
from leakbench.papers.marks import every_mark
from leakbench.papers.work import read_papers

ROOT = Path(__file__).parents[3]
STEM = "mnist/cnn-relu/fidel-demo/none/fidel-generator/0"
CAPTURE = "mnist/cnn-relu/fidel-demo/none/0"


def test_metrics_read_from_the_source_are_those_that_are_declared() -> None:
    declared = declared_metrics()
    assert declared.keys() == METRICS.keys()
    for name, metric in declared.items():
        own = METRICS[name].function.__module__
        assert metric.module == own or metric.module.startswith("leakbench.metrics.")
        assert metric.needs == METRICS[name].needs


def test_a_need_names_its_judge() -> None:
    assert judge("judge_resnet18_faces") == "resnet18-faces"
    assert judge("lpips_backbones") == judge("labels") == ""
    assert declared_metrics()["top3_densenet121"].judges == ("densenet121-faces",)
    assert declared_metrics()["ssim"].judges == ()


JUDGES = ("densenet121-faces", "resnet18-faces")
JUDGED, LATENT = "orl-32/lenet-dlg/grnn-faces-held-out/none/0", "mnist-32/_any/cvae-mnist/0"
# What a job depends on: the question, the job, ends of source files in the answer, and of others.
CODE = [
    ("score_code", JUDGED, "victims/densenet victims/resnet victims/lenet_dlg", ""),
    ("score_code", CAPTURE, "metrics/ssim", "victims/densenet"),
    ("attack_code", STEM, "attacks/fidel victims/cnn generators/fidel_mnist jobs/attack",
     "generators/fidel_cifar10"),
    ("train", "generator/mnist/cnn-relu/fidel-mnist/0",
     "victims/cnn generators/fidel_mnist", ""),
    ("attack_code", "mnist-32/lenet-dlg/grnn/none/ggl/0", "victims/lenet_dlg generators/cvae", ""),
    ("attack_code", "mnist-32/fcnn-relu-untrained/grnn-matrix/none/ggl-adam/0",
     "victims/fcnn generators/cvae", ""),
    ("train", f"generator/{LATENT}", "generators/cvae", "victims/fcnn victims/cnn"),
    ("train", "generator/imagenet/_any/biggan-deep-256/0", "generators/biggan_deep", ""),
]  # fmt: skip
VICTIMS = "results/paper/victims"
FILES = [
    ("judges", JUDGED, [f"{VICTIMS}/orl-32/{name}/0.safetensors" for name in JUDGES]),
    ("judges", CAPTURE, []),
    ("generator", "mnist-32/lenet-dlg/grnn/none/ggl/0", [f"results/paper/generators/{LATENT}.safetensors"]),
    ("generator", "mnist-32/fcnn-relu-untrained/grnn-matrix/none/ggl-adam/0",
     [f"results/paper/generators/{LATENT}.safetensors"]),
    ("served", LATENT, []),
    ("served", "mnist/cnn-relu/fidel-mnist/0", [f"{VICTIMS}/mnist/cnn-relu/0.safetensors"]),
    ("auxiliary", LATENT, "data/mnist-32.safetensors"),
    # Published weights are a generator's data.
    ("auxiliary", "imagenet/_any/biggan-deep-256/0", "data/biggan-deep-256.safetensors"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "job", "among", "apart"), CODE)
def test_a_job_depends_on_its_parts(asked: str, job: str, among: str, apart: str, flow: Workflow) -> None:
    found = flow.code_for(asked, job) if asked == "train" else getattr(flow, asked)(job)
    there = {name: any(path.endswith(f"/{name}.py") for path in found) for name in f"{among} {apart}".split()}
    assert there == dict.fromkeys(among.split(), True) | dict.fromkeys(apart.split(), False)


@pytest.mark.parametrize(("asked", "job", "files"), FILES)
def test_a_job_needs_files(asked: str, job: str, files: object, flow: Workflow) -> None:
    assert getattr(flow, asked)(job) == files


def test_a_cell_with_lpips_needs_the_backbones(flow: Workflow) -> None:
    needing = []
    for capture in {cell.capture for cell in flow.plan.cells}:
        attacks = flow.plan.specs[f"score/{capture}"]["attacks"].values()
        lpips = any(name.startswith("lpips") for attack in attacks for name in attack["metrics"])
        assert bool(flow.backbones(capture)) == lpips
        needing += [capture] * lpips
    assert needing


def test_a_federation_is_either_kept_or_bulky(flow: Workflow) -> None:
    kept, bulky = (re.compile(flow.bulky(keep=keep)) for keep in (True, False))
    for cell in flow.plan.cells:
        keep = flow.plan.specs[f"capture/{cell.capture}"]["federation"]["keep"]
        assert bool(kept.fullmatch(cell.federation)) is keep
        assert bool(bulky.fullmatch(cell.federation)) is not keep


def test_no_source_file_is_listed_that_is_not_there(flow: Workflow) -> None:
    listed = {*flow.drawing(), *flow.page(), *flow.published(), *flow.code("scorecard")}
    listed |= {name for cell in flow.plan.cells for name in flow.score_code(cell.capture)}
    assert all((ROOT / name).is_file() for name in listed)
    # Its style is among what the page depends on.
    assert {f"src/leakbench/results/report/page.{kind}" for kind in ("css", "js", "html.j2")} <= listed


def test_local_folders_count(
    root: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, raw = root(), tmp_path / "local/MNIST/raw"
    monkeypatch.delenv("LEAKBENCH_DATA", raising=False)
    assert local_datasets(place / "config", place / "data") == set()
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").touch()
    monkeypatch.setenv("LEAKBENCH_DATA", f"/nowhere:{tmp_path / 'local'}")
    assert local_datasets(place / "config", place / "data") == {"d"}
    (line,) = Workflow(place, "quick").passed_over()
    assert line.startswith("LEAKBENCH_DATA: /nowhere is no directory")
    for facts, without in (({"absent": "no source"}, set()), ({"dataset": "d"}, {"d"})):
        Workflow(place, "quick")
        write_tensors(place / "data" / "d.safetensors", {}, facts)
        monkeypatch.delenv("LEAKBENCH_DATA")
        assert local_datasets(place / "config", place / "data") == without
        monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "local"))
        assert local_datasets(place / "config", place / "data") == {"d"}


def test_a_damaged_data_set_stops_no_plan(root: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEAKBENCH_DATA", raising=False)
    place = root()
    Workflow(place, "quick")
    (place / "data" / "d.safetensors").write_bytes(b"damaged")
    assert local_datasets(place / "config", place / "data") == set()
    write_tensors(place / "data" / "d.safetensors", {}, {})
    (place / "data" / "specs" / "d.json").write_text("[")
    assert local_datasets(place / "config", place / "data") == set()


def test_a_stamp_changes_with_its_files_and_not_otherwise(root: Callable[..., Path]) -> None:
    place = root()
    source = place / "module.py"
    source.write_text("ONE = 1\n")
    first = Workflow(place, "quick")
    path = place / first.stamp(["module.py"])
    told, written = json.loads(path.read_text()), path.stat().st_mtime_ns
    assert told == {"module.py": hashlib.sha256(b"ONE = 1\n").hexdigest()}
    assert Workflow(place, "quick").stamp(["module.py"]) == str(path.relative_to(place))
    assert path.stat().st_mtime_ns == written
    source.write_text("ONE = 2\n")
    file_digest.cache_clear()
    Workflow(place, "quick").stamp(["module.py"])
    assert json.loads(path.read_text()) != told


def test_what_is_fetched_has_one_stamp_for_every_scale(flow: Workflow) -> None:
    files = flow.fetch_code("mnist")
    assert flow.stamp(files, fetched=True) == real_flow("quick").stamp(files, fetched=True)
    assert flow.stamp(files, fetched=True).startswith("data/specs/code/")


def job(rule: str, *stem: str) -> SimpleNamespace:
    """Return what a job of Snakemake says of itself."""
    return SimpleNamespace(rule=SimpleNamespace(name=rule), wildcards=stem)


def test_a_long_run_asks_to_be_confirmed(flow: Workflow, monkeypatch: pytest.MonkeyPatch) -> None:
    long = Effort(convolutions=51 * 3600 * REFERENCE.convolutions)
    works = {"attack/a/b": long, "generator/c": long, "capture/d": long}
    monkeypatch.setattr(workflow.costs, "works", lambda specs, there: works)
    jobs = [job("attack_bulk", "a", "b"), job("train_generator", "c"), job("score", "d"), job("all")]
    with pytest.raises(UserError, match=r"the 2 attacks, .* about 102 core-hours \(.*confirm=yes"):
        flow.confirm(jobs, meant=False)
    assert flow.confirm(jobs, meant=True) > flow.confirm(jobs[1:], meant=False) > 0


def test_every_rule_with_a_budget_counts_towards_the_confirmation() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    rules = re.findall(r"^rule (\w+):\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    budgeted = {name for name, body in rules if "flow.needs(" in body}
    copies = re.findall(r"^use rule (\w+) as (\w+)", text, re.MULTILINE)
    budgeted |= {new for old, new in copies if old in budgeted}
    assert budgeted == set(_BUDGETED)


def test_a_table_names_each_file_once(flow: Workflow) -> None:
    """Snakemake reads an input as often as it is named, for each output."""
    several = 0
    for name in flow.plan.experiments:
        for kind in ("guesses", "truth", "victims", "data"):
            paths = flow.pictured(kind, name)
            assert len(paths) == len(set(paths))
            several += len(paths) < len(flow.plan.cells_of(name))
    assert several


def test_an_unknown_experiment_is_answered_with_the_nearest(flow: Workflow) -> None:
    for ask in (flow.scores, flow.paper):
        with pytest.raises(UserError, match=r"no experiment 'dlg-lenett' \(did you mean 'dlg-lenet'\?\)"):
            ask("dlg-lenett")


def test_a_source_that_is_no_pattern_is_refused_with_its_file(root: Callable[..., Path]) -> None:
    sources = [{"folders": ["x"], "holding": ["/etc/*"]}]
    with pytest.raises(UserError, match=r"config/datasets/d.yaml: sources: holding: '/etc/\*'"):
        Workflow(root({"datasets/d": {"sources": sources}}), "quick")


def test_another_folder_gets_the_results_and_names_ours(root: Callable[..., Path], tmp_path: Path) -> None:
    place, home = root(), tmp_path / "outer"
    own, other = Workflow(place, "quick"), Workflow(place, "quick", home=home)
    assert own.seen("papers") == "papers"
    assert other.seen("papers") == str(place / "papers")
    assert other.config() == [str(place / name) for name in own.config()]
    assert {path.relative_to(home) for path in home.rglob("*.json")} == {
        path.relative_to(place) for top in ("results", "data") for path in (place / top).rglob("*.json")
    }


def test_what_a_scale_leaves_out_whole_has_files_only_where_it_is_recorded() -> None:
    quick = real_flow("quick")
    recorded = {Path(file).stem for file in quick.recorded()}
    shown = {Path(file).stem for file in quick.each("tables", "csv")}
    run = {name for name in quick.plan.experiments if quick.scores(name)}
    assert shown == run | (recorded & quick.plan.experiments.keys())
    reasons = quick.plan.specs["scorecard/catalogue"]["left_out"]
    assert set(reasons) == quick.plan.experiments.keys() - run
    assert all(reasons.values())
    assert quick.plan.experiments.keys() - shown


def test_a_start_puts_dates_right_and_finds_what_was_set_aside(tmp_path: Path) -> None:
    results, now = tmp_path / "results/quick", 1e9
    files = [results / "guesses/a", results / "tables/t.csv", tmp_path / "data/d.safetensors"]
    for place, path in enumerate(files):
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (now + 60 - place, now + 60 - place))
    sound = results / "sound"
    sound.touch()
    os.utime(sound, (now - 60, now - 60))
    for name in ("scores/x.parquet.damaged", "tables/t.csv.damaged", "scorecard.csv.damaged1"):
        (results / name).parent.mkdir(exist_ok=True)
        (results / name).touch()
        os.utime(results / name, (now, now))
    count, lost = run.dated(tmp_path, "results/quick", now)
    assert count == 3
    dates = [path.stat().st_mtime for path in files]
    assert dates == sorted(dates, reverse=True)
    assert max(dates) <= now
    assert sound.stat().st_mtime == now - 60
    assert sorted(lost) == ["results/quick/scorecard.csv", "results/quick/scores/x.parquet"]
    assert run.planned("results/quick", {"score/x": {}}, lost) == sorted(lost)
    assert run.planned("results/quick", {}, lost) == ["results/quick/scorecard.csv"]
    (results / "link").symlink_to(sound)
    with pytest.raises(UserError, match="link: a link in the place of a result"):
        run.dated(tmp_path, "results/quick", now)


def test_a_figure_is_drawn_again_for_its_own_work_and_for_works_that_speak_of_it(flow: Workflow) -> None:
    works = read_papers(ROOT / "papers")
    told = {work.name: [*entries(work)] for work in works}
    marked = {work.name: {mark["experiment"] for mark in every_mark([work])} for work in works}
    for name in flow.plan.experiments:
        about = {work for work, own in told.items() if any(entry.reads(name) for entry in own)}
        about |= {work for work, own in marked.items() if name in own}
        about.add(file_of(ROOT / "config", "experiments", name).parents[1].name)
        assert about <= {path.split("/")[1] for path in flow.works(name)}, name
    assert {path.split("/")[1] for path in flow.works("agic-iterations")} == {"agic"}


BOOSTED = {
    "summary": "x", "optimiser": "sgd", "lr": 0.1, "batch_size": 10, "rounds": 200, "clients": 3,
    "aggregation": {"module": "fedboosting-code"}, "hold_out": 0.1,
    "encryption": {"module": "paillier", "parameters": {"bits": 3072}}, "fusion": 0.9,
}  # fmt: skip


def code(flow: Workflow, spec: str) -> set[str]:
    """Return the names of the source files that a training depends on."""
    return {Path(name).name for name in flow.code_for("train", spec)}


def test_a_study_of_several_data_sets_takes_them_all_in(root: Callable[..., Path]) -> None:
    flow = Workflow(root(BASES["words"]), "quick")
    assert flow.further("w/v/r/none/0") == ["data/w2.safetensors", "data/w3.safetensors"]
    assert {"w", "w2", "w3"} <= set(flow.plan.datasets)
    # What an image is of changes no byte of a data set.
    assert "labels" not in flow.plan.specs["fetch/w"]
    assert {"recognition.py", "classification.py", "sets.py"} <= code(flow, "study/w/v/r/none/0")


def test_a_study_depends_on_its_network_defence_rules_and_training(
    root: Callable[..., Path],
) -> None:
    flow = Workflow(root(BASES["studies"]), "quick")
    assert {"fcnn.py", "none.py", "study.py", "federated.py"} <= code(flow, "study/d/v/t/none/0")
    assert not {"federated.py", "study.py"} & code(flow, "train/d/v/0")
    assert flow.scores("s")[0] == "results/quick/studies/d/v/t/none/0.parquet"
    assert flow.costs("s")[0] == "results/quick/records/study/d/v/t/none/0.json"
    flow = Workflow(root(BASES["studies"] | {"trainings/t": BOOSTED}), "quick", home=flow.root / "other")
    found = code(flow, "study/d/v/t/none/0")
    assert {"fedboosting_code.py", "paillier.py", "quantise.py", "server.py"} <= found
    assert not {"ckks.py", "fedboosting_equations.py"} & found
