"""AGIC's figures: published numbers meet the measured ones, curves stand where they belong, panels name their attacks."""

import itertools
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.figure import Figure
from synthetic import panel, quality

from leakbench.drawing import methods, side_by_side, words
from leakbench.drawing import quality as curves
from leakbench.drawing.printed import SHAPES, named, printed
from leakbench.drawing.result import Result

PUBLISHED = Path(__file__).parents[3] / "published"
GRADIENT = {"federation": "agic-gradient", "local_samples": 1}


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in figure.findobj(mpl.text.Text))


@pytest.mark.parametrize(("table", "count"), [(1, 14), (2, 36), (3, 12), (4, 36), (5, 8), (6, 9)])
def test_every_printed_number_has_a_condition(table: int, count: int) -> None:
    rows = printed(PUBLISHED, f"table-{table}")
    assert len(rows) == count
    assert not rows.drop(columns="value").duplicated().any()
    assert (rows[["dataset", "attack", "metric"]] != "").all().all()


def test_what_is_no_table_has_no_printed_numbers(tmp_path: Path) -> None:
    assert printed(PUBLISHED, "readings").empty
    assert printed(tmp_path, "table-1").empty


def test_shapes_are_told_apart() -> None:
    assert set(printed(PUBLISHED, "table-1")["attack"]) == set(SHAPES.values())


def test_published_numbers_stand_beside_their_methods(result: Callable[..., Result]) -> None:
    attacks = ["dlg-adam-oracle", "invg-oracle", "agic-oracle", "agic"]
    rows = quality(attacks, **GRADIENT)
    figure = methods.table(result(rows), "table-4", PUBLISHED)
    stars = {
        axes.get_xlabel(): sorted(line.get_xdata())
        for axes in figure.findobj(mpl.axes.Axes)
        for line in axes.get_lines()
        if line.get_marker() == "*"
    }
    # AGIC's number stands beside both the line with labels given and the one without.
    assert stars["PSNR (dB)"] == [19.908, 20.671, 31.341, 31.341]
    assert stars["LPIPS (AlexNet)"] == [0.004, 0.004, 0.031, 0.034]
    assert "AGIC, labels given" in texts(figure)


def test_variants_for_one_network_are_the_same_method() -> None:
    rows = named(pd.DataFrame({"dataset": ["imagenet"], "attack": ["agic-resnet50-oracle"]}))
    assert rows.to_dict("records") == [{"dataset": "ImageNet", "attack": "agic", "pass": 0}]


def test_epochs_have_headings_of_their_own(result: Callable[..., Result]) -> None:
    rows = pd.concat(
        [quality(["agic-one-batch"], federation="agic-passes").assign(**{"pass": n}) for n in (0, 1)]
    )
    text = texts(methods.table(result(rows), "table-6", PUBLISHED))
    assert "epoch 1" in text
    assert "epoch 2" in text


def test_curves_run_over_iterations(result: Callable[..., Result]) -> None:
    rows = pd.concat(
        quality([f"{name}-single"], baselines=("snapshot" if steps < 100 else "",)).assign(iterations=steps)
        for name, steps in itertools.product(("invg", "agic"), (10, 50, 100))
    )
    figure = curves.by_iterations(result(rows))
    lines = figure.subfigs[1].axes[0].get_lines()
    assert [line.get_label() for line in lines] == ["InvG single", "AGIC single"]
    assert [list(line.get_xdata()) for line in lines] == [[10, 50, 100]] * 2


