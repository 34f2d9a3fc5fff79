"""Curves, dots and maps show the numbers that they are given."""

from typing import Any

import pandas as pd
import pytest
from drawings import axes_of, cell, dots_of, drawn, entries, points, result, texts

from leakbench.results.figures.sheet import INK, draw

SIZES = (1, 4, 16)


def _curve(attack: str, slope: float, **more: object) -> list[dict]:
    return [
        cell(
            attack=attack,
            local_samples=k,
            mean=slope * k,
            ci_low=slope * k - 1,
            ci_high=slope * k + 1,
            **more,
        )
        for k in SIZES
    ]


LINES = {
    "drawing": "lines",
    "x": "local_samples",
    "metrics": ["psnr"],
    "hue": ["attack"],
    "against": ["random-noise"],
}


def test_a_curve_joins_the_means_of_each_group_with_a_band() -> None:
    figure = drawn(result(_curve("dlg", 1) + _curve("grnn", 2), LINES))
    (axes,) = axes_of(figure)
    assert [line.get_ydata().tolist() for line in axes.lines] == [[1, 4, 16], [2, 8, 32]]
    assert len(axes.collections) == 2
    assert entries(figure) == ["DLG", "GRNN"]
    assert axes.get_xlabel() == "private images in the local set, k"


def test_an_inked_group_is_black_and_keeps_its_place() -> None:
    figure = drawn(result(_curve("dlg", 1) + _curve("grnn", 2), LINES | {"inked": ["DLG"]}))
    assert entries(figure) == ["DLG", "GRNN"]
    assert [line.get_color() == INK for line in axes_of(figure)[0].lines] == [True, False]


def test_two_points_are_no_trend() -> None:
    figure = drawn(result(_curve("dlg", 1)[:2], LINES))
    (axes,) = axes_of(figure)
    assert all(line.get_linewidth() == 0 for line in axes.lines)


def test_nulls_printed_numbers_and_the_most_there_can_be_stand_beside_curves() -> None:
    null = cell(attack="dlg", local_samples=4, baseline="random-noise", mean=3.0)
    marks = pd.DataFrame([{"attack": "dlg", "local_samples": 16, "metric": "psnr", "value": 12.0}])
    figure = drawn(
        result([*_curve("dlg", 1), null], LINES | {"limit": {"psnr": "local_samples"}}, marks=marks)
    )
    (axes,) = axes_of(figure)
    assert {(4.0, 3.0), (16.0, 12.0)} <= set(points(axes))
    assert next(line for line in axes.lines if line.get_gid() == "everything").get_ydata().tolist() == [
        1,
        4,
        16,
    ]
    assert entries(figure) == ["null: random noise", "published", "everything"]


def test_words_on_an_axis_stand_in_their_order_and_panels_have_titles() -> None:
    rows = [
        cell(defence=name, dataset=d)
        for name in ("gaussian", "none", "gaussian-1e-2")
        for d in ("mnist", "cifar10")
    ]
    columns = {"noise": {"by": "defence", "none": "0", "*-1e-2": "0.01", "else": "0.1"}}
    figure = drawn(result(rows, LINES | {"x": "noise", "panels": ["dataset"], "columns": columns}))
    first, second = axes_of(figure)
    assert [label.get_text() for label in first.get_xticklabels()] == ["0", "0.01", "0.1"]
    assert {first.get_title("left"), second.get_title("left")} == {"MNIST", "CIFAR-10"}


def test_the_share_of_a_run() -> None:
    way = [cell(iterations=100 * look, baseline="snapshot") for look in range(1, 10)]
    figure = drawn(result([*way, cell()], LINES | {"x": "share", "baselines": ["", "snapshot"]}))
    assert axes_of(figure)[0].lines[0].get_xdata()[[0, -1]] == pytest.approx([0.1, 1])


