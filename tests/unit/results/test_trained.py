"""The table of training studies, and failures and bounds in tables."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakbench.base.errors import UserError
from leakbench.metrics.baselines import CERTIFIED
from leakbench.results.tables.drawn import boundaries, examples
from leakbench.results.tables.failures import failed
from leakbench.results.tables.lines import TRIAL
from leakbench.results.tables.of_attacks import check_bounds
from leakbench.results.tables.trained import aggregate_studies, over_short_batches

FACTS = {
    "selected": 2, "rounds": 2, "images": 160, "test_images": 100, "batch_size": 64, "lock_share": 0.6,
    "lock_share_parameters": 0.7, "upload_bytes": 10, "seconds_per_round": 1.5, "selected_round": 2,
}  # fmt: skip


NAMES = {"dataset": "d", "victim": "v", "training": "t", "defence": "key-lock"}
# Client, key and share of right answers.
RIGHT = [(0, "own", 0.5), (0, "other", 0.3), (1, "own", 0.7), (1, "other", 0.5), (-1, "random", 0.1)]


def study(
    shift: float = 0.0, seed: int = 0, tested: str = "d", filtered: float = float("nan")
) -> tuple[pd.DataFrame, dict[str, Any]]:
    rows = []
    for turn in (1, 2):
        for client, key, right in RIGHT:
            rows.append({
                "round": turn, "client": client, "key": key, "test_accuracy": right + 0.1 * turn + shift,
                "validation_accuracy": right, "tested": tested, "filtered_accuracy": filtered * right,
                "test_loss": 1.0, "validation_loss": 1.0, "training_loss": 2.0,
            })  # fmt: skip
    return pd.DataFrame(rows).assign(**NAMES, seed=seed), FACTS


def line(table: pd.DataFrame, metric: str, **where: Any) -> pd.Series:
    where = {"baseline": "", "convention": "standard", "key": "own", "client": None} | where
    for column, wanted in where.items():
        table = table[table[column].isna() if wanted is None else table[column] == wanted]
    found = table[table["metric"] == metric]
    assert len(found) == 1, found
    return found.iloc[0]


def test_the_selected_round_counts_and_clients_are_averaged() -> None:
    table, _ = aggregate_studies([study()], "quick")
    wheres: list[dict[str, Any]] = [{}, {"client": 0}, {"key": "other"}, {"key": "random"}]
    means = [line(table, "accuracy", **where)["mean"] for where in wheres]
    assert means == pytest.approx([0.8, 0.7, 0.6, 0.3])
    assert line(table, "gap_to_random")["mean"] == pytest.approx(0.5)
    assert line(table, "lock_share", key="")["mean"] == 0.6
    first = line(table, "accuracy", baseline="snapshot", round=1)
    assert (first["mean"], first["rounds"], first["images"]) == (pytest.approx(0.7), 2, 160)


def test_several_seeds_have_an_interval_and_a_deviation() -> None:
    table, _ = aggregate_studies([study(seed=0), study(0.1, seed=1), study(0.05, seed=2)], "quick")
    found = line(table, "accuracy")
    assert (found["n"], found["seeds"], found["unit"]) == (3, "0 1 2", "run")
    assert found["mean"] == pytest.approx(0.85)
    assert found["std"] == pytest.approx(0.0408, abs=1e-4)
    assert found["ci_low"] < found["mean"] < found["ci_high"]


def test_the_thesis_counts_a_short_batch_as_a_whole_one() -> None:
    assert over_short_batches(10_000, 64) == pytest.approx(0.9952, abs=1e-4)
    assert over_short_batches(128, 64) == 1
    table, _ = aggregate_studies([study()], "quick")
    ratio = line(table, "accuracy", convention="published")["mean"] / line(table, "accuracy")["mean"]
    assert ratio == pytest.approx(100 / 128)


def by_rule() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a study whose rows also say what two clients weighed in each round."""
    rows, facts = study()
    shares = [(1, 0, 0.1), (1, 1, 0.9), (2, 0, 0.2), (2, 1, 0.8)]
    own = pd.DataFrame(shares, columns=["round", "client", "weight"])
    own = own.assign(key="client", cross_loss=0.5, training_loss=0.25, **NAMES, seed=0)
    return pd.concat([rows, own]).assign(cross_accuracy=float("nan")), facts | {"epsilon": 1.5, "delta": 1e-5}


