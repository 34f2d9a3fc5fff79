"""A network, a data set, a server, a defence and an attack are added by files of their own alone."""

import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
NAME = "added"
SERVER = '''"""A server that sends the model as it is."""

from torch import nn

from leakbench.federation.servers import Held, Written


def added(model: nn.Module, held: Held) -> Written:
    """Change nothing."""
    return Written()
'''
FEDERATION = {
    "summary": "One client.", "clients": [4], "rounds": 8, "local": {"lr": 0.1}, "update": "gradient",
    "private": {"split": "test", "start": 0, "stop": 100}, "malicious": NAME,
}  # fmt: skip
EXPERIMENT = {
    "item": NAME, "title": "Added", "shows": "Parts of a stranger.", "metrics": ["pearson"],
    "cells": [{
        "dataset": [NAME], "victim": [NAME], "federation": [NAME], "defence": [NAME, "none"],
        "attack": ["fidel", NAME],
    }],
    "figure": {"drawing": "dots", "metrics": ["pearson"], "y": ["defence"]},
}  # fmt: skip
# What a process of the copy says: the experiment's specs, its network's size, an attack's work, stale pages.
ASKED = """
import json
from pathlib import Path
from leakbench.catalogue import costs
from leakbench.catalogue.resolve import plan
from leakbench.jobs.manual import texts
root = Path.cwd()
found = plan(root, "paper", only=["added"])
size = costs.network(found.specs["train/added/added/0"]["victim"], [32, 32, 3])
stale = [name for name, text in texts(root).items() if text != (root / name).read_text()]
work = costs.works(found.specs, {})["attack/added/added/added/none/added/0"]
print(json.dumps([sorted(found.specs), size, work, stale]))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    unread = shutil.ignore_patterns("__pycache__")
    for folder in ("src", "config", "papers"):
        shutil.copytree(ROOT / folder, root / folder, ignore=unread)
    for file in ("CITATION.cff", "docs/catalogue.md"):
        (root / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    return root


def files(root: Path) -> dict[str, str]:
    """Return file → digest of all files that people write."""
    paths = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(root)): sha256(path.read_bytes()).hexdigest() for path in paths}


def python(root: Path, *words: str) -> str:
    within = os.environ | {"PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    asked = [sys.executable, *words]
    return subprocess.run(asked, cwd=root, env=within, check=True, capture_output=True, text=True).stdout


def test_parts_are_added_without_a_change_to_any_other_file(copy: Path) -> None:
    before = files(copy)
    for kind in ("victim", "dataset", "defence", "attack"):
        python(copy, "-m", "leakbench", "new", kind, NAME)
    attack = copy / "src/leakbench/attacks/added.py"
    attack.write_text(attack.read_text() + 'COST = {"products": "7 * samples", "calls": 3}\n')
    (copy / "src/leakbench/federation/servers/added.py").write_text(SERVER)
    written = {
        "config/servers/added.yaml": {"summary": "It changes nothing.", "threat": "F"},
        "config/federations/added.yaml": FEDERATION,
        "papers/leakbench/experiments/added.yaml": EXPERIMENT,
    }
    for path, text in written.items():
        (copy / path).write_text(yaml.safe_dump(text))
    specs, size, work, stale = json.loads(python(copy, "-c", ASKED))
    after = files(copy)
    assert {path: digest for path, digest in after.items() if path in before} == before
    # A source file and a YAML for each part, how a defence is known to an attacker, and who uses the parts.
    assert len(after) - len(before) == 5 * 2 + 1 + 2
    assert {f"attack/added/added/added/{defence}/fidel/0" for defence in (NAME, "none")} <= set(specs)
    assert f"fetch/{NAME}" in specs
    # Its file states no size: torch counts two products of 3,072 · 64 and 64 · 10.
    assert size == [0.197322, 0.394496, 2, True]
    # The attack's file states what it costs: an update is of four samples.
    assert work == [0, 28, 3, 0]
    assert stale == []
