import copy

import agic_world as world
import pandas as pd
import pytest

from leakbench.scorecard.agic import findings
from leakbench.scorecard.published import read_published
from leakbench.scorecard.scorecard import scorecard

# What no table of ours can hold.
NEVER = {
    "agic.text-V-C.1", "agic.text-V-C.2", "agic.doubt-10.one-batch-trivial", "agic.table-7.6", "agic.table-7.14",
    "agic.table-7.22", *(f"agic.table-7.{row}" for row in range(25, 65)),
    *(f"agic.table-2.{row}" for first in (7, 16, 25, 34) for row in range(first, first + 3)),
}  # fmt: skip


def agic() -> pd.DataFrame:
    frame = read_published(world.PUBLISHED)
    return frame[frame["source"] == "agic"]


def card(tables, facts, absent=None) -> pd.DataFrame:
    return scorecard(agic(), findings(tables, facts, absent)).set_index("id")


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    return world.tables()


@pytest.fixture
def facts() -> dict:
    return world.facts()


@pytest.fixture(scope="module")
def held() -> pd.Series:
    """The verdicts of the world in which the paper holds."""
    return card(world.tables(), world.facts())["verdict"]


def test_every_agic_row_and_nothing_else_has_a_finding(tables, facts) -> None:
    assert set(findings(tables, facts)) == set(agic()["id"])
    assert set(findings({}, {})) == set(agic()["id"])


def test_a_world_in_which_the_paper_holds(held) -> None:
    # Our loop gives every attack local steps and the shared inference of labels.
    ours = {"agic.table-7.8": "differs", "agic.table-7.16": "differs", "agic.table-7.20": "differs"}
    assert held[held != "reproduced"].to_dict() == dict.fromkeys(NEVER, "not-run") | ours


def test_longer_runs_are_told_beside_ours_and_decide_nothing(tables, facts) -> None:
    rows = [
        world.row(
            "cifar10",
            "agic-gradient",
            f"{name}-single",
            "psnr",
            mean,
            iterations=4000,
            scale="long",
            device="x",
        )
        for name, mean in (("invg", 25.0), ("agic", 30.0))
    ]
    recorded = {"agic-iterations": pd.DataFrame(rows)}
    ours = card(tables, facts)
    both = scorecard(agic(), findings(tables, facts, None, recorded)).set_index("id")
    assert both["verdict"].equals(ours["verdict"])
    told = both["reason"][both["reason"] != ours["reason"]]
    published = agic().set_index("id").loc[told.index, ["item", "metric", "published"]].to_numpy().tolist()
    assert published == [["table-4", "psnr", "20.671"], ["table-4", "psnr", "31.341"]]
    for reason, mean in zip(told, (25, 30), strict=True):
        assert f"recorded at scale long, after 4,000 iterations: {mean} (" in reason


def test_recorded_readings_are_told_beside_agics_headline(tables, facts) -> None:
    rows = [
        world.row("cifar10", "agic-gradient-tuning", attack, "psnr", mean, victim=victim, scale="long", n=3)
        for attack, victim, mean in (
            ("invg", "resnet20-4", 19.0),
            ("agic-reading-no-box", "resnet20-4", 24.0),
            ("agic", "resnet20-4-batch-statistics", 15.0),
        )
    ]
    told = scorecard(agic(), findings(tables, facts, None, {"agic-readings": pd.DataFrame(rows)})).set_index(
        "id"
    )
    changed = told["reason"] != card(tables, facts)["reason"]
    assert agic().set_index("id").loc[told.index[changed], "published"].tolist() == ["31.341"]
    words = (
        "readings on 3 other images, recorded at scale long, in dB: "
        "no-box 24.0, invg 19.0, agic by batch statistics 15.0"
    )
    assert words in told["reason"][changed].item()


def test_without_tables_and_facts_everything_is_not_run_with_a_reason() -> None:
    got = card({}, {}, {"agic-table-1": {"every cell": "CIFAR-100 is not present"}})
    assert set(got["verdict"]) == {"not-run"}
    assert (got["reason"] != "").all()
    assert got.loc["agic.table-1.2", "reason"] == "CIFAR-100 is not present"
    assert got.loc["agic.table-4.7", "reason"] == "no results of experiment agic-table-4"
    assert got.loc["agic.table-7.9", "reason"] == "fact attacks is not known"
    assert got.loc["agic.table-7.25", "reason"] == "not implemented"
    assert got.loc["agic.table-2.34", "reason"] == "needs torchvision's pretrained ResNet-50 weights"


def test_a_data_set_that_is_absent_leaves_the_others(tables, facts) -> None:
    absent = {}
    for name in ("agic-table-1", "agic-table-4"):
        gone = tables[name].query("dataset != 'cifar10'")[["dataset", "victim", "federation", "attack"]]
        absent[name] = {"/".join(cell): f"no {cell[0]}" for cell in gone.itertuples(index=False)}
        tables[name] = tables[name].query("dataset == 'cifar10'")
    got = card(tables, facts, absent)
    assert got.loc["agic.table-1.1", "verdict"] == "reproduced"
    assert got.loc["agic.table-1.2", "reason"] == "no cifar100"
    assert got.loc["agic.table-1.linear-best", "verdict"] == "not-run"
    # The largest gain needs one cell; that all gains are positive needs every cell.
    assert got.loc["agic.text-abstract.gradient-gain", "verdict"] == "reproduced"
    assert got.loc["agic.table-4.batch-4", "reason"] == "no imagenet"


