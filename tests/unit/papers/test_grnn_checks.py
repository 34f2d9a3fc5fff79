"""What the checks of papers/grnn decide on made-up tables."""

import math

import numpy as np
import pytest
from grnn_tables import WORK, Line, card, line, value, word


def test_images_appear_from_the_snapshot_nearest_to_a_tenth_of_what_ran() -> None:
    lines, name = [], "thesis-table-3-4"
    # The nearest snapshot and another one.
    for dataset, ran, near, far in (
        ("mnist-32", 600, 60, 120), ("cifar10", 1000, 110, 40), ("orl-32", 220, 22, 44),
    ):  # fmt: skip
        lines.append(line(name, "mse", 0.01, dataset=dataset, iterations=ran))
        lines += [
            line(name, "mse", error, dataset=dataset, iterations=steps, baseline="snapshot")
            for steps, error in ((near, 0.05), (far, 0.9))
        ]
    found = value(card(lines), "thesis.table-3-2.gradual")
    assert found.value == pytest.approx(0.04)
    assert (found.length, found.unequal) == (0.22, False)


BATCHED = {
    **dict.fromkeys((1, 4, 8, 16), "thesis-figure-3-3"),
    32: "thesis-table-3-6",
    **{size: f"thesis-table-3-6-batch{size}" for size in (64, 128, 256)},
}


def batches(dataset: str, base: str, ssim: dict[int, tuple[float, float]]) -> list[Line]:
    """Return GRNN's lines of batches: size -> mean SSIM and half of its interval."""
    return [
        line(BATCHED[size], metric, mean, dataset=dataset,
             federation=base if size == 1 else f"{base}-batch{size}", ci_low=mean - half, ci_high=mean + half)
        for size, (ssim_mean, ssim_half) in ssim.items()
        for metric, mean, half in (("ssim", ssim_mean, ssim_half), ("identified", 1.0, 0.0))
    ]  # fmt: skip


def test_the_largest_batch_has_an_interval_of_batches() -> None:
    sizes = (1, 4, 8, 16, 32, 64, 128, 256)
    pictures = {size: (0.9, 0.01) if size <= 64 else (0.1, 0.01) for size in sizes} | {128: (0.55, 0.1)}
    faces = {size: (0.9, 0.01) if size <= 64 else (0.1, 0.01) for size in sizes}
    found = card([*batches("cifar100", "grnn", pictures), *batches("lfw-32", "grnn-faces", faces)])
    largest = value(found, "thesis.text-3-3-2-1.2")
    assert (largest.value, largest.low, largest.high) == (128, 64, 128)
    swapped = value(found, "thesis.doubt-11.swapped-batches")
    assert (swapped.value, swapped.low) == (64, 0)
    assert word(found, "thesis.doubt-11.swapped-batches") == "inconclusive"


def test_crossing_is_that_of_straight_lines() -> None:
    crossing = WORK.check("crossing", "test")
    rng = np.random.default_rng(0)
    rates = np.sort(rng.random(21))
    for level in rng.uniform(rates[0], rates[-1], 20):
        at = crossing(list(zip(np.arange(21) / 20, rates, strict=True)), level)
        assert at == pytest.approx(np.interp(level, rates, np.arange(21) / 20))
    assert crossing([(0.0, 0.7), (0.5, 0.9)], 0.6) == 0.0
    assert math.isnan(crossing([(0.0, 0.1), (1.0, 0.5)], 0.6))


def curves(dataset: str = "cifar100", first: float = 0.7) -> list[Line]:
    """Return Figure 3.5 as the text reads it; `first` is DLG's share of good images at batch 1."""
    lines = []
    for attack in ("dlg", "grnn"):
        for size in (1, 4, 8, 16):
            good = attack == "grnn" or size == 1
            points = {0: 0, 0.05 if attack == "grnn" else 0.15: 0.6 if good else 0.52, 0.2: 0.72, 1: 1}
            share = first if (attack, size) == ("dlg", 1) else 0.8 if good else 0.0
            known = {"success_mse": points, "success_ssim": {0: 1, 0.2: share, 0.5: share, 1: 0}}
            for metric, curve in known.items():
                federation = "grnn" if size == 1 else f"grnn-batch{size}"
                where = {"attack": attack, "dataset": dataset, "federation": federation}
                for x in np.arange(21) / 20:
                    rate = float(np.interp(x, list(curve), list(curve.values())))
                    more = {"threshold": x, "convention": "published"}
                    lines.append(line("thesis-figure-3-5", metric, rate, **more, **where))
    return lines


def test_thresholds_and_rates_of_the_figure() -> None:
    found = card(curves())
    for number, at in enumerate((0.05, 0.17, 0.7, 0.8), 1):
        assert value(found, f"thesis.fig-3-5.{number}").value == pytest.approx(at, abs=1e-5)
        assert word(found, f"thesis.fig-3-5.{number}") == "reproduced"
    low = card(each | {"mean": each["mean"] / 2} for each in curves())
    assert math.isnan(value(low, "thesis.fig-3-5.1").value)


def test_grnn_is_above_at_every_batch_but_one() -> None:
    key = "thesis.fig-3-5.grnn-above"
    assert word(card(curves()), key) == "inconclusive"  # At batch 1 above by 0.1, which is a tie.
    assert word(card(curves(first=0.8)), key) == "reproduced"
    assert word(card(curves(first=0.1)), key) == "differs"
    assert word(card(curves("cifar10", first=0.8)), key) == "reproduced"
    assert word(card(curves("cifar10")), "thesis.fig-3-5.1") == "not-run"


def test_samples_are_won_one_by_one() -> None:
    lines, trials = [], {}
    for metric, won in (("ssim", 20), ("psnr", 12)):
        # What is lost is lost by so much that the mean is lost, too.
        values = {"grnn-resnet18": won * [1.0] + (20 - won) * [-9.0], "invg-grnn": 20 * [0.0]}
        for batch in ("", "-batch4", "-batch8"):
            where = {
                "dataset": "cifar100-256",
                "victim": "resnet18-sigmoid",
                "federation": f"grnn-large{batch}",
            }
            for attack, each in values.items():
                trials[len(lines)] = each
                lines.append(line("thesis-table-3-11", metric, float(np.mean(each)), attack=attack, **where))
    found = card(lines, trials)
    for key, share in (("table-3-11.better-than-ig", 1), ("doubt-15.ig-mse", 0.6)):
        assert value(found, f"thesis.{key}").value == pytest.approx(share)
        assert word(found, f"thesis.{key}") == "reproduced"


def test_the_claim_of_strong_noise_knows_its_own_threshold() -> None:
    claim = next(claim for claim in WORK.claims.claims if claim.id == "thesis.fig-3-6.fails-at-strong-noise")
    assert f"if plain >= {claim.threshold:g} else" in str(claim.quantity)
