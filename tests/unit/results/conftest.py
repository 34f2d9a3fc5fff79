"""Small inputs of the report page, and the way to the helper that loads it in a browser."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

from leakbench.results.report import Section

# tests/chromium.py is shared with the pipeline's tests, which live in another folder.
sys.path.insert(0, str(Path(__file__).parents[2]))

matplotlib.use("Agg")

COLUMNS = [
    "id", "work", "class", "item", "condition", "metric", "convention", "published", "measured",
    "ci_low", "ci_high", "n", "verdict", "reason", "scale", "device", "commit", "here", "here_n", "agrees",
    "seeds", "headline", "examined",
]  # fmt: skip


@pytest.fixture
def card() -> pd.DataFrame:
    """A scorecard as read from CSV without type guessing: every verdict, three sources."""
    here = ("quick", "cpu", "abc", "", "", "", "0", "")
    nothing = ("",) * 8
    rows = [
        ("fidel.text.1", "fidel", "result", "fig-13", "model=FCNN", "fully_revealed_mean", "standard",
         "20", "21.495", "21.2", "21.8", "200", "direction", "20 lies outside the interval",
         *here[:-1], "Fidel reads 21.5 of 30 digits."),
        ("fidel.fig-13.a", "fidel", "result", "fig-13", "a check", "claim", "",
         "ReLU reveals more.", "12.3", "11", "13", "200",
         "reproduced", "> 0 through the whole interval", *here),
        ("fidel.doubt.b", "fidel", "result", "doubt-1", "see experiment fidel-figure-5", "claim", "",
         "A doubt.", "1", "1", "1", "10", "differs", "not < 1", "paper", "cpu", "abc", "1.5", "2", "no",
         "0", ""),
        ("fidel.fig-9.c", "fidel", "result", "fig-9", "a check", "claim", "",
         "Isolates.", "", "", "", "", "not-run", "not implemented", *nothing),
        ("fidel.lr", "fidel", "setting", "table-1", "", "lr", "",
         "0.1", "0.1", "", "", "", "reproduced", "the same", *here),
        ("agic.1", "agic", "result", "table-1", "data=CIFAR-10", "psnr", "standard",
         "31.3", "", "", "", "", "not-run", "data set cifar100 is not here", *nothing),
        ("agic.2", "agic", "result", "table-1", "data=CIFAR-10", "psnr", "standard",
         "31.3", "12", "", "", "2", "inconclusive", "2 independent trials", *here),
        ("other.1", "elsewhere", "result", "x", "", "psnr", "standard",
         "1", "", "", "", "", "not-run", "not implemented", *nothing),
    ]  # fmt: skip
    found = pd.DataFrame(rows, columns=COLUMNS[:-1])
    found = found.assign(kind=found["id"].map({"fidel.fig-13.a": "success"}).fillna(""))
    return found.assign(examined=found["verdict"].map({"differs": "Hypothesis: a doubt."}).fillna(""))


def results(sizes: tuple[int, ...] = (1, 30)) -> pd.DataFrame:
    """A result table: two victims, one null baseline, two metrics."""
    rows = []
    for victim in ("fcnn-relu", "fcnn-sigmoid"):
        for client, k in enumerate(sizes):
            for baseline, mean in (("", 0.7 * k), ("random-gradient", 0.0)):
                for metric, unit in (("pearson", "image"), ("revealed", "update")):
                    rows.append(
                        {
                            "dataset": "mnist", "victim": victim, "federation": "reveal", "defence": "none",
                            "attack": "fidel", "checkpoint": 30, "client": client, "local_samples": k,
                            "baseline": baseline, "metric": metric, "convention": "standard", "mean": mean,
                            "median": mean, "q25": mean, "q75": mean, "ci_low": mean - 0.1,
                            "ci_high": mean + 0.1,
                            "n": 20 if baseline else 200, "failure_rate": 0.25, "unit": unit, "seeds": "0 1",
                            "scale": "quick",
                        }
                    )  # fmt: skip
    return pd.DataFrame(rows)


def png() -> bytes:
    """A wide PNG, wider than any phone."""
    from matplotlib.image import imsave

    out = io.BytesIO()
    imsave(out, np.random.default_rng(0).random((600, 1500)), format="png")
    return out.getvalue()


@pytest.fixture
def section() -> Callable[..., Section]:
    """Make a section; keyword arguments replace its fields."""

    def make(**fields: object) -> Section:
        known: dict[str, object] = {
            "name": "fidel-figure-13", "work": "fidel", "item": "fig-13", "title": "Revealed samples",
            "shows": "ReLU reveals most.", "figure": png(), "table": results(),
            "knows": {
                "mnist/a": {"labels": "not needed", "threat model": "honest-but-curious server",
                "defence": "none"},
                "mnist/b": {"labels": "not needed", "threat model": "honest-but-curious server",
                "defence": "noise"},
            },
            "table_file": "tables/fidel-figure-13.csv", "trials_file": "trials/fidel-figure-13.parquet",
            "commit": "abc1234", "command": "snakemake --cores 2 results/quick/figures/fidel-figure-13.png",
        }  # fmt: skip
        return Section(**(known | fields))  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    import chromium

    with chromium.browser() as started:
        yield started
