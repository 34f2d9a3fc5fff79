"""Attacks that must fail: each would show private images, and is refused in one line."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from nightly import daily
from project import CELL, DATASET, EXPERIMENT, FEDERATION, Project, Ran

from leakbench.base.artefacts import read_facts, read_tensors, write_tensors
from leakbench.base.parts import place
from leakbench.base.pixels import pixels
from leakbench.catalogue.signature import SIGNATURES
from leakbench.jobs.warm_process import MANY

CHEATS = Path(__file__).parents[1] / "cheats"
QUICK = "results/quick"


def cheated(project: Project, parameters: dict[str, Any], call: str = "attack") -> tuple[Ran, Path]:
    """Run the cheat on the tiny cell, by the command line or (call: python) by the verb's function in a
    process without a seal; return what it printed and its guesses."""
    shutil.copy(CHEATS / "peek.py", project.path("src/leakbench/attacks"))
    honest = json.loads(project.path(f"{QUICK}/specs/attack/{CELL}/fidel/0.json").read_text())
    entry = honest["attack"] | {"module": "peek", "parameters": parameters}
    spec, out = project.path("cheat.json"), project.path("cheat.safetensors")
    spec.write_text(json.dumps(honest | {"attack": entry, "attack_name": "peek"}))
    capture = f"{QUICK}/captures/{CELL}/0.safetensors"
    if call == "attack":
        return project.leakbench("attack", "--capture", capture, "--spec", str(spec), "--out", str(out)), out
    return unsealed(project, capture, spec, out), out


def unsealed(project: Project, capture: str, spec: Path, out: Path) -> Ran:
    code = (
        "import sys; from pathlib import Path; from leakbench.catalogue.spec import opened\n"
        "from leakbench.jobs.attack import attack; capture, spec, out = map(Path, sys.argv[1:])\n"
        "attack(capture, opened('attack', spec), out, None, None, None, Path('scratch/attack'))"
    )
    return project.run(sys.executable, "-c", code, capture, str(spec), str(out))


def test_peeking_is_refused_in_one_line_and_works_without_the_seal(copied: Project) -> None:
    files = {"truth": f"{QUICK}/truth/{CELL}/0.safetensors", "data": "data/tiny.safetensors"}
    files = {name: str(copied.path(file).resolve()) for name, file in files.items()}
    ran, out = cheated(copied, files)
    assert ran.rc == 0, ran.text
    reason = read_facts(out)["absent"]
    assert read_tensors(out)[0] == {}
    assert reason.startswith("attack: module peek is no blind attack")
    assert "sees its observation and nothing else" in reason
    assert "\n" not in reason
    assert reason in ran.stderr
    assert "Traceback" not in ran.stderr
    ran, out = cheated(copied, files, "python")
    assert ran.rc == 0, ran.text
    guesses, facts = read_tensors(out)
    assert facts["knows"]["blinding"] == "nothing"
    secret, _ = read_tensors(copied.path(files["truth"]))
    images, _ = read_tensors(copied.path(files["data"]))
    private = pixels(images["test/images"][secret["images/1"]])
    assert np.allclose(guesses["images"][:, 1, :3], private)


def test_the_facts_and_the_table_say_what_was_in_force(finished: Project) -> None:
    facts = read_facts(finished.path(f"{QUICK}/guesses/{CELL}/fidel/0.safetensors"))
    words = facts["knows"]["blinding"]
    assert words in ("Landlock, seccomp and an audit hook", "an audit hook")
    assert words in json.dumps(read_facts(finished.path(f"{QUICK}/exhibits/tiny.safetensors")))
    row = f"<dt>blinding</dt><dd>{words}</dd>"
    assert row in finished.path(f"{QUICK}/report.html").read_text()


def test_the_salt_is_told_to_captures_alone(finished: Project) -> None:
    """Nothing that an attack may open holds it, in whatever form."""
    salt = yaml.safe_load(finished.path("config/salt.yaml").read_text())["salt"]
    holding = [
        str(path.relative_to(finished.root))
        for top in ("results", "data", "src", "logs", "scratch", "run.log")
        for path in [finished.path(top), *finished.path(top).rglob("*")]
        if path.is_file() and salt.encode() in path.read_bytes()
    ]
    assert holding == [f"{QUICK}/specs/capture/{CELL}/0.json"]


def test_private_images_under_another_sets_name_stop_the_run(copied: Project) -> None:
    """The cheat of a configuration alone: a variant of the data set is the generator's auxiliary data."""
    copied.write("datasets/tiny", DATASET | {"variants": {"other": {"summary": "the same files"}}})
    auxiliary = {"dataset": "tiny-other", "split": "test", "start": 200, "stop": 400}
    training = {"optimiser": "adam", "lr": 0.001, "batch_size": 16, "epochs": 1}
    copied.write(
        "generators/stolen",
        {"summary": "x", "module": "fidel-mnist", "auxiliary": auxiliary, "training": training},
    )
    copied.write(
        "attacks/stolen",
        {"summary": "x", "module": "fidel", "matching": "best", "generator": {"tiny": "stolen"}},
    )
    cells = {"dataset": ["tiny"], "victim": ["tiny"], "federation": ["tiny"], "attack": ["stolen"]}
    experiment = copied.entry("experiments/tiny")
    experiment.write_text(yaml.safe_dump(yaml.safe_load(experiment.read_text()) | {"cells": [cells]}))
    ran = copied.snakemake()
    assert ran.rc != 0
    told = [log for log in copied.path("logs").rglob("*.log") if "generator: auxiliary" in log.read_text()]
    assert len(told) == 1, ran.text[-2000:]
    assert "200 of 200 images of tiny-other are images of tiny" in told[0].read_text()
    assert "Traceback" not in told[0].read_text()