def changed(table: pd.DataFrame, add: float, **where: object) -> pd.DataFrame:
    chosen = pd.Series(True, index=table.index)
    for key, value in where.items():
        chosen &= table[key] == value
    assert chosen.any()
    table = table.copy()
    table.loc[chosen, ["mean", "ci_low", "ci_high"]] += add
    return table


@pytest.mark.parametrize(
    ("experiment", "add", "where", "expected"),
    [
        (
            "agic-table-1", -1, {"attack": "agic-rising-linear-oracle", "dataset": "cifar100"},
            {"agic.table-1.14": "direction", "agic.table-1.linear-best": "differs"},
        ),
        (
            "agic-table-1", 1, {"attack": "agic-falling-convex-oracle"},
            {"agic.table-1.3": "differs", "agic.table-1.falling-worse": "differs"},
        ),
        (
            "agic-table-2", -3, {"attack": "agic", "dataset": "cifar10", "metric": "psnr"},
            {"agic.table-2.28": "differs", "agic.table-2.full-agic-best": "differs"},
        ),
        (
            "agic-table-2", 2, {"attack": "agic-one-batch", "dataset": "cifar100", "metric": "psnr"},
            {"agic.table-2.22": "differs", "agic.doubt-7.one-batch-loses": "differs"},
        ),
        ("agic-table-2", -2, {"attack": "invg-oracle"}, {"agic.related-work.invg-labels": "differs"}),
        (
            "agic-table-3", -2, {"attack": "agic-joint-assumed", "metric": "psnr"},
            {"agic.table-3.10": "differs", "agic.table-3.second-epoch-helps": "differs"},
        ),
        (
            "agic-table-4", -8, {"attack": "agic-single", "metric": "psnr"},
            {
                "agic.table-4.7": "direction", "agic.text-abstract.gradient-gain": "differs",
                "agic.text-abstract.1": "direction", "agic.doubt-6.fifty-percent": "differs",
            },
        ),
        ("agic-table-4", -4, {"dataset": "imagenet", "metric": "psnr"}, {"agic.table-4.25": "direction"}),
        (
            "agic-table-4", -2, {"attack": "agic-resnet50-oracle", "local_samples": 4, "metric": "psnr"},
            {"agic.table-4.batch-4": "differs"},
        ),
        (
            "agic-table-4", -0.1, {"attack": "agic-resnet50-oracle", "metric": "lpips_alex"},
            {"agic.doubt-7.lpips-imagenet": "differs", "agic.table-4.36": "differs"},
        ),
        (
            "agic-table-5", -0.1, {"federation": "agic-passes"},
            {"agic.text-V-D.high-success": "differs", "agic.table-5.1": "direction", "agic.text-V-D.1": "differs"},
        ),
        (
            "agic-table-5", 0.1, {"metric": "matching_success", "federation": "agic-passes"},
            {"agic.doubt-9.pooling-exception": "differs", "agic.table-5.7": "differs"},
        ),
        ("agic-table-6", -2, {"attack": "agic-joint", "metric": "psnr"}, {"agic.table-6.joint-better": "differs"}),
        (
            "agic-table-6", 0.01, {"attack": "agic-one-batch", "pass": 1, "metric": "lpips_alex"},
            {"agic.doubt-9.lpips-order": "differs"},
        ),
        ("agic-figure-6", -0.1, {}, {"agic.fig-6.agic-near-truth": "differs"}),
        ("agic-figure-7", -3, {"attack": "agic-resnet50", "metric": "psnr"}, {"agic.fig-7.agic-closest": "differs"}),
        (
            "agic-figure-8", -2, {"attack": "agic", "federation": "agic-fedavg-steps-4"},
            {"agic.fig-8a.agic-above": "differs"},
        ),
        ("agic-figure-8", 2, {"federation": "agic-fedavg-steps-8"}, {"agic.fig-8a.both-fall": "differs"}),
        (
            "agic-figure-9", 12, {"attack": "agic-beta-1-oracle"},
            {
                "agic.fig-9.untrained-rise": "differs", "agic.fig-9.trained-weaker": "differs",
                "agic.fig-9.trained-optimum-lower": "differs", "agic.fig-9.modifier-bound": "differs",
                "agic.text-V-E.1": "direction",
            },
        ),
        ("agic-figure-9", 2, {"attack": "agic-plain-oracle"}, {"agic.fig-9.modifier-helps": "differs"}),
        (
            "agic-readings", 2, {"attack": "agic-reading-equal"},
            {"agic.doubt-8.equal-weights-mismatch": "differs"},
        ),
        ("agic-figure-9", 2, {"attack": "agic-trained-beta-1-oracle"}, {"agic.fig-9.trained-still-helps": "differs"}),
        ("agic-figure-9", -20, {"attack": "agic-trained", "baseline": ""}, {"agic.table-7.70": "differs"}),
        ("agic-figure-10", -9, {"attack": "agic-beta-20-oracle"}, {"agic.fig-10.quality-with-beta": "differs"}),
        ("agic-large-lr", 2, {"federation": "agic-fedavg-large-lr"}, {"agic.text-IV-A.large-lr": "differs"}),
    ],
)  # fmt: skip
def test_other_measurements_change_the_verdict(tables, facts, held, experiment, add, where, expected) -> None:
    assert set(held[list(expected)]) == {"reproduced"}
    tables[experiment] = changed(tables[experiment], add, **where)
    assert card(tables, facts)["verdict"][list(expected)].to_dict() == expected


