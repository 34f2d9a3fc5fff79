"""DVC beside Snakemake: what is recorded, what a reader gets, and that neither makes the other run again."""

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from project import CELL, EXPERIMENT, FEDERATION, ROOT, Project, Ran

from leakbench.catalogue import run
from leakbench.catalogue.workflow import Workflow
from leakbench.jobs.cli import main

RECORDED = ("dvc.yaml", ".dvcignore", ".gitignore", ".dvc/config", ".dvc/.gitignore")
NOTHING = "Nothing to be done"


def stages() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def outs(stage: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the outs and metrics of a stage and their settings."""
    both = [*stage["outs"], *stage.get("metrics", [])]
    return {path: settings for out in both for path, settings in out.items()}


def dvc(project: Project, *arguments: str) -> Ran:
    ran = project.run("dvc", *arguments)
    assert ran.rc == 0, ran.text[-3000:]
    return ran


def git(project: Project, *arguments: str) -> None:
    ran = project.run("git", "-c", "user.name=t", "-c", "user.email=t@localhost", *arguments)
    assert ran.rc == 0, ran.text


def status(project: Project) -> dict[str, Any]:
    """Return what `dvc status` has to say: nothing if recorded results belong to code and configuration."""
    return json.loads(dvc(project, "status", "--json").stdout)


def locked(project: Project) -> dict[str, str]:
    recorded = yaml.safe_load(project.path("dvc.lock").read_text())["stages"].values()
    return {out["path"]: out["md5"] for stage in recorded for out in stage["outs"]}


def published_files(project: Project) -> dict[str, str]:
    """Return the digest of every file below the outs, but for the digests that lie beside results."""
    files = [p for name in locked(project) for p in [project.path(name), *project.path(name).rglob("*")]]
    return {
        str(p.relative_to(project.root)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in files
        if p.is_file() and not p.match(".*.sha256")
    }


def own_settings(folder: Path) -> dict[str, str]:
    """Return variables that keep DVC and git to `folder`, whatever the machine's user has set up."""
    kinds = ("DVC_GLOBAL_CONFIG_DIR", "DVC_SYSTEM_CONFIG_DIR", "DVC_SITE_CACHE_DIR")
    return {kind: str(folder / kind.lower()) for kind in kinds} | {
        "DVC_NO_ANALYTICS": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip


def track(project: Project) -> None:
    """Put a finished tiny project under git and DVC, with this repository's stages cut to what it makes."""
    for name in RECORDED:
        project.path(name).parent.mkdir(exist_ok=True)
        shutil.copy2(ROOT / name, project.path(name))
    cut = stages()
    tiny = "data/tiny.safetensors"
    made = [{name: {"persist": True}} for name in (tiny, "data/digests")]
    cut["data"] |= {"cmd": f"snakemake --cores all {tiny}", "outs": made}
    kept = [dep for dep in cut["results"]["deps"] if not dep.startswith("data/")]
    cut["results"]["deps"] = [*kept, tiny]
    for stage in cut.values():
        stage["cmd"] = stage["cmd"].replace("--cores all", "--cores 2")
        stage["outs"] = [out for out in stage["outs"] if project.path(next(iter(out))).exists()]
    project.path("dvc.yaml").write_text(yaml.safe_dump({"stages": cut}, sort_keys=False))
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "code")


@pytest.fixture(scope="module")
def recorded(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Ran]:
    """Return a finished project under git and DVC, and what `dvc repro` printed that recorded it."""
    folder = tmp_path_factory.mktemp("dvc")
    project = finished.copy(folder)
    project.environment |= own_settings(folder / "publisher")
    track(project)
    return project, dvc(project, "repro")


@dataclass
class Story:
    """A recorded project that was changed and recorded again; with what was seen on the way."""

    project: Project
    before: dict[str, str]
    files_before: dict[str, str]
    told: dict[str, Any]
    second: Ran


@pytest.fixture(scope="module")
def story(recorded: tuple[Project, Ran], tmp_path_factory: pytest.TempPathFactory) -> Story:
    project = recorded[0].copy(tmp_path_factory.mktemp("story"))
    before, files_before = locked(project), published_files(project)
    # One cell more for the table. Its updates and guesses are deleted once used: a reader must not miss them.
    project.write("federations/bulky", FEDERATION | {"keep": False})
    bulky = {"dataset": ["tiny"], "victim": ["tiny"], "federation": ["bulky"], "attack": ["fidel"]}
    project.write("experiments/tiny", EXPERIMENT | {"cells": [*EXPERIMENT["cells"], bulky]})
    told = status(project)
    return Story(project, before, files_before, told, dvc(project, "repro"))


def test_recording_finished_results_runs_nothing(recorded: tuple[Project, Ran]) -> None:
    project, ran = recorded
    assert ran.messages == []
    assert ran.text.count(NOTHING) == 3
    assert status(project) == {}


@pytest.mark.nightly
def test_status_tells_of_a_changed_configuration(story: Story) -> None:
    papers = {"papers": "modified"}
    assert story.told == {
        "results": [{"changed deps": {"config": "modified"} | papers}],
        "figures": [{"changed deps": papers}],
    }


@pytest.mark.nightly
def test_repro_runs_what_changed_and_no_more(story: Story) -> None:
    assert story.second.messages == [
        "attack bulky of tiny on tiny with fidel", "capture bulky of tiny on tiny, defence none",
        "figure tiny", "report: the scorecard and 1 experiments on one page",
        "score bulky of tiny on tiny, defence none", "scorecard: every published number beside ours",
        "table tiny", "verify: the numbers beside those recorded",
    ]  # fmt: skip


@pytest.mark.nightly
def test_repro_records_changed_results(story: Story) -> None:
    """Hard links into DVC's cache and `persist` would record stale ones, so cache.type is copy."""
    after, files = locked(story.project), published_files(story.project)
    table = "results/quick/tables/tiny.csv"
    assert files[table] != story.files_before[table]
    for name in ("records", "truth", "scores", "tables", "exhibits", "notebooks", "report.html"):
        assert after[f"results/quick/{name}"] != story.before[f"results/quick/{name}"], name
    for name in ("data/tiny.safetensors", "results/quick/victims"):
        assert after[name] == story.before[name]
    report = story.project.path("results/quick/report.html").read_bytes()
    assert after["results/quick/report.html"] == hashlib.md5(report).hexdigest()
    assert status(story.project) == {}


@pytest.mark.nightly
def test_reader_gets_the_published_files_and_has_nothing_to_run(story: Story) -> None:
    publisher = story.project
    beside = publisher.root.parent / "leakbench-dvc"
    assert not beside.exists()
    dvc(publisher, "push")
    assert beside.is_dir()
    git(publisher, "add", "--all")
    git(publisher, "commit", "--quiet", "--message", "results")
    folder = publisher.root.parent
    git(publisher, "clone", "--quiet", ".", str(folder / "a reader"))
    # Of a reader's own: neither the local data nor what DVC remembers for the publisher.
    reader = Project(folder / "a reader", None, own_settings(folder / "reader"))
    assert not reader.path("results").exists()

    dvc(reader, "pull")
    assert published_files(reader) == published_files(publisher)
    assert not list(reader.root.glob("results/quick/captures/tiny/tiny/bulky/*/*.safetensors"))
    assert status(reader) == {}
    touched = reader.snakemake("--touch")
    assert touched.rc == 0, touched.text[-3000:]
    assert NOTHING in reader.snakemake("--dry-run").text
    assert "Data and pipelines are up to date" in dvc(reader, "repro", "--dry").text
    assert reader.run("git", "status", "--porcelain").stdout == ""


def altered(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes of a file and nothing else that one could tell it by: not its size, not its mode."""
    data, mode = path.read_bytes(), path.stat().st_mode
    assert old in data
    assert len(old) == len(new)
    path.chmod(0o644)
    path.write_bytes(data.replace(old, new))
    path.chmod(mode)


@pytest.mark.nightly
def test_altered_bytes_of_a_remote_are_refused(story: Story, tmp_path: Path) -> None:
    """Unless it verifies, DVC takes a read-only object of a remote for whole."""
    publisher = story.project
    dvc(publisher, "push")
    remote = tmp_path / "leakbench-dvc"
    shutil.copytree(publisher.root.parent / "leakbench-dvc", remote)
    git(publisher, "clone", "--quiet", ".", str(tmp_path / "a reader"))
    reader = Project(tmp_path / "a reader", None, own_settings(tmp_path / "reader"))
    (tmp_path / "a reader/dvc.lock").write_bytes(publisher.path("dvc.lock").read_bytes())
    page = "results/quick/report.html"
    md5 = locked(publisher)[page]
    altered(remote / "files/md5" / md5[:2] / md5[2:], b"leakbench", b"EVILBENCH")
    pulled = reader.run("dvc", "pull")
    assert pulled.rc == 1
    assert not reader.path(page).exists()
    # That it is the setting that does it:
    dvc(reader, "remote", "modify", "--local", "beside", "verify", "false")
    dvc(reader, "pull")
    assert b"EVILBENCH" in reader.path(page).read_bytes()
    assert status(reader) == {}
    checked = reader.leakbench("check")
    assert checked.rc == 2
    assert f"{page}: other bytes" in checked.stdout.splitlines()
    assert len(checked.stderr.splitlines()) == 1


def test_check_names_each_file_that_is_not_as_recorded(
    recorded: tuple[Project, Ran], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = recorded[0].copy(tmp_path)
    assert main(["check", "--root", str(project.root)]) == 0
    capsys.readouterr()
    scores = f"results/quick/scores/{CELL}/0.parquet"
    altered(project.path(scores), b"PAR1", b"PAR2")
    project.path("results/quick/tables/more.csv").write_text("x\n")
    project.path("results/quick/truth").joinpath(CELL, "0.safetensors").unlink()
    assert main(["check", "--root", str(project.root)]) == 2
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        f"{scores}: other bytes",
        "results/quick/tables/more.csv: not recorded",
        f"results/quick/truth/{CELL}/0.safetensors: missing",
    ]
    assert f"{project.path('dvc.lock')}: 3 differences" in said.err


@pytest.mark.nightly
def test_an_experiment_runs_what_changed_and_shows_its_counts(story: Story, tmp_path: Path) -> None:
    """`dvc exp run` in the workspace, whose metrics are the scorecard's counts by class and word."""
    project = story.project.copy(tmp_path)
    ours = {f"GIT_{who}_{what}": "t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    project.environment |= ours
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--allow-empty", "--message", "results")
    project.work("new", "id,source,table,metric,value\nnew.t.1,new,t,psnr,1\n", {"absent": "nobody did"})
    ran = dvc(project, "exp", "run", "--name", "printed")
    assert ran.verbs == {"scorecard", "figure", "report"}
    metrics = json.loads(dvc(project, "metrics", "show", "--json").stdout)
    assert metrics[""]["data"]["results/quick/scorecard.json"]["data"] == {"result": {"not-run": 1}}
    assert "printed" in dvc(project, "exp", "show", "--csv").stdout


def test_recorded_data_sets_are_compared_by_the_digest_beside_them(finished: Project) -> None:
    """Snakemake would read them again for each output of each job."""
    digest = finished.path("data/digests/tiny.sha256").read_text().split()
    data = finished.path(digest[1]).read_bytes()
    assert digest[0] == hashlib.sha256(data).hexdigest()
    text = "\n".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    read = re.findall(
        r'^        (?:data|further|backbones)=(?!"|ancient|lambda w, input).*', text, re.MULTILINE
    )
    assert not read


def test_every_output_of_the_quick_scale_is_recorded(tmp_path: Path) -> None:
    flow = Workflow(ROOT, "quick", home=tmp_path)
    specs = flow.plan.specs
    assert len(specs) > 100
    data = {*flow.data()}
    data |= {flow.auxiliary(name.partition("/")[2]) for name in specs if name.startswith("generator/")}
    data |= {x for n in specs if n.startswith("capture/") for x in flow.backbones(n.partition("/")[2])}
    kinds = {name.partition("/")[0] for name in specs} & run._RESULTS.keys()
    rooms = {pattern.partition("/")[0] for kind in kinds for pattern in run._RESULTS[kind][1:]}
    made = {f"results/quick/{name}" for name in (*rooms, "records", "oracle", *run._SHOWN, *run._PAGES)}
    assert made | data | {"data/digests"} == {path for stage in stages().values() for path in outs(stage)}


def test_stages_follow_data_and_configuration_and_no_code() -> None:
    data, results, figures = (stages()[name] for name in ("data", "results", "figures"))
    assert set(outs(data)) <= set(results["deps"])
    *sets, digests = outs(data)
    assert digests == "data/digests"
    assert data["cmd"].split()[3:] == sets
    for stage in (data, results, figures):
        assert all(dep.split("/")[0] in ("config", "papers", "data", "results") for dep in stage["deps"])


def test_settings_that_keep_dvc_out_of_the_way() -> None:
    for stage in stages().values():
        assert all(settings == {"persist": True} for settings in outs(stage).values())
        assert stage["cmd"].startswith("snakemake --cores all ")
    rules = [ROOT / "Snakefile", *(ROOT / "workflow" / "rules").glob("*.smk")]
    assert not [path for path in rules if "dvc" in path.read_text()]
    config = (ROOT / ".dvc" / "config").read_text()
    lines = (
        "analytics = false", "autostage = false", "type = copy", "verify = true", "url = ../../leakbench-dvc",
    )  # fmt: skip
    for line in lines:
        assert line in config
