"""Section 3.3.4 of Ren's thesis: numbers on VGG-Face alone, claims on ORL where it is not to be had."""

import grnn_world as world
import pandas as pd
import pytest

from leakbench.scorecard.grnn import findings
from leakbench.scorecard.grnn_faces import CLAIMS, NUMBERS
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard

NAME = "thesis-table-3-15"
ABSENT = {
    NAME: {
        f"vgg-face-32/lenet-dlg/grnn-faces/none/{attack}/0": "vgg-face-32 is not to be had"
        for attack in ("dlg", "grnn")
    },
    f"{NAME}-batches": {"every cell": "needs paper scale"},
}


def card(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    found = findings(tables, world.facts(), ABSENT)
    return scorecard(read_published(world.PUBLISHED), found).set_index("id")


def on_orl() -> dict[str, pd.DataFrame]:
    tables = world.tables()
    del tables[f"{NAME}-batches"]
    return tables | {NAME: tables[NAME][tables[NAME]["dataset"] == "orl-32"]}


def test_every_published_row_of_the_section_has_a_finding() -> None:
    frame = read_published(world.PUBLISHED)
    rows = frame[frame["item"].isin(["table-3.14", "table-3.15", "text-3.3.4", "doubt-18"])]
    assert set(rows["id"]) == NUMBERS.keys() | CLAIMS.keys()


def test_numbers_are_read_in_percent_where_they_were_printed() -> None:
    found = card(world.tables())
    rows = found.loc[[f"thesis.table-3-15.{place}" for place in range(1, 33)]]
    assert (rows["verdict"] == "reproduced").all()
    assert rows["measured"].astype(float).tolist() == pytest.approx(rows["published"].astype(float).tolist())
    assert found.loc["thesis.text-3-3-4.1", "measured"] == "+5.52/+29.22/+36.54"
    assert found.loc["thesis.text-3-3-4.2", "verdict"] == "reproduced"


def test_without_vgg_face_numbers_are_not_run_and_claims_are_judged_on_orl() -> None:
    found = card(on_orl())
    numbers = found.loc[list(NUMBERS)]
    assert (numbers["verdict"] == "not-run").all()
    assert "vgg-face-32 is not to be had" in found.loc["thesis.table-3-15.1", "reason"]
    assert "needs paper scale" in found.loc["thesis.table-3-15.13", "reason"]
    claims = found.loc[list(CLAIMS)]
    assert claims["verdict"].tolist() == ["reproduced", "differs"]
    assert claims["reason"].str.contains("orl-32 stands in for vgg-face-32").all()
    assert claims["measured"].astype(float).tolist() == pytest.approx([20, 20])


def test_the_ordering_makes_a_direction_of_a_number_that_is_off() -> None:
    tables = world.tables()
    table = tables[NAME]
    chosen = (table["dataset"] == "vgg-face-32") & (table["attack"] == "grnn") & (table["baseline"] == "")
    chosen &= (table["metric"] == "top3_resnet18") & (table["local_samples"] == 1)
    for value, verdict in ((0.6, "direction"), (0.3, "differs")):
        table.loc[chosen, ["mean", "ci_low", "ci_high"]] = value
        assert card(tables).loc["thesis.table-3-15.8", "verdict"] == verdict


def test_a_few_images_decide_nothing() -> None:
    tables = on_orl()
    tables[NAME] = tables[NAME].assign(n=2)
    claims = card(tables).loc[list(CLAIMS)]
    assert (claims["verdict"] == "not-run").all()
    assert claims["reason"].str.contains("a share of 2 images").all()