@pytest.mark.parametrize(
    ("attack", "steps", "expected"),
    [
        (
            "invg", "8",
            {
                "agic.fig-8b.invg-grows": "differs", "agic.text-abstract.five-times-faster": "differs",
                "agic.text-abstract.2": "differs",
            },
        ),
        ("agic", "1", {"agic.fig-8b.agic-flat": "differs"}),
    ],
)  # fmt: skip
def test_seconds_decide_what_is_said_of_time(tables, facts, attack, steps, expected) -> None:
    facts["agic_seconds"][attack][steps] = 300.0
    assert card(tables, facts)["verdict"][list(expected)].to_dict() == expected


def test_short_runs_show_numbers_and_decide_no_claim(tables, facts) -> None:
    short = {name: table.assign(iterations=20) for name, table in tables.items()}
    got = card(short, facts)
    assert got.loc["agic.table-4.7", "measured"] == pytest.approx(31.341)
    assert "after 20 of 10,000 iterations" in got.loc["agic.table-4.7", "reason"]
    assert "after 20 of 2,000 iterations" in got.loc["agic.table-5.1", "reason"]
    claims = got[got["metric"] == "claim"]
    # Seconds need no long run.
    assert set(claims.index[claims["verdict"] != "not-run"]) == {
        "agic.text-abstract.five-times-faster", "agic.fig-8b.invg-grows", "agic.fig-8b.agic-flat",
    }  # fmt: skip
    why = "needs paper scale: after 20 of 10,000 iterations images are mostly noise"
    assert claims.loc["agic.table-1.linear-best", "reason"] == why


def test_where_a_table_tells_no_steps_the_facts_do(tables, facts) -> None:
    plain = {name: table.drop(columns="iterations") for name, table in tables.items()}
    facts["iterations"] = {"agic-figure-8": 2, "agic-table-4": 5000}
    got = card(plain, facts)
    assert got.loc["agic.fig-8a.agic-above", "verdict"] == "not-run"
    assert "after 5000 of 10,000 iterations" in got.loc["agic.table-4.7", "reason"]
    assert "iterations" not in got.loc["agic.table-1.1", "reason"]


def test_an_ordering_seen_in_a_short_run_is_no_direction(tables, facts) -> None:
    table = changed(tables["agic-table-4"], -5)
    long, short = (card(tables | {"agic-table-4": table.assign(iterations=n)}, facts) for n in (10000, 20))
    assert long.loc["agic.table-4.7", "verdict"] == "direction"
    assert short.loc["agic.table-4.7", "verdict"] == "differs"


def test_the_shortest_run_is_the_one_that_is_told(tables, facts) -> None:
    table = tables["agic-table-4"]
    table.loc[table["attack"] == "invg-single", "iterations"] = 500
    reason = card(tables, facts).loc["agic.text-abstract.gradient-gain", "reason"]
    assert "after 500 of 10,000 iterations" in reason


def test_the_faster_scale_differs_in_what_it_ran(tables, facts) -> None:
    facts["agic_run"] = {"iterations": 20, "pre_iterations": 5, "rounds": 2}
    got = card(tables, facts)["verdict"]
    assert set(got[["agic.text-V-A.8", "agic.text-V-D.3", "agic.text-V-A.13"]]) == {"differs"}


def test_changed_facts_change_the_verdict(tables, facts, held) -> None:
    other = copy.deepcopy(facts)
    other["attacks"]["agic"] |= {"distance": "squares", "tv": 0.0, "optimiser": "lbfgs"}
    del other["attacks"]["agic-joint"]
    other["convolutions"] = 19
    got = card(tables, other)["verdict"]
    assert got[got != held].to_dict() == {
        "agic.table-7.65": "differs", "agic.table-7.66": "differs", "agic.table-7.67": "differs",
        "agic.table-7.71": "differs", "agic.text-V-A.3": "differs", "agic.text-V-A.10": "not-run",
        "agic.text-V-A.11": "not-run", "agic.text-IV-C.1": "differs",
    }  # fmt: skip


def test_tables_read_back_from_csv_give_the_same(tables, facts, held, tmp_path) -> None:
    again = {}
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        again[name] = pd.read_csv(tmp_path / f"{name}.csv")
    assert card(again, facts)["verdict"].equals(held)