DRAWN = ("scratch/train/study.safetensors", f"{QUICK}/studies/study.safetensors")


@pytest.mark.parametrize("name", daily(DRAWN, DRAWN[:1]))
def test_no_attack_reads_what_a_training_study_drew(name: str, copied: Project) -> None:
    """Its clients' chance has no salt. What is left of it while it runs, and afterwards, is closed."""
    write_tensors(copied.path(name), {"images/0": np.zeros((3, 1), np.int64)}, {"split": "test"})
    drawn = str(copied.path(name).resolve())
    ran, out = cheated(copied, {"truth": drawn, "data": str(copied.path("data/tiny.safetensors").resolve())})
    assert ran.rc == 0, ran.text
    assert read_tensors(out)[0] == {}
    reason = read_facts(out)["absent"]
    assert "sees its observation and nothing else" in reason
    assert drawn in reason


def added(
    project: Project, module: str, rounds: int, *attacks: dict[str, Any], defences: Sequence[str] = ("none",),
    federation: str = "cheated",
) -> None:  # fmt: skip
    """Add a cheat as a user adds an attack, by files alone, and an experiment of that name.

    It has a cell of one client for each of `attacks` (entries of the catalogue, by their key `name`) beside
    the honest one, behind each defence.
    """
    shutil.copy(CHEATS / f"{module}.py", project.path("src/leakbench/attacks"))
    own = module.replace("_", "-")
    project.write(f"federations/{federation}", FEDERATION | {"clients": [1], "rounds": rounds})
    for entry in attacks:
        more = {key: value for key, value in entry.items() if key != "name"}
        project.write(
            f"attacks/{entry['name']}", {"summary": "x", "module": module, "matching": "best"} | more
        )
    names = ["fidel", *(entry["name"] for entry in attacks)]
    cells = {"dataset": ["tiny"], "victim": ["tiny"], "federation": [federation], "attack": names}
    cells["defence"] = [*defences]
    project.write(
        f"experiments/{own}", EXPERIMENT | {"cells": [cells], "metrics": ["pearson", "mse", "psnr"]}
    )


def lines(project: Project, experiment: str) -> pd.DataFrame:
    """Return an experiment's table by attack, baseline and metric."""
    found = pd.read_csv(project.path(f"{QUICK}/tables/{experiment}.csv"), keep_default_na=False)
    return found.set_index(["attack", "baseline", "metric"]).sort_index()


def two_faced(project: Project) -> None:
    """Add the cheat that is honest on the null run alone, and a claim that it succeeds."""
    added(project, "two_faced", 8, {"name": "two-faced"}, federation="two-faced")
    read = {"experiment": "two-faced", "metric": "pearson", "attack": "two-faced"}
    claim = {"id": "new.success", "item": "table-1", "claim": "It shows what is private.", "read": read,
             "quantity": "at()", "threshold": 0.6, "success": True}  # fmt: skip
    project.work("new", "id,source,table,attack,metric,value\n", read, [claim])


