"""What runs again after a change is what the change concerns, and nothing else."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from project import Project

from leakbench.catalogue.workflow import Workflow

DONE = "Nothing to be done"
LATER = {"table", "figure", "scorecard", "verify", "report"}


def attack(name: str) -> str:
    return f"attack tiny of tiny on tiny with {name}"


SCORE = "score tiny of tiny on tiny, defence none"


def lay(root: Path, name: str, **values: object) -> None:
    """Lay values upon an entry of the catalogue at a project's root."""
    path = root / f"config/{name}.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))


def planned(project: Project, *arguments: str) -> list[str]:
    ran = project.snakemake("-n", *arguments)
    assert ran.rc == 0, ran.text[-2000:]
    assert (DONE in ran.text) == (not ran.messages)
    return ran.messages


def test_a_second_run_does_nothing_and_the_default_target_is_the_report(copied: Project) -> None:
    """Also where all times are new, as after `git clone` or `dvc pull`: contents decide."""
    for top in ("src", "data", "results"):
        for path in copied.path(top).rglob("*"):
            if path.is_file():
                path.touch()
    report = copied.path("results/quick/report.html")
    report.touch()
    before = report.stat().st_mtime_ns
    ran = copied.snakemake()
    assert ran.rc == 0
    assert DONE in ran.text
    assert not ran.messages
    assert report.stat().st_mtime_ns == before
    report.unlink()
    assert planned(copied) == ["report: the scorecard and 1 experiments on one page"]


def test_contents_are_compared_up_to_a_size_and_those_of_data_sets_by_their_digest(copied: Project) -> None:
    for name in ("data/tiny.safetensors", "results/quick/victims/tiny/tiny/0.safetensors"):
        copied.path(name).touch()
    # The profile's limit is for results, and not for data sets.
    low = copied.snakemake("--dry-run", "--max-checksum-file-size", "1000")
    assert "capture" in low.verbs
    assert "train" not in low.verbs
    copied.path("data/digests/tiny.sha256").write_text("another\n")
    assert {"train", "capture", "score", "table", "scorecard"} <= copied.snakemake("--dry-run").verbs


def test_one_attack_changed_and_run_leaves_the_other_cells_alone(copied: Project) -> None:
    results = copied.path("results/quick")
    kept = [
        p
        for p in results.rglob("*")
        if p.is_file() and ("fidel" in p.parts or p.parts[-5] in ("victims", "captures"))
    ]
    before = {path: path.stat().st_mtime_ns for path in kept}
    assert len(before) >= 3
    lay(copied.root, "attacks/other", matching="hungarian")
    cell = "tiny/tiny/tiny/none/0"
    ran = copied.snakemake(f"results/quick/scores/{cell}.parquet")
    assert ran.rc == 0, ran.text[-2000:]
    assert ran.messages == [attack("other"), SCORE]
    assert {path: path.stat().st_mtime_ns for path in kept} == before


CHANGED = {
    "attacks/fidel.py": {"attack", "score", *LATER},
    "federation/play.py": {"capture", "attack", "score", *LATER},
    "networks/victims/fcnn.py": {"train", "capture", "attack", "score", *LATER},
    "federation/training/fit.py": {"train", "capture", "attack", "score", *LATER},
    "defences/none.py": {"capture", "attack", "score", *LATER},
    "datasets/idx.py": {"fetch", "train", "capture", "attack", "score", *LATER},
    "metrics/mse.py": {"score", *LATER},
    "metrics/ssim.py": set(),
    "networks/victims/cnn.py": set(),
    "results/figures/grid.py": {"figure", "report"},
    "results/report/page.css": {"report"},
    "papers/verdicts/verdict.py": {"scorecard", "figure", "report"},
    "jobs/cli.py": set(),
    # The scorecard plans other scales, for what they cost and whether recorded digests still hold.
    "catalogue/resolve.py": {"scorecard", "report"},
}
# What reads what a verb makes.
NEXT = {
    "fetch": ["train"], "train": ["capture"], "capture": ["attack"], "attack": ["score"], "score": ["table"],
    "table": ["figure", "scorecard", "verify"], "figure": ["report"], "scorecard": ["report"],
    "verify": ["report"],
}  # fmt: skip