def test_longer_runs_are_dashed_beside_those_that_they_continue(result: Callable[..., Result]) -> None:
    def run(scale: str, last: int) -> pd.DataFrame:
        return pd.concat(
            quality([f"{name}-single"], baselines=("snapshot" if steps < last else "",)).assign(
                iterations=steps, scale=scale
            )
            for name, steps in itertools.product(("invg", "agic"), (last // 10, last // 2, last))
        )

    figure = curves.by_iterations(result(run("quick", 100)), run("long", 4000).assign(device="a machine"))
    axes = figure.subfigs[1].axes[0]
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines) == [
        "InvG single",
        "AGIC single",
        "InvG single, recorded at long",
        "AGIC single, recorded at long",
    ]
    assert list(lines["AGIC single, recorded at long"].get_xdata()) == [400, 2000, 4000]
    for name in ("InvG single", "AGIC single"):
        longer = lines[f"{name}, recorded at long"]
        assert longer.get_color() == lines[name].get_color()
        assert longer.get_linestyle() != lines[name].get_linestyle()
    assert axes.get_xscale() == "log"
    assert "dashed: recorded on a machine" in " ".join(t.get_text() for t in figure.subfigs[2].texts)


def test_ratios_are_read_out_of_names(result: Callable[..., Result]) -> None:
    attacks = [
        "agic-beta-1-oracle",
        "agic-oracle",
        "agic-plain-oracle",
        "agic-trained-beta-5-oracle",
        "agic-trained",
    ]
    figure = curves.by_ratio(result(quality(attacks)))
    lines = {line.get_label(): list(line.get_xdata()) for line in figure.subfigs[1].axes[0].get_lines()}
    assert lines == {
        "untrained, labels given": [1, 50], "untrained, without ReLU modifier": [50], "trained, labels given": [5],
        "trained, labels inferred": [2],
    }  # fmt: skip


def test_local_steps_are_read_out_of_federations(result: Callable[..., Result]) -> None:
    rows = pd.concat(quality(["agic"], federation=f"agic-fedavg-steps-{steps}") for steps in (1, 8))
    lines = curves.by_local_steps(result(rows)).subfigs[1].axes[0].get_lines()
    assert [list(line.get_xdata()) for line in lines] == [[1, 8]]


@pytest.mark.parametrize(
    "draw", [curves.by_iterations, curves.by_ratio, curves.by_local_steps, side_by_side.attacks]
)
def test_without_results_a_figure_says_so(
    draw: Callable[[Result], Figure], result: Callable[..., Result]
) -> None:
    assert "Nothing to show: no CIFAR-10" in texts(draw(result(absent_cells={"cell": "no CIFAR-10"})))


def test_attacks_stand_below_one_row_of_private_images(result: Callable[..., Result]) -> None:
    panels = [panel(number, "cifar10", 4, 4, "matched") for number in range(2)]
    for (about, _), attack in zip(panels, ("invg", "agic"), strict=True):
        about["attack"] = attack
    figure = side_by_side.attacks(result(panels=panels))
    assert sum(text == "private" for text in texts(figure).split("\n")) == 1
    assert {"InvG", "AGIC"} <= set(texts(figure).split("\n"))
    assert len(figure.findobj(mpl.image.AxesImage)) == 12


def test_the_small_print_tells_how_long_attacks_ran(result: Callable[..., Result]) -> None:
    rows = quality(["invg", "agic"])
    rows.loc[rows["attack"] == "invg", "iterations"] = 80
    assert "n = 100 behind each point after 80 to 10000 iterations" in texts(
        methods.table(result(rows), "", PUBLISHED)
    )
    assert words.steps(rows.drop(columns="iterations")) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dlg-adam", "DLG-Adam"),
        ("invg-resnet50-oracle", "InvG ResNet-50, labels given"),
        ("agic-beta-5-oracle", "AGIC beta 5, labels given"),
    ],
)
def test_attacks_are_said_in_words(name: str, said: str) -> None:
    assert words.attack(name) == said


def test_networks_keep_their_own_hyphens() -> None:
    assert words.victim("resnet20-4-trained") == "ResNet20-4, trained"
    assert words.victim("resnet50") == "ResNet-50"
    assert words.victim("fcnn-relu-dropout") == "FCNN, ReLU, dropout"
