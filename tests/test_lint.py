"""Style, types, import contracts and the workflow's form, by `make lint`.

It keeps one core busy for half a minute, and so runs beside the other tests.
"""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_lint_finds_nothing() -> None:
    own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "lint"], cwd=ROOT, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
