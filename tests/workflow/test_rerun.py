"""What runs again after a change is what the change concerns, and nothing else."""

import re
from pathlib import Path

import pytest
import yaml
from project import Project

from leakbench.catalogue.workflow import Workflow

DONE = "Nothing to be done"
AFTER_SCORE = ["figure tiny", "report: the scorecard and 1 experiments on one page",
               "scorecard: every published number beside ours", "table tiny",
               "verify: the numbers beside those recorded"]  # fmt: skip
LATER = {"table", "figure", "scorecard", "verify", "report"}


def attack(name: str) -> str:
    return f"attack tiny of tiny on tiny with {name}"


SCORE = "score tiny of tiny on tiny, defence none"


def change(project: Project, name: str, **values: object) -> None:
    path = project.path(f"config/{name}.yaml")
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))


def planned(project: Project, *arguments: str) -> list[str]:
    ran = project.snakemake("-n", *arguments)
    assert ran.rc == 0, ran.text[-2000:]
    assert (DONE in ran.text) == (not ran.messages)
    return ran.messages


def test_a_second_run_does_nothing(copied: Project) -> None:
    report = copied.path("results/quick/report.html")
    before = report.stat().st_mtime_ns
    ran = copied.snakemake()
    assert ran.rc == 0
    assert DONE in ran.text
    assert not ran.messages
    assert report.stat().st_mtime_ns == before


def test_the_default_target_is_the_report(copied: Project) -> None:
    copied.path("results/quick/report.html").unlink()
    assert planned(copied) == ["report: the scorecard and 1 experiments on one page"]


def test_one_attack_changed_runs_exactly_its_cells(copied: Project) -> None:
    change(copied, "attacks/other", matching="hungarian")
    assert planned(copied) == sorted([attack("other"), SCORE, *AFTER_SCORE])


def test_one_attack_changed_and_run_leaves_the_other_cells_alone(copied: Project) -> None:
    results = copied.path("results/quick")
    kept = [
        p
        for p in results.rglob("*")
        if p.is_file() and ("fidel" in p.parts or p.parts[-5] in ("victims", "captures"))
    ]
    before = {path: path.stat().st_mtime_ns for path in kept}
    assert len(before) >= 3
    change(copied, "attacks/other", matching="hungarian")
    cell = "tiny/tiny/tiny/none/0"
    ran = copied.snakemake(f"results/quick/scores/{cell}.parquet")
    assert ran.rc == 0, ran.text[-2000:]
    assert ran.messages == [attack("other"), SCORE]
    assert {path: path.stat().st_mtime_ns for path in kept} == before


def test_words_for_people_change_pages_alone(copied: Project) -> None:
    for name in ("attacks/other", "victims/tiny", "federations/tiny", "datasets/tiny"):
        change(copied, name, summary="told differently")
    assert copied.snakemake("-n").verbs == {"figure", "scorecard", "report"}


def test_a_new_time_alone_changes_nothing(copied: Project) -> None:
    """As after `git clone` or `dvc pull`: contents decide, not time stamps."""
    for top in ("src", "data", "results"):
        for path in copied.path(top).rglob("*"):
            if path.is_file():
                path.touch()
    copied.path("results/quick/report.html").touch()
    assert planned(copied) == []


def test_an_added_attack_runs_alone(copied: Project) -> None:
    copied.write("attacks/third", {"summary": "one more", "module": "fidel"})
    path = copied.entry("experiments/tiny")
    value = yaml.safe_load(path.read_text())
    value["cells"][0]["attack"].append("third")
    path.write_text(yaml.safe_dump(value))
    assert planned(copied) == sorted([attack("third"), SCORE, *AFTER_SCORE])


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
        "fetch": flow.fetch_code("tiny"), "train": flow.train_code("train/tiny/tiny/0"),
        "capture": flow.capture_code(f"{cell}/0"), "attack": flow.attack_code(f"{cell}/fidel/0"),
        "score": flow.score_code(f"{cell}/0"), "table": flow.table_code("tiny"),
        "figure": [*flow.drawing(), *flow.works()], "scorecard": flow.code("scorecard"),
        "verify": flow.code("verify"), "report": flow.page(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def flow(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    return Workflow(sound, "quick", home=tmp_path_factory.mktemp("home"))


@pytest.mark.parametrize("source", CHANGED)
def test_one_source_file_changed_reruns_its_verbs(source: str, flow: Workflow) -> None:
    end = f"leakbench/{source}"
    found = {verb for verb, files in of_code(flow).items() if any(file.endswith(end) for file in files)}
    later = [*found]
    while later:
        new = {*NEXT.get(later.pop(), ())} - found
        found |= new
        later += new
    assert found == CHANGED[source]


def test_snakemake_reruns_what_the_workflow_says(copied: Project) -> None:
    """Guards the test above."""
    source = "federation/play.py"
    path = copied.path(f"src/leakbench/{source}")
    path.write_text(f"{path.read_text()}\nCHANGED = True\n")
    ran = copied.snakemake("-n")
    assert ran.rc == 0, ran.text[-2000:]
    assert ran.verbs == CHANGED[source]


def test_published_numbers_reach_the_scorecard_only(copied: Project) -> None:
    copied.work("new", "id,source,table,metric,value\nnew.t.1,new,t,psnr,1\n", {"absent": "nobody did"})
    assert copied.snakemake("-n").verbs == {"scorecard", "figure", "report"}


def test_every_spec_of_the_paper_scale_is_one_job(everything: Project) -> None:
    log = everything.path("paper.log").read_text()
    counted = {name: int(number) for name, number in re.findall(r"^(\w+) +(\d+)$", log, re.MULTILINE)}
    specs = everything.path("results/paper/specs")
    rules = {"generator": "train_generator", "study": "train_study"}
    for kind in ("train", "generator", "study", "capture", "attack", "score", "table", "figure"):
        rule = rules.get(kind, kind)
        planned = len(list((specs / kind).rglob("*.json")))
        assert planned == counted.pop(rule) + counted.pop(f"{rule}_bulk", 0) > 0, kind
    assert set(counted) == {"fetch", "scorecard", "verify", "report", "all", "total"}


def test_lint_is_clean(copied: Project) -> None:
    ran = copied.snakemake("--lint")
    assert ran.rc == 0, ran.text
    assert "good condition" in ran.text


def test_rules_are_the_verbs(copied: Project) -> None:
    from leakbench.jobs.parser import JOBS

    listed = copied.snakemake("--list-rules").stdout.split()
    also = {"all", "train_generator", "train_study", "capture_bulk", "attack_bulk"}
    assert set(listed) - also == {*JOBS, "verify"}


def test_the_results_are_whole(finished: Project) -> None:
    assert finished.leftovers() == []
    page = finished.path("results/quick/report.html").read_text()
    assert "Two attacks on blobs" in page
    assert " " in finished.root.name
