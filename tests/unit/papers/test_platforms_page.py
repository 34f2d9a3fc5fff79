"""The table of docs/platforms.md has the numbers of the recorded tables."""

import pandas as pd
import pytest
from project import ROOT

PAGE = (ROOT / "docs/platforms.md").read_text(encoding="utf-8")
# What a line of the page begins with → the defence of the catalogue, for attacks and for trainings.
LINES = {
    "| NVFlare, percentile": "nvflare-percentile",
    "| NVFlare, sparse": "nvflare-svt",
    "| NVFlare, normal": "nvflare-gaussian",
    "| Flower, local DP, with FLIP's": "flower-local-dp",
    "| Flower, SecAgg+": "flower-secagg-plus",
}
# What the second column of the page tells of each attack, in this order.
LEFT = {
    "peel": "exact", "fidel-denoised": "pearson", "membership-whitened": "membership_auc",
    "imprint-denoised": "pearson",
}  # fmt: skip
# Who ranks members better behind a defence.
BETTER = {("nvflare-svt", "membership-whitened"): "alignment"}


def recorded(name: str) -> pd.DataFrame:
    table = pd.read_csv(ROOT / f"reference/standard/{name}.csv", keep_default_na=False)
    return table[table["baseline"] == ""]


def words(row: pd.Series, digits: int = 2) -> str:
    """Return a number with its interval, as the page writes it."""
    mean, low, high = (f"{float(row[name]):.{digits}f}" for name in ("mean", "ci_low", "ci_high"))
    return f"{mean} ({low} to {high})"


@pytest.mark.parametrize(("start", "defence"), LINES.items())
def test_a_line_has_what_each_attack_left(start: str, defence: str) -> None:
    (line,) = [each for each in PAGE.splitlines() if each.startswith(start)]
    table = pd.concat([recorded("leakbench-platforms"), recorded("leakbench-platforms-adapted")])
    table = table[table["federation"] != "platforms-known-one"]
    for usual, metric in LEFT.items():
        attack = BETTER.get((defence, usual), usual)
        own = table[(table["defence"] == defence) & (table["attack"] == attack) & (table["metric"] == metric)]
        assert len(own) == 1
        assert words(own.iloc[0]) in line, attack
        assert int(own["n"].iloc[0]) >= 20


@pytest.mark.parametrize(
    ("start", "defence"), [*LINES.items(), ("| Flower, local DP, sensitivity 2", "flower-local-dp-whole")]
)
def test_a_line_has_its_price(start: str, defence: str) -> None:
    (line,) = [each for each in PAGE.splitlines() if each.startswith(start)]
    table = recorded("leakbench-platforms-price")
    trained = defence if defence != "flower-secagg-plus" else "flower-secagg-plus-alone"
    own = table[(table["defence"] == trained) & (table["metric"] == "accuracy") & (table["round"] == "")]
    assert words(own.iloc[0]) in line


def test_the_page_has_what_is_proven_and_certified_of_epsilon() -> None:
    table = pd.read_csv(ROOT / "reference/standard/leakbench-platforms-epsilon.csv", keep_default_na=False)
    table = table[table["metric"] == "epsilon_low"].set_index(["defence", "baseline"])["mean"].astype(float)
    assert f"{round(table['flower-local-dp', 'certified'], -1):,.0f}"[:7] in PAGE
    assert f"an attack proves {table['flower-local-dp', '']:.0f}" in PAGE
    assert f"| 10 | {table['flower-local-dp-whole', 'certified']:.1f} |" in PAGE
    assert table["flower-local-dp-whole", ""] == 0
