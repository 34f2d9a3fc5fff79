"""The bench: who takes turns, what it makes of their seconds, and how it counts operations."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from project import ROOT
from torch import Tensor
from torch.nn.functional import conv2d

from bench.ceiling import flop, flop_of
from bench.matching import HOME
from bench.measure import BUSY, COLUMNS, Row, Side, alternate, compare, kept, load, stated
from bench.page import KEPT, PAGE, page
from leakbench.attacks.matching.engines.products import product

# Comparison → rows that a try prints of it, without breaching.
PRINTED = {
    "fidel": 2, "peel": 2, "spear": 2, "membership": 2, "grnn": 1, "encryption": 9,
    "matching lenet-dlg": 1, "matching resnet20-4": 1, "floor LeNet calls": 1, "floor GRNN calls": 1,
    "floor products": 1,
    "floor first stage": 1, "floor second stage": 1, "floor third stage": 1, "floor rmsprop": 1,
    "scheduler": 1, "digests": 1, "command help": 1, "command import": 1, "command plan": 1,
}  # fmt: skip


class Clock:
    """A clock that only work moves on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.worked: list[str] = []

    def __call__(self) -> float:
        return self.now

    def side(self, name: str, seconds: list[float], units: float = 1, flop: float = 0.0) -> Side:
        """Return a side whose turns, the unmeasured one first, take `seconds`."""
        left = iter(seconds)

        def run() -> None:
            self.worked.append(name)
            self.now += next(left)

        return Side(name, run, units, flop)


def rows(clock: Clock, *sides: Side, loads: tuple[float, float] = (0.0, 0.0), **more: float) -> list[Row]:
    watched: Iterator[float] = iter(loads)
    return list(
        compare("n", "w", "u", sides[0], sides[1:], clock=clock, watch=lambda: next(watched), **more)  # type: ignore[arg-type]
    )


def test_sides_take_turns_and_their_seconds_are_by_unit() -> None:
    clock = Clock()
    alternate([clock.side(name, [1.0] * 6) for name in "abc"], clock=clock)
    assert "".join(clock.worked) == "abc" + "abc" + "cba" + "abc" + "cba" + "abc"
    # The first turn of each is not measured.
    sides = [clock.side("a", [99, 1, 2, 3, 4, 5], units=2), clock.side("b", [99, 6, 6, 6, 6, 6])]
    assert alternate(sides, clock=clock) == {"a": [0.5, 1.0, 1.5, 2.0, 2.5], "b": [6.0] * 5}
    # A side may say which seconds count.
    assert alternate([Side("a", lambda: 7.0, 2), clock.side("b", [1.0] * 6)], clock=clock)["a"] == [3.5] * 5


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_fewer_than_five_turns_are_refused(turns: int) -> None:
    clock = Clock()
    with pytest.raises(ValueError, match="at least 5"):
        alternate([clock.side("a", [1.0] * 9)], turns, clock)
    assert clock.worked == []


def test_a_row_of_each_rival_has_medians_quartiles_and_ratios_of_each_turn() -> None:
    clock = Clock()
    # Pairs: 10/1, 20/2, 30/3, 10/4, 10/5.
    ours = clock.side("ours", [9, 1, 2, 3, 4, 5], flop=12.0)
    (row,) = rows(clock, ours, clock.side("other", [9, 10, 20, 30, 10, 10], units=1, flop=24.0), ceiling=8.0)
    assert set(row) == set(COLUMNS)
    found = {
        name: [row[f"{name}{end}"] for end in ("", "_q1", "_q3")] for name in ("ours", "baseline", "ratio")
    }
    assert found == {
        "ours": ["3.000e+00", "2.000e+00", "4.000e+00"], "baseline": ["1.000e+01", "1.000e+01", "2.000e+01"],
        "ratio": ["10.00", "2.50", "10.00"],
    }  # fmt: skip
    # 12 operations in 3 s of 8 a second; 24 in 10 s.
    assert (row["ours_of_ceiling"], row["baseline_of_ceiling"]) == ("50%", "30%")
    assert (row["turns"], row["baseline_name"], row["busy"]) == (5, "other", "")
    # What has no operations has no share.
    every = rows(clock, *(clock.side(name, [1.0] * 6) for name in ("ours", "one", "two")), ceiling=8.0)
    assert [(row["baseline_name"], row["ours_of_ceiling"]) for row in every] == [("one", ""), ("two", "")]


@pytest.mark.parametrize(
    ("loads", "busy"), [((0.0, 0.0), False), ((BUSY, BUSY), False), ((0.2, 0.0), True), ((0.0, 0.9), True)]
)
def test_a_row_of_a_busy_machine_is_marked_and_not_kept(loads: tuple[float, float], busy: bool) -> None:
    clock = Clock()
    found = rows(clock, clock.side("ours", [1.0] * 6), clock.side("other", [2.0] * 6), loads=loads)
    assert [row["busy"] for row in found] == (["busy"] if busy else [""])
    assert found[0]["ratio"] == "2.00"
    assert [(row["load_before"], row["load_after"]) for row in found] == [tuple(f"{x:.2f}" for x in loads)]
    assert kept([*found, stated("n", "w", "bytes", 2, 8, "other")])[:-1] == ([] if busy else found)


def test_load_is_what_others_take_of_all_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 100 700 100 0 0 0 0 0\ncpu0 1\n")

    def passes(seconds: float) -> None:
        # 30 of 100 ticks were spent on work, 60 on nothing, 10 on waiting for a disk.
        stat.write_text("cpu 120 0 110 760 110 0 0 0 0 0\ncpu0 1\n")

    monkeypatch.setattr("bench.measure.time.sleep", passes)
    assert load(1.0, stat) == pytest.approx(0.3)