def of_code(flow: Workflow) -> dict[str, list[str]]:
    """Return verb → the source files whose digests its rule reads, as the rules ask for them."""
    cell = "tiny/tiny/tiny/none"
    return {
        "fetch": flow.fetch_code("tiny"), "train": flow.code_for("train", "train/tiny/tiny/0"),
        "capture": flow.code_for("capture", f"capture/{cell}/0"),
        "attack": flow.attack_code(f"{cell}/fidel/0"),
        "score": flow.score_code(f"{cell}/0"), "table": flow.table_code("tiny"),
        "figure": [*flow.drawing(), *flow.works("tiny")], "scorecard": flow.code("scorecard"),
        "verify": flow.code("verify"), "report": flow.page(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def flow(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LEAKBENCH_DATA", raising=False)
        return Workflow(sound, "quick", home=tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("source", CHANGED)
def test_one_source_file_changed_reruns_its_verbs(source: str, flow: Workflow) -> None:
    end = f"leakbench/{source}"
    found = {verb for verb, files in of_code(flow).items() if any(file.endswith(end) for file in files)}
    assert with_later(found) == CHANGED[source]


def with_later(verbs: set[str]) -> set[str]:
    """Return some verbs and all that read what they make."""
    left = [*verbs]
    while left:
        new = {*NEXT.get(left.pop(), ())} - verbs
        verbs = verbs | new
        left += new
    return verbs


def told_differently(root: Path) -> None:
    for name in ("attacks/other", "victims/tiny", "federations/tiny", "datasets/tiny"):
        lay(root, name, summary="told differently")


def third_attack(root: Path) -> None:
    project = Project(root, None)
    project.write("attacks/third", {"summary": "one more", "module": "fidel"})
    path = project.entry("experiments/tiny")
    value = yaml.safe_load(path.read_text())
    value["cells"][0]["attack"].append("third")
    path.write_text(yaml.safe_dump(value))


@pytest.mark.parametrize(
    ("change", "attack", "verbs"),
    [(lambda root: lay(root, "attacks/other", matching="hungarian"), "other", {"attack", "score", *LATER}),
     (third_attack, "third", {"attack", "score", *LATER}), (told_differently, "", {"figure", "report"})],
)  # fmt: skip
def test_a_changed_catalogue_reruns_what_it_changes(
    change: Callable[[Path], None], attack: str, verbs: set[str], flow: Workflow, catalogue: Path
) -> None:
    change(catalogue)
    before, after = flow.plan.specs, Workflow(catalogue, "quick").plan.specs
    found = {name for name, spec in after.items() if before.get(name) != spec}
    assert {name.split("/")[-2] for name in found if name.startswith("attack/")} == {attack} - {""}
    assert with_later({name.partition("/")[0] for name in found}) == verbs


def test_snakemake_reruns_what_the_workflow_says(copied: Project) -> None:
    """Guards the tests above. The scorecard reads the files of the catalogue themselves."""
    told_differently(copied.root)
    assert copied.snakemake("-n").verbs == {"figure", "scorecard", "report"}
    source = "federation/play.py"
    path = copied.path(f"src/leakbench/{source}")
    path.write_text(f"{path.read_text()}\nCHANGED = True\n")
    ran = copied.snakemake("-n")
    assert ran.rc == 0, ran.text[-2000:]
    assert ran.verbs == CHANGED[source]


def jobs_of_specs(log: str, specs: Path) -> dict[str, int]:
    """Hold the numbers of jobs in a log to the specs of their rules; return rule → number for the others."""
    counted = {name: int(number) for name, number in re.findall(r"^(\w+) +(\d+)$", log, re.MULTILINE)}
    rules = {"generator": "train_generator", "study": "train_study"}
    for kind in ("train", "generator", "study", "capture", "attack", "score", "table", "figure"):
        rule = rules.get(kind, kind)
        planned = len(list((specs / kind).rglob("*.json")))
        assert planned == counted.pop(rule, 0) + counted.pop(f"{rule}_bulk", 0), kind
    return counted


def test_every_spec_is_one_job(finished: Project) -> None:
    others = jobs_of_specs(finished.path("run.log").read_text(), finished.path("results/quick/specs"))
    assert set(others) == {"fetch", "scorecard", "verify", "report", "all", "total"}
    assert others["total"] == 11 + 1


@pytest.mark.nightly
def test_every_spec_of_the_paper_scale_is_one_job(everything: Project) -> None:
    ran = everything.snakemake("-n", "--config", "scale=paper")
    assert ran.rc == 0, ran.text[-2000:]
    others = jobs_of_specs(ran.text, everything.path("results/paper/specs"))
    assert set(others) == {"fetch", "scorecard", "verify", "report", "all", "total"}
    assert others["total"] > 1000


def test_the_results_are_whole(finished: Project) -> None:
    assert finished.leftovers() == []
    page = finished.path("results/quick/report.html").read_text()
    assert "Two attacks on blobs" in page
    assert " " in finished.root.name