@pytest.fixture(scope="module")
def cheating(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project in which three cheats have run, each in an experiment of its own.

    What `relay` does to the undefended cell is done before its defended siblings run.
    """
    project = finished.copy(tmp_path_factory.mktemp("cheats"))
    behind = ("none", "gaussian", "laplacian")
    added(project, "relay", 4, {"name": "relay"}, defences=behind, federation="relay")
    project.write("scales/quick", {"summary": "x", "null_rounds": 2, "apart": ["tiny/*/relay/laplacian"]})
    added(project, "three_faced", 16, {"name": "three-faced"}, federation="three-faced")
    two_faced(project)
    cards = f"{QUICK}/scorecard.csv"
    for target in (f"{QUICK}/guesses/tiny/tiny/relay/none/relay/0.safetensors", cards):
        ran = project.snakemake(target)
        assert ran.rc == 0, ran.text[-3000:]
    return project


def test_honesty_on_the_null_run_alone_is_no_success(cheating: Project) -> None:
    """It beats every baseline that has a run of its own, and not what it made of another update."""
    table = lines(cheating, "two-faced").xs("two-faced").xs("pearson", level="metric")["mean"]
    assert table[["random-gradient", "random-noise", "dataset-mean"]].max() + 0.1 < table[""] > 0.7
    assert table["other-update"] == pytest.approx(table[""], abs=0.1)
    found = pd.read_csv(cheating.path(f"{QUICK}/scorecard.csv")).set_index("id").loc["new.success"]
    assert found["verdict"] == "inconclusive"
    assert "not surely better than the null baselines" in found["reason"]


@pytest.mark.nightly
def test_a_clients_noise_is_drawn_again_by_whoever_has_the_salt_and_by_no_attack(copied: Project) -> None:
    """Given the salt, which no attack can read, the cheat takes the noise off and undoes the defence.
    Without it nothing is better than the honest attack."""
    known = {"dataset": "tiny", "federation": "cheated", "scale": 0.1}
    salt = yaml.safe_load(copied.path("config/salt.yaml").read_text())["salt"]
    cheats = [
        {"name": name, "parameters": known | more}
        for name, more in (("guessed", {}), ("told", {"salt": salt}))
    ]
    added(copied, "unnoise", 8, *cheats, defences=("gaussian",))
    ran = copied.snakemake(f"{QUICK}/tables/unnoise.csv")
    assert ran.rc == 0, ran.text[-3000:]
    found = lines(copied, "unnoise").xs("", level="baseline").xs("pearson", level="metric")["mean"]
    assert found["told"] > 0.99
    assert found["guessed"] < found["fidel"] + 0.05 < 0.5


def test_files_in_the_rooms_of_parts_run_in_no_process_that_did_not_ask_for_them(copied: Project) -> None:
    """The run has more jobs than the second process from which jobs are forked waits for."""
    text = "from pathlib import Path\nPath(__file__).with_suffix('.ran').write_text('')\n"
    for room in SIGNATURES:
        copied.path(f"src/leakbench/{place(room)}/marked.py").write_text(text)
    ran = copied.snakemake("--forceall")
    assert ran.rc == 0, ran.text[-3000:]
    assert len(ran.messages) > MANY
    assert not [*copied.path("src").rglob("*.ran")]


def test_a_defended_cell_does_not_get_what_a_sibling_left(cheating: Project) -> None:
    """The cheat leaves the images of the undefended cell in shared memory and in attributes of a source file.

    It runs to its end, since it catches each refusal, and has what the honest attack has.
    """
    table = pd.read_csv(cheating.path(f"{QUICK}/tables/relay.csv"), keep_default_na=False)
    table = table[(table["metric"] == "pearson") & (table["baseline"] == "")]
    found = table.set_index(["defence", "attack"])["mean"]
    assert found["none", "relay"] > 0.5
    for defence in ("gaussian", "laplacian"):
        assert found[defence, "relay"] == found[defence, "fidel"] < 0.5


def test_what_leaks_between_cells_shows_nothing_of_a_control_cell(cheating: Project) -> None:
    """Without a seal the cheat has the images of its sibling; the control cell's clients hold others."""
    images = pixels(read_tensors(cheating.path("data/tiny.safetensors"))[0]["test/images"])
    reached = []
    for defence in ("none", "gaussian", "laplacian"):
        place, out = f"tiny/tiny/relay/{defence}", cheating.path(f"{defence}.safetensors")
        spec = cheating.path(f"{QUICK}/specs/attack/{place}/relay/0.json")
        ran = unsealed(cheating, f"{QUICK}/captures/{place}/0.safetensors", spec, out)
        assert ran.rc == 0, ran.text
        truth, _ = read_tensors(cheating.path(f"{QUICK}/truth/{place}/0.safetensors"))
        private, guess = images[truth["images/0"][:, 0]], read_tensors(out)[0]["images"][:, 0]
        reached.append(np.abs(guess - private[:, None]).mean(axis=(2, 3, 4)).min(axis=1).mean())
    assert reached[0] == reached[1] < 0.01
    assert reached[2] > 0.1


def test_what_is_worse_in_the_first_rounds_is_no_success(cheating: Project) -> None:
    """The baseline of another update takes no round that an attack could foresee."""
    table = lines(cheating, "three-faced").xs("three-faced").xs("pearson", level="metric")["mean"]
    assert table[""] > 0.6
    assert table["other-update"] > table[""] - 0.3


def test_a_defence_cannot_write_another_truth(copied: Project) -> None:
    """The scorer draws the private images itself."""
    shutil.copy(CHEATS / "liar.py", copied.path("src/leakbench/defences"))
    copied.write("defences/liar", {"summary": "x", "module": "liar"})
    experiment = copied.entry("experiments/tiny")
    value = yaml.safe_load(experiment.read_text())
    value["cells"][0]["defence"] = ["none", "liar"]
    experiment.write_text(yaml.safe_dump(value))
    ran = copied.snakemake(f"{QUICK}/tables/tiny.csv")
    assert ran.rc != 0
    told = [log.read_text() for log in copied.path("logs").rglob("*.log")]
    assert len([text for text in told if "its private samples are not those" in text]) == 1, ran.text[-2000:]
    assert not copied.path(f"{QUICK}/scores/{CELL.replace('/none', '/liar')}/0.parquet").exists()
