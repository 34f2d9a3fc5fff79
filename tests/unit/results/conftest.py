"""Small inputs of the report page, and the way to the helper that loads it in a browser."""

import io
import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
import yaml

from leakbench.results.report.section import Section

# tests/chromium.py is shared with the pipeline's tests, which live in another folder.
sys.path.insert(0, str(Path(__file__).parents[2]))

matplotlib.use("Agg")

COLUMNS = [
    "id", "work", "class", "item", "condition", "metric", "convention", "published", "measured",
    "ci_low", "ci_high", "n", "verdict", "reason", "scale", "device", "commit", "here", "here_n", "agrees",
    "seeds", "headline", "kind", "examined",
]  # fmt: skip


@pytest.fixture
def card() -> pd.DataFrame:
    """A scorecard as read from CSV without type guessing (card.yaml)."""
    rows = yaml.safe_load(Path(__file__).with_name("card.yaml").read_text())
    return pd.DataFrame(rows, columns=COLUMNS).fillna("")


def results(sizes: tuple[int, ...] = (1, 30)) -> pd.DataFrame:
    """A result table: two victims, one null baseline, two metrics."""
    cases = itertools.product(
        ("fcnn-relu", "fcnn-sigmoid"), enumerate(sizes), (("", 0.7), ("random-gradient", 0.0)),
        (("pearson", "image"), ("revealed", "update")),
    )  # fmt: skip
    return pd.DataFrame([
        {
            "dataset": "mnist", "victim": victim, "federation": "reveal", "defence": "none",
            "attack": "fidel", "checkpoint": 30, "client": client, "local_samples": k,
            "baseline": baseline, "metric": metric, "convention": "standard", "mean": share * k,
            "median": share * k, "q25": share * k, "q75": share * k, "ci_low": share * k - 0.1,
            "ci_high": share * k + 0.1, "n": 20 if baseline else 200, "failure_rate": 0.25, "unit": unit,
            "seeds": "0 1", "scale": "quick",
        }
        for victim, (client, k), (baseline, share), (metric, unit) in cases
    ])  # fmt: skip


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