def test_what_clients_weighed_is_in_the_table_for_every_round_and_changes_nothing_else() -> None:
    table, _ = aggregate_studies([by_rule()], "quick")
    weight = line(table, "weight", key="", client=1, baseline="snapshot", round=2)
    assert weight["mean"] == pytest.approx(0.8)
    assert line(table, "training_loss", key="", client=0, baseline="snapshot", round=1)["mean"] == 0.25
    assert not (table["metric"] == "cross_accuracy").any()
    assert line(table, "epsilon", key="")["mean"] == 1.5
    plain, _ = aggregate_studies([study()], "quick")
    rest = table[~table["metric"].isin(["weight", "cross_loss", "epsilon", "delta"])]
    rest = rest[~((rest["key"] == "") & (rest["metric"] == "training_loss"))]
    pd.testing.assert_frame_equal(rest.reset_index(drop=True), plain.reset_index(drop=True))


def test_boundaries_are_tensors_with_what_they_are() -> None:
    rows, facts = study()
    drawn = {
        "surface": [[0.1, 0.9], [0.2, 0.8]], "extent": [0, 1, 0, 1],
        "points": {"clients": [[[0.5, 0.5, 1]], [[0.1, 0.2, 0]]], "test": [[0.3, 0.3, 1]]},
    }  # fmt: skip
    tensors, about = boundaries([(rows, facts), (rows, facts | {"boundary": drawn})])
    assert sorted(tensors) == ["0/points/0", "0/points/1", "0/points/test", "0/surface"]
    assert tensors["0/surface"].ravel().tolist() == pytest.approx([0.1, 0.9, 0.2, 0.8])
    assert (about[0]["training"], about[0]["clients"], about[0]["extent"]) == ("t", 2, [0, 1, 0, 1])
    assert (about[0]["round"], about[0]["apart"]) == (2, None)
    assert about[0]["accuracy"] == pytest.approx(rows[rows["round"] == 2]["test_accuracy"].mean())


def test_boundaries_are_compared_with_centralised_training() -> None:
    rows, facts = study()
    points = {"clients": [[[0.5, 0.5, 1]]], "test": [[0.3, 0.3, 1]]}
    surfaces = [[0.1, 0.9], [0.2, 0.8]], [[0.1, 0.9], [0.7, 0.8]]
    drawn = [{"surface": each, "extent": [0, 1, 0, 1], "points": points} for each in surfaces]
    drawn[1]["points"] = points | {"clients": points["clients"] * 2}
    alone, two = (facts | {"boundary": each} for each in drawn)
    _, about = boundaries([(rows, two), (rows, alone)])
    assert [each["apart"] for each in about] == [0.25, 0]


def test_words_read_are_spelt_and_their_pictures_kept_once() -> None:
    rows, facts = study()
    shown = {"words": [[17, 10, -1]], "read": [[17, -1, -1]], "pictures": [[[0, 255], [9, 9]]]}
    tensors, about = examples([(rows, facts | {"examples": {"svt": shown}})] * 2)
    assert {name: value.tolist() for name, value in tensors.items()} == {"words/svt": shown["pictures"]}
    assert [(each["tested"], each["words"], each["read"], each["round"]) for each in about] == [
        ("svt", ["HA"], ["H"], 2)
    ] * 2


def test_each_test_set_has_its_lines_and_training_is_reported_once() -> None:
    own, facts = study()
    rows = pd.concat([own, study(0.05, tested="other")[0]], ignore_index=True)
    table, _ = aggregate_studies([(rows, facts)], "quick")
    assert line(table, "accuracy", tested="d")["mean"] == pytest.approx(0.8)
    assert line(table, "accuracy", tested="other")["mean"] == pytest.approx(0.85)
    assert line(table, "gap_to_random", tested="other")["mean"] == pytest.approx(0.5)
    first = line(table, "accuracy", tested="other", baseline="snapshot", round=1)
    assert first["mean"] == pytest.approx(0.75)
    assert line(table, "training_loss", client=1)["tested"] == ""
    assert line(table, "validation_accuracy", baseline="snapshot", round=2)["mean"] == pytest.approx(0.6)
    assert line(table, "lock_share", key="")["tested"] == ""


def test_of_words_the_published_convention_is_those_that_the_thesis_tests_on() -> None:
    own, facts = study(filtered=1.2)
    # Of this set the rule counts no word.
    rows = pd.concat([own, study(tested="narrow")[0]], ignore_index=True)
    table, _ = aggregate_studies([(rows, facts)], "quick")
    found = line(table, "accuracy", convention="published", tested="d")
    assert found["mean"] == pytest.approx(1.2 * 0.6)
    assert line(table, "accuracy", tested="d")["mean"] == pytest.approx(0.8)
    none = line(table, "accuracy", convention="published", tested="narrow")
    assert none["mean"] != none["mean"]


