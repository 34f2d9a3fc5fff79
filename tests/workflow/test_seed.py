"""`--config seed=K`: the whole chain with every seed raised by K, beside the finished run.

By day a plan shows what it changes (tests/unit/catalogue/test_resolve.py).
"""

import json
from pathlib import Path

import pandas as pd
import pytest
from project import Project

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def both(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a copy of the finished project that has also run with seed=1, with nothing else changed."""
    project = finished.copy(tmp_path_factory.mktemp("seeds"))
    ran = project.snakemake("--config", "seed=1")
    assert ran.rc == 0, ran.text[-3000:]
    return project


def files(root: Path, run: str) -> dict[str, tuple[int, bytes]]:
    """Return every file of a run below results/ and logs/: its time and bytes.

    The lock on the specs is left out: whichever plan looks at the run last writes it.
    """
    paths = [path for top in ("results", "logs") for path in (root / top / run).rglob("*")]
    paths = [path for path in paths if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


def test_another_seed_has_the_same_files_in_folders_of_its_own(both: Project) -> None:
    def named(run: str, seed: str) -> set[str]:
        paths = (path for top in ("results", "logs") for path in both.path(top).glob(f"{run}/**/*"))
        kept = (path.relative_to(both.root) for path in paths if path.is_file() and path.suffix != ".ipynb")
        return {
            f"{path.parent}/{'SEED' if path.stem == seed else path.stem}{path.suffix}".replace(
                f"/{run}", "/RUN"
            )
            for path in kept
            if path.parent.name != "code"
        }

    assert named("quick", "0") == named("quick-seed1", "1")
    assert both.path("results/quick-seed1/scorecard.csv").is_file()
    assert both.path("results/quick-seed1/report.html").is_file()


def test_the_finished_run_stays_as_it_was(both: Project, finished: Project) -> None:
    after, before = files(both.root, "quick"), files(finished.root, "quick")
    # The names alone: a difference of thousands of bytes would take pytest minutes to print.
    assert {name for name in before | after if before.get(name) != after.get(name)} == set()


def test_another_seed_gives_other_numbers_at_the_same_scale_compared_to_none(
    both: Project,
) -> None:
    own, other = (
        pd.read_csv(both.path(f"results/{run}/tables/tiny.csv"), keep_default_na=False)
        for run in ("quick", "quick-seed1")
    )
    assert len(own) == len(other)
    assert (set(own["seeds"]), set(other["seeds"])) == ({0}, {1})
    assert set(other["scale"]) == {"quick"}
    measured = own["metric"] == "mse"
    assert (own.loc[measured, "mean"] != other.loc[measured, "mean"]).any()
    summary = json.loads(both.path("results/quick-seed1/verified.json").read_text())
    assert summary["seed"] == 1
    assert summary["numbers"]["different"] == summary["numbers"]["missing"] == 0
    assert "every seed is raised by 1" in both.path("logs/quick-seed1/verify.log").read_text()
    assert "Every seed is raised by 1" in both.path("results/quick-seed1/report.html").read_text()
    assert "Nothing to be done" in both.snakemake("-n", "--config", "seed=1").text