def test_a_round_with_a_problem_is_marked() -> None:
    rows = [
        cell(training="t", metric="weight", mean=0.3, round=r, client=c) for r in (1, 2, 3) for c in (0, 1)
    ]
    drawing = LINES | {
        "x": "round",
        "metrics": ["weight"],
        "hue": ["client"],
        "problems": True,
        "against": [],
    }
    figure = drawn(
        result(rows, drawing, facts={"problems": {"t": [{"client": 1, "round": 2, "problem": "none came"}]}})
    )
    assert " client 1" in texts(figure)
    assert entries(figure) == ["client 0", "client 1"]


DOTS = {"drawing": "dots", "metrics": ["psnr", "ssim"], "against": ["random-gradient"]}


def test_a_dot_for_each_condition_and_metric_with_its_interval() -> None:
    rows = [
        cell(attack=a, metric=m, mean=v)
        for a, m, v in (("dlg", "psnr", 9), ("grnn", "psnr", 19), ("dlg", "ssim", 0.4))
    ]
    null = cell(attack="dlg", baseline="random-gradient", mean=5.0)
    figure = drawn(result([*rows, null], DOTS))
    psnr, ssim = axes_of(figure)
    assert {(9.0, 0.0), (19.0, 1.0), (5.0, 0.0)} <= set(points(psnr))
    assert (0.4, 0.0) in points(ssim)
    assert [label.get_text() for label in psnr.get_yticklabels()] == ["DLG", "GRNN"]
    assert (psnr.get_xlabel(), ssim.get_xlabel()) == ("PSNR (dB)", "SSIM")
    assert any(len(each.get_segments()) for each in psnr.collections if hasattr(each, "get_segments"))


def test_groups_have_colours_and_blocks_have_headings() -> None:
    rows = [
        cell(attack=a, defence=d, dataset=s)
        for a in ("dlg", "grnn")
        for d in ("none", "sign")
        for s in ("mnist", "orl")
    ]
    figure = drawn(
        result(rows, DOTS | {"metrics": ["psnr"], "y": ["defence"], "hue": ["attack"], "blocks": ["dataset"]})
    )
    axes = axes_of(figure)
    assert [each.get_title("left") for each in axes] == ["MNIST", "ORL faces"]
    assert entries(figure) == ["DLG", "GRNN"]
    assert [label.get_text() for label in axes[1].get_yticklabels()] == ["no defence", "sign"]


def test_single_clients_are_small_beside_their_average() -> None:
    rows = [cell(client=c, mean=m) for c, m in ((None, 20), (0, 18), (1, 22))]
    figure = drawn(result(rows, DOTS | {"metrics": ["psnr"]}))
    (axes,) = axes_of(figure)
    (dots,) = dots_of(axes)
    sizes = dict(zip(dots.get_offsets()[:, 0], dots.get_sizes(), strict=True))
    assert sizes[20] > sizes[18] == sizes[22]
    assert any("small dots: single clients" in text for text in texts(figure))


def test_single_runs_of_the_exhibit_are_drawn_of_what_no_table_has() -> None:
    rows = [cell(training="t", metric="accuracy", mean=0.9)]
    same = {"dataset": "mnist-32", "victim": "lenet-dlg", "training": "t", "defence": "none"}
    runs = [same | {"accuracy": a, "apart": b} for a, b in ((0.8, 0.1), (1.0, 0.3))]
    drawing = {"drawing": "dots", "metrics": ["accuracy", "apart"], "y": ["training"], "runs": "boundaries"}
    figure = drawn(result(rows, drawing, facts={"boundaries": runs}))
    accuracy, apart = axes_of(figure)
    # The table's accuracy may be of other models of the same runs.
    assert {0.9} == {x for x, _ in points(accuracy)}
    assert any("small dots: single runs" in text for text in texts(figure))
    assert {0.1, 0.2, 0.3} == {x for x, _ in points(apart)}