def test_the_load_is_read_around_the_work_which_is_said_once_it_is_done() -> None:
    clock = Clock()

    def watch() -> float:
        clock.worked.append("look")
        return 0.0

    ours, other = (clock.side(name, [1.0] * 6) for name in ("ours", "other"))
    (row,) = compare(
        "n", lambda: f"{clock.worked.count('ours')} turns", "u", ours, [other], clock=clock, watch=watch
    )
    assert (clock.worked[0], clock.worked.count("look"), clock.worked[-1]) == ("look", 2, "look")
    assert row["work"] == "6 turns"


def test_a_try_has_one_turn_of_each_side_on_any_machine() -> None:
    clock = Clock()
    sides = [clock.side("ours", [2.0]), clock.side("other", [3.0], units=2)]
    (row,) = compare("n", "w", "u", sides[0], sides[1:], clock=clock, watch=lambda: 1.0, small=True)
    assert clock.worked == ["ours", "other"]
    assert (row["ours"], row["baseline"], row["ratio"], row["turns"]) == ("2.000e+00", "1.500e+00", "0.75", 1)
    assert row["busy"] == ""


def whole(text: str, breaching: bool) -> None:
    """Assert that a try printed all its rows, and says what it left out."""
    units = "seconds per|bytes per|processor's seconds|largest error"
    found = Counter(re.findall(rf"^ *(\S.*?) +(?:{units}).* \d", text, re.MULTILINE))
    assert found == {
        name: (1 + breaching if name.startswith("matching") else count) for name, count in PRINTED.items()
    }
    assert ("breaching is left out" in text) != breaching


def test_every_comparison_of_the_bench_works() -> None:
    kept = ROOT / "results/bench.csv"
    before = kept.read_bytes() if kept.exists() else None
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--try"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whole(done.stdout, (HOME / ".complete").is_file())
    # Guards the line above: an entry that yields nothing is missed.
    with pytest.raises(AssertionError):
        whole(done.stdout.replace("fidel", ""), (HOME / ".complete").is_file())
    assert (kept.read_bytes() if kept.exists() else None) == before


def test_the_page_says_what_was_kept() -> None:
    assert PAGE.read_text("utf-8") == page(KEPT.read_text("utf-8"))
    row = dict.fromkeys(COLUMNS, "") | {"name": "n", "work": "w", "unit": "seconds", "ours": "2.500e-03"}
    row |= {"ours_q1": "2.400e-03", "ours_q3": "2.600e-03", "ours_of_ceiling": "9%", "baseline_name": "other"}
    row |= {"baseline": "1.000e+00", "ratio": "400.00"}
    text = f"{','.join([*row, 'device', 'date', 'commit', 'ceiling'])}\n{','.join(row.values())},d,1,c,x\n"
    assert page(text).splitlines()[-1] == (
        "| n: w | seconds | 0.0025 (0.0024 to 0.0026), 9% of the ceiling | other | 1 | 400 |"
    )


@pytest.mark.parametrize(("wanted", "times"), [((True, False), 1), ((False, True), 1), ((True, True), 2)])
def test_derivatives_of_a_convolution_of_groups_by_hand(wanted: tuple[bool, bool], times: int) -> None:
    # Two images; five groups, each of 3 channels read and 4 made; kernels of 3×3; 6×8 places left of 8×10.
    x, weight, slope = torch.ones(2, 15, 8, 10), torch.ones(20, 3, 3, 3), torch.ones(2, 20, 6, 8)

    def run() -> None:
        torch.ops.aten.convolution_backward(
            slope, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 5, [*wanted, False]
        )

    assert flop(run) == times * 2 * (2 * 6 * 8) * (5 * 3 * 4) * (3 * 3)


def test_a_transposed_convolution_s_derivatives_take_what_it_takes() -> None:
    x, weight = torch.ones(1, 3, 5, 5, requires_grad=True), torch.ones(3, 4, 2, 2, requires_grad=True)

    def forward() -> Tensor:
        return torch.nn.functional.conv_transpose2d(x, weight, stride=2)

    one = 2 * (5 * 5) * (3 * 4) * (2 * 2)
    assert flop(forward) == one
    assert flop(lambda: forward().sum().backward()) == 3 * one


def test_a_group_counts_as_a_convolution_by_itself() -> None:
    x, weight = torch.ones(1, 4, 6, 6, requires_grad=True), torch.ones(8, 2, 3, 3, requires_grad=True)
    one = flop(lambda: conv2d(x[:, :2], weight[:4]).sum().backward())
    assert flop(lambda: conv2d(x, weight, groups=2).sum().backward()) == 2 * one == 2 * 3 * 2 * 16 * 8 * 9


def test_what_is_done_once_does_not_count() -> None:
    matrix = torch.ones(4, 5)

    def run(iterations: int) -> None:
        for _ in range(iterations + 3):
            matrix @ matrix.T

    assert flop_of(run, 2.0) == 2 * 4 * 5 * 4 / 2


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch has no oneDNN here")
def test_a_product_by_onednn_counts_as_torch_s_own() -> None:
    a, b = torch.ones(2, 180, 170), torch.ones(2, 170, 190)
    assert flop(lambda: product(a, b)) == flop(lambda: a @ b) == 2 * 2 * 180 * 170 * 190