def test_the_trials_of_a_line_are_its_seeds() -> None:
    table, trials = aggregate_studies([study(seed=0), study(0.1, seed=1)], "quick")
    condition = [name for name in trials if name not in TRIAL]
    found = line(table, "accuracy")
    where = pd.DataFrame([found[condition]]).astype({"client": float, "round": float})
    own = trials.merge(where, on=condition)
    assert own["trial"].tolist() == own["cluster"].tolist() == ["0", "1"]
    assert own["value"].tolist() == pytest.approx([0.8, 0.9])
    assert len(trials) == table["n"].sum()
    assert set(trials["baseline"]) == {"", "snapshot"}


Line = tuple[str, int, float]
MEANS: list[Line] = [("dataset-mean", 1, 0.2), ("dataset-mean", 2, 0.4)]


def rows(lines: list[Line], **columns: Any) -> pd.DataFrame:
    """Return score rows of one cell: (baseline, image, mse)."""
    frame = pd.DataFrame(lines, columns=["baseline", "image", "mse"])
    return frame.assign(**{"client": 0, "status": "ok"} | columns)


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        # Each image is compared with the mean image for the same private image.
        ([("", 1, 0.3), ("", 2, 0.3), ("", 1, 0.1), ("", 2, 0.4)], [True, False, False, True]),
        # Where the mean was not scored for an image, with the mean of those scores.
        ([("", 7, 0.29), ("", 7, 0.31)], [False, True]),
        # What is on the way may fail, and a null baseline may not.
        ([("snapshot", 1, 0.3), ("random-noise", 1, 0.9), ("random-gradient", 1, 0.9)], [True, False, False]),
        # An image that cannot be displayed.
        ([("", 1, np.nan)], [True]),
    ],
)
def test_an_image_is_compared_with_the_mean_image(lines: list[Line], lost: list[bool]) -> None:
    assert failed(rows([*lines, *MEANS]), "images").tolist() == [*lost, False, False]


def test_the_same_number_of_another_client_is_another_image() -> None:
    scored = rows([("", 1, 0.3), ("dataset-mean", 1, 0.2), ("dataset-mean", 1, 0.4)], client=[1, 0, 1])
    assert failed(scored, "images").tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("metric", "good", "bad"), [("psnr", 20.0, 10.0), ("ssim", 0.5, 0.1), ("pearson", 0.9, 0.3)]
)
def test_without_an_mse_the_next_measure_decides(metric: str, good: float, bad: float) -> None:
    scored = rows([("", 1, good), ("", 1, bad), ("dataset-mean", 1, bad)]).rename(columns={"mse": metric})
    assert failed(scored, "images").tolist() == [False, True, False]
    # A column that another attack on the capture asked for says nothing of this one.
    assert failed(scored.assign(mse=np.nan), "images").tolist() == [False, True, False]


def test_features_fail_only_where_nothing_came() -> None:
    scored = rows([("", 1, 0.9), ("", 2, 0.1), *MEANS], status=["ok", "diverged", "ok", "ok"])
    assert failed(scored, "features").tolist() == [False, True, False, False]
    assert failed(scored, "images").tolist() == [True, True, False, False]


def table(low: float, **others: Any) -> pd.DataFrame:
    """Return a rate of 0.6 with a certified bound of 0.5, and a rate without a bound."""
    line = {
        "dataset": "d", "victim": "v", "federation": "f", "defence": "dp-sgd", "attack": "alignment",
        "client": 0, "metric": "tpr_at_fpr_0", "unit": "update", "seeds": "0", "scale": "quick",
    }  # fmt: skip
    own = {"baseline": "", "mean": 0.6, "ci_low": low, "ci_high": 0.65, "n": 200}
    other = {"baseline": CERTIFIED, "mean": 0.5, "n": 1}
    unbounded = {"metric": "members_accepted", "mean": 1.0, "ci_low": 1.0, "ci_high": 1.0}
    return pd.DataFrame([line | own, line | other, line | own | unbounded]).assign(**others)


def test_an_interval_above_the_bound_of_its_own_cell_is_an_error_that_names_the_cell() -> None:
    named = r"d/v/f/dp-sgd/alignment: tpr_at_fpr_0: measured 0\.6, interval 0\.55"
    with pytest.raises(UserError, match=named):
        check_bounds(table(0.55))
    check_bounds(table(0.5))
    check_bounds(table(float("nan")))
    # A bound on another attack bounds nothing here, and most tables have none.
    check_bounds(table(0.55, attack=["one", "other", "one"]))
    check_bounds(table(0.55, baseline=""))