def test_chance_and_a_level_are_lines() -> None:
    rows = [cell(metric="top1_resnet18", mean=0.6)]
    drawing = {"drawing": "dots", "metrics": ["top1_resnet18"], "chance": {"top1_resnet18": 2}}
    figure = drawn(result(rows, drawing, facts={"classes": {"mnist-32": 40}}))
    assert [line.get_xdata()[0] for line in axes_of(figure)[0].lines] == [0.05]
    figure = drawn(result([cell()], DOTS | {"metrics": ["psnr"], "level": {"psnr": 27.9}}))
    assert [line.get_xdata()[0] for line in axes_of(figure)[0].lines] == [27.9]


def test_the_strongest_attacker_stands_above_a_map_without_what_uses_no_gradient() -> None:
    values = {"dlg": (0.2, 0.6), "invg": (0.4, 0.1), "class-mean": (0.9, 0.9)}
    rows = [
        cell(attack=a, defence=d, metric="pearson", mean=v)
        for a, pair in values.items()
        for d, v in zip(("sign", "none"), pair, strict=True)
    ]
    # DLG gives features here, whose null is another one than that of images.
    null = [
        cell(attack=a, defence=d, metric="pearson", baseline="dataset-mean", mean=v)
        for a, v in (("dlg", 0.9), ("invg", 0.3))
        for d in ("sign", "none")
    ]
    pixels = cell(attack="invg")
    drawing = {"drawing": "heat", "apart": ["class-mean"], "against": ["dataset-mean"]}
    figure = drawn(result([*rows, *null, pixels], drawing))
    axes, bar = axes_of(figure)
    lines = [label.get_text() for label in axes.get_yticklabels()]
    assert lines == [
        "strongest attacker", "DLG (1,000) *", "InvG (1,000)", "class mean (1,000) *",
        "null: the data set's mean image",
    ]  # fmt: skip
    assert [label.get_text() for label in axes.get_xticklabels()] == ["no defence", "sign"]
    shown = [text.get_text() for text in axes.texts]
    # DLG reads features, so it is not compared with InvG, which is no better than the null without a defence.
    assert shown == ["0.10‡", "0.40", "0.60", "0.20", "0.10", "0.40", "0.90", "0.90", "0.30", "0.30"]
    assert bar.get_ylabel() == "Pearson r"


def test_a_map_draws_the_metric_that_it_is_given() -> None:
    rows = [
        cell(attack="invg", defence="none", metric=m, mean=v) for m, v in (("ssim", 0.7), ("pearson", 0.2))
    ]
    axes, bar = axes_of(drawn(result(rows, {"drawing": "heat", "metric": "ssim"})))
    assert [text.get_text() for text in axes.texts] == ["0.70", "0.70"]
    assert bar.get_ylabel() == "SSIM"


def test_a_map_marks_what_failed() -> None:
    def square(attack: str, mean: float, **more: Any) -> dict[str, Any]:
        return cell(attack=attack, defence="none", metric="pearson", baseline="", mean=mean, **more)

    rows = [square("dlg", 0.2, failure_rate=0.5), square("invg", 0.3, failure_rate=0.4)]
    figure = drawn(result(rows, {"drawing": "heat"}))
    # The strongest attacker of the defence stands above.
    assert sorted(text.get_text() for text in axes_of(figure)[0].texts) == ["0.20†", "0.30", "0.30"]
    rows = [square("dlg", 0.4, failure_rate=0.5), square("invg", 0.3, failure_rate=0.4)]
    figure = drawn(result(rows, {"drawing": "heat"}))
    assert sorted(text.get_text() for text in axes_of(figure)[0].texts) == ["0.30", "0.40†", "0.40†"]


@pytest.mark.parametrize("drawing", [LINES, DOTS, {"drawing": "heat"}])
def test_without_rows_there_is_no_figure(drawing: dict) -> None:
    assert draw(result([cell(metric="other")], drawing)) is None


def test_a_claim_is_a_papers_and_a_question_is_ours() -> None:
    given = result()
    assert "Claim: One sentence." in texts(drawn(given))
    given.spec["work"] = "leakbench"
    assert "One sentence." in texts(drawn(given))
