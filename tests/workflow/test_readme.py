"""The commands of README.md and docs/: each runs where it takes minutes, or can be planned."""

import contextlib
import copy
import itertools
import re
import shlex
import shutil
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from nightly import daily
from project import ROOT, Project, bare_project
from torch import Tensor, nn

from leakbench.networks import victims

# In a line of its own, indented, or between backticks. A comment or another command ends it.
START = r"(?:^ {4,}|`)(%s\b[^`#|&;\n]*)"
SNAKEMAKE, OTHERS = "snakemake(?![-.])", "(?:leakbench|dvc|make|python -m (?:leakbench|bench)) "
# Which test runs, or why none does, what begins with these words.
ELSEWHERE = {
    "dvc ": "workflow/test_dvc.py", "leakbench audit rounds/": "flower/test_flower.py",
    "leakbench capture --from-flower": "flower/test_flower.py", "leakbench check": "workflow/test_dvc.py",
    "leakbench compare": "unit/jobs/test_record_seeds.py", "leakbench enter": "workflow/test_enter.py",
    "leakbench fetch-records": "unit/jobs/test_archive.py",
    "leakbench record ": "unit/jobs/test_record_seeds.py", "leakbench campaign": "workflow/test_campaign.py",
    "bench": "unit/test_bench.py",
}  # fmt: skip


@cache
def shown(file: Path, begin: str = SNAKEMAKE) -> list[list[str]]:
    """Return the words of each command of a page, with its braces expanded.

    A command with a place for the reader to fill in is left out.
    """
    command = re.compile(START % begin, re.MULTILINE)
    found = (
        text.strip()
        for text in command.findall(file.read_text())
        if not re.search(r"[<>…]|\b[A-Z]+\b(?!=)", text)
    )
    script = "\n".join(f"printf '%s\\n' {text}; printf '\\0'" for text in dict.fromkeys(found))
    told = subprocess.check_output(["bash", "-c", script], text=True)
    return [words.splitlines() for words in told.split("\0")[:-1]]


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = [
    pytest.param(words, id=f"{page.stem}: {shlex.join(words)}") for page in PAGES for words in shown(page)
]

PARTS = 6
# What the quick scale computes for one figure takes seconds to minutes. Guides write what is OWN.
QUICK = re.compile(r"snakemake --cores 2 (-n )?(results/quick/\S+ ?)+(--config only=first-leak)?$")
OWN = ("own-matrix", "first-leak")
SHOWN = dict.fromkeys(shlex.join(words) for page in PAGES for words in (*shown(page), *shown(page, OTHERS)))


def short(text: str) -> bool:
    """Return whether a command takes less than five minutes and no other test runs it.

    `leakbench audit` alone names the command, as `leakbench new` does.
    """
    if text.startswith(("snakemake", "make ")):
        return bool(QUICK.match(text)) and OWN[0] not in text
    words = text.removeprefix("python -m ")
    return words not in ("leakbench audit", "leakbench new") and not words.startswith(tuple(ELSEWHERE))


@pytest.mark.parametrize("words", COMMANDS)
def test_config_comes_last_and_published_sizes_are_run_for_a_named_result_alone(words: list[str]) -> None:
    # It takes every word behind it.
    behind = words[words.index("--config") + 1 :] if "--config" in words else []
    assert all("=" in word for word in behind)
    # All of these sizes take 170,000 hours of a core.
    assert "scale=paper" not in words or any(word.startswith("results/paper/") for word in words)


