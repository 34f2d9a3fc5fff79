"""The real warm process: the command line's own words, and a training's bytes."""

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from warm_runs import SOURCE, Run, alive, until

from leakbench.base.artefacts import read_facts, write_tensors
from leakbench.base.processes.process import OWNER


def test_a_users_mistake_reads_the_same(real: Run) -> None:
    words = ("fetch", "--spec", "no such spec.json", "--out", "x")
    cold, hot = real.leakbench(*words, **{OWNER: ""}), real.leakbench(*words)
    assert (hot.returncode, hot.stdout, hot.stderr) == (2, "", cold.stderr)
    assert cold.stderr.startswith("leakbench fetch: no such spec.json: no such spec")


@pytest.mark.parametrize("words", [("attack", "--help"), ("atack",), ("plan", "--scale")])
def test_help_and_wrong_command_lines_read_the_same(real: Run, words: tuple[str, ...]) -> None:
    cold, hot = real.leakbench(*words, **{OWNER: ""}), real.leakbench(*words)
    assert (hot.returncode, hot.stdout, hot.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def training(folder: Path) -> list[str]:
    """Write what a small training needs; return its words but for the output."""
    rng = np.random.default_rng(0)
    arrays = {
        "train/images": rng.integers(0, 256, (200, 8, 8, 1), dtype=np.uint8),
        "train/labels": np.arange(200) % 10,
    }
    write_tensors(folder / "data.safetensors", arrays, {"dataset": "made"})
    spec = {
        "victim": {
            "module": "fcnn",
            "parameters": {"dropout": 0.5},
            "training": {
                "optimiser": "adam", "lr": 0.01, "options": {}, "batch_size": 20, "epochs": 2,
                "checkpoints": [0, 2], "images": None, "settled": None,
            },
        },
        "dataset": {"name": "made", "shape": [8, 8, 1], "classes": 10},
        "seed": 0,
    }  # fmt: skip
    (folder / "spec.json").write_text(json.dumps(spec))
    return ["train", "--spec", str(folder / "spec.json"), "--data", str(folder / "data.safetensors"),
            "--root", str(folder)]  # fmt: skip


def test_a_warm_job_writes_the_bytes_of_a_cold_one(real: Run, tmp_path: Path) -> None:
    words = training(tmp_path)
    cold = real.leakbench(*words, "--out", str(tmp_path / "cold.safetensors"), **{OWNER: ""})
    assert (cold.returncode, cold.stdout) == (0, ""), cold.stderr
    # Where this torch comes first, a process that loads it anew fails.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise RuntimeError('loaded anew')")
    paths = f"{tmp_path / 'broken'}:{SOURCE}"
    hot = real.leakbench(*words, "--out", str(tmp_path / "hot.safetensors"), PYTHONPATH=paths)
    assert (hot.returncode, hot.stdout, hot.stderr) == (0, "", cold.stderr)
    assert (tmp_path / "hot.safetensors").read_bytes() == (tmp_path / "cold.safetensors").read_bytes()
    assert read_facts(tmp_path / "hot.safetensors")["checkpoints"] == [0, 2]
    again = real.leakbench(*words, "--out", str(tmp_path / "x"), PYTHONPATH=paths, **{OWNER: ""})
    assert "loaded anew" in again.stderr


def test_a_killed_warm_process_is_followed_by_another_which_goes_with_its_owner(real: Run) -> None:
    """The last of this file, since it ends the run."""
    first = real.peer()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    until(lambda: not alive(first))
    assert (real.folder / "socket").exists()
    cold = real.leakbench("fetch", "--spec", "no such spec.json", "--out", "x")
    assert cold.returncode == 2
    until(real.ready, 120)
    second = real.peer()
    assert second not in (None, first)
    real.owner.communicate(b"\n")
    until(lambda: not alive(second), 60)
    assert not real.folder.exists()