@pytest.mark.parametrize("part", daily(range(PARTS), [1]))
def test_every_command_of_the_readme_is_planned(part: int, everything: Project) -> None:
    """Commands that differ in their targets alone are planned as one, and a part of them by day."""

    def options(words: list[str]) -> list[str]:
        return [word for word in words if not word.startswith("results/")]

    everything.environment["HOME"] = str(everything.root)
    # What touches or cleans makes no plan, and test_module.py plans beside a stand-in of apptainer.
    left_out = {"--touch", "--unlock", "--delete-temp-output", "profiles/container"}
    planned = [
        words
        for page in PAGES
        for words in shown(page)
        if not left_out & {*words} and not any(own in word for own in OWN for word in words)
    ]
    kinds = [
        (command, [*alike]) for command, alike in itertools.groupby(sorted(planned, key=options), options)
    ]
    assert len(kinds) >= PARTS
    for command, alike in kinds[part::PARTS]:
        targets = [word for words in alike for word in words if word.startswith("results/")]
        place = command.index("--config") if "--config" in command else len(command)
        ran = everything.run(*command[:place], "-n", *targets, *command[place:])
        assert ran.rc == 0, f"{command}: {ran.text[-2000:]}"


@pytest.mark.parametrize(
    "command", [text for text in SHOWN if text.startswith("make ") and "kills" not in text]
)
def test_a_target_of_make_is_there(command: str) -> None:
    """That of kills, which clones first, is test_campaign.py's."""
    made = subprocess.run([*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_what_runs_elsewhere_does() -> None:
    assert not [file for file in ELSEWHERE.values() if not (ROOT / "tests" / file).is_file()]
    assert sum(map(short, SHOWN)) > 25


def trained(model: nn.Module, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Return a model's state after one step on a batch."""
    own = copy.deepcopy(model)
    nn.functional.cross_entropy(own(images), labels).backward()
    torch.optim.SGD(own.parameters(), lr=0.1).step()
    return own.state_dict()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return this repository's own catalogue with the data of a run, and the files that the guides write."""
    if not (ROOT / "data/cifar10.safetensors").is_file():
        pytest.skip("run make reproduce first")
    root = bare_project(tmp_path_factory.mktemp("checkout"), experiments=True)
    for name in ("data", "docs"):
        shutil.copytree(ROOT / name, root / name)
    (root / "papers/own/experiments").mkdir(parents=True)
    shutil.copy(ROOT / "docs/first-leak.yaml", root / "papers/own/experiments")
    shutil.copy(ROOT / "CITATION.cff", root)
    audit, observation = ((ROOT / f"docs/{page}.md").read_text() for page in ("audit", "observation"))
    own = textwrap.dedent(re.findall(r"(?:^ {8}.*\n|^\n(?= {8}))+", audit, re.MULTILINE)[1])
    (root / "my_app.py").write_text(own + "\ndef net():\n    return client()[0]\n")
    images, labels = torch.rand(200, 1, 28, 28), torch.arange(200) % 10
    torch.save((images, labels), root / "batch.pt")
    names: dict[str, Any] = {}
    with contextlib.chdir(root):
        exec(own, names)
        model, *_ = names["client"]()
    torch.save(model.state_dict(), root / "before.pt")
    torch.save(trained(model, images[:16], labels[:16]), root / "after.pt")
    writes, spec = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", observation, re.MULTILINE)[:2]
    (root / "attack.json").write_text(spec.rpartition("leakbench attack")[0])
    fcnn = victims.build("fcnn", (28, 28, 1), 10, {})
    clients = [trained(fcnn, images[k:4], labels[k:4]) for k in (3, 1)]
    names = {"rounds": 1, "sent": {name: value.numpy() for name, value in fcnn.state_dict().items()}}
    names["trained"] = [name for name, _ in fcnn.named_parameters()]
    names["returned"] = {name: np.stack([one[name] for one in clients])[None] for name in names["sent"]}
    with contextlib.chdir(root):
        exec(textwrap.dedent(writes), names)
    return Project(root, None)


@pytest.mark.nightly
@pytest.mark.parametrize("command", sorted(filter(short, SHOWN), key=lambda text: " new " in text))
def test_a_command_of_less_than_five_minutes_runs(command: str, checkout: Project) -> None:
    ran = checkout.run(*shlex.split(command), timeout=1200)
    assert ran.rc == 0, ran.text[-3000:]
