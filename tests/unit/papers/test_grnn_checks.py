"""What the checks of papers/grnn decide on made-up tables."""

import math

import numpy as np
import pytest
from grnn_tables import WORK, Line, card, line, named, value, word


@pytest.mark.parametrize(
    ("grnn", "dlg", "expected"),
    # The thesis states no length, so that no failure refutes it.
    [(0.02, 0.01, "inconclusive"), (0.5, 0.6, "inconclusive"), (0.5, 0.4, "reproduced")],
)
def test_faces_must_beat_chance_and_dlg(grnn: float, dlg: float, expected: str) -> None:
    lines = named("vgg-face-32", dlg=dlg, grnn=grnn)
    narrow = [
        each | {"ci_low": each["mean"] - 1e-6, "ci_high": each["mean"] + 1e-6, "n": 700} for each in lines
    ]
    assert word(card(narrow), "thesis.table-3-15.identifiable") == expected


def test_images_appear_from_the_snapshot_nearest_to_a_tenth_of_what_ran() -> None:
    lines = []
    for dataset, ran, kept in (
        ("mnist-32", 600, (60, 120)),
        ("cifar10", 1000, (40, 110)),
        ("orl-32", 220, (22, 44)),
    ):
        where = {"dataset": dataset, "iterations": ran}
        lines.append(line("thesis-table-3-4", "mse", 0.01, **where))
        nearest = min(kept, key=lambda steps: abs(steps - ran / 10))
        for steps in kept:
            error = 0.05 if steps == nearest else 0.9
            lines.append(
                line("thesis-table-3-4", "mse", error, **where | {"iterations": steps}, baseline="snapshot")
            )
    found = value(card(lines), "thesis.table-3-2.gradual")
    assert found.value == pytest.approx(0.04)
    assert (found.length, found.unequal) == (0.22, False)


def test_half_way_images_are_compared_by_their_coarse_error() -> None:
    lines = []
    for attack, share in (("dlg", 0.6), ("grnn", 0.3)):
        for metric, last, way in (
            ("ssim", 0.8, (0.1, 0.5)),
            ("mse", 0.0, (0.1, 0.1)),
            ("coarse_error", 0.9, (0.9, share)),
        ):
            where = {"dataset": "cifar100", "attack": attack}
            lines.append(line("thesis-table-3-4", metric, last, **where))
            for steps, early in zip((50, 150), way, strict=True):
                lines.append(
                    line("thesis-table-3-4", metric, early, **where, iterations=steps, baseline="snapshot")
                )
    assert value(card(lines), "thesis.table-3-5.coarse-to-fine").value == pytest.approx(-0.3)


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
                for x in np.arange(21) / 20:
                    rate = float(np.interp(x, list(curve), list(curve.values())))
                    where = {
                        "attack": attack,
                        "dataset": dataset,
                        "federation": "grnn" if size == 1 else f"grnn-batch{size}",
                    }
                    lines.append(
                        line("thesis-figure-3-5", metric, rate, threshold=x, convention="published", **where)
                    )
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
        for federation in ("grnn-large", "grnn-large-batch4", "grnn-large-batch8"):
            for attack in ("grnn-resnet18", "invg-grnn"):
                where = {
                    "dataset": "cifar100-256",
                    "victim": "resnet18-sigmoid",
                    "federation": federation,
                    "attack": attack,
                }
                # What is lost is lost by so much that the mean is lost, too.
                ours = [1.0 if number < won else -9.0 for number in range(20)]
                trials[len(lines)] = ours if attack == "grnn-resnet18" else [0.0] * 20
                lines.append(line("thesis-table-3-11", metric, float(np.mean(trials[len(lines)])), **where))
    found = card(lines, trials)
    assert (
        value(found, "thesis.table-3-11.better-than-ig").value,
        word(found, "thesis.table-3-11.better-than-ig"),
    ) == (1, "reproduced")
    assert value(found, "thesis.doubt-15.ig-mse").value == pytest.approx(0.6)
    assert word(found, "thesis.doubt-15.ig-mse") == "reproduced"


@pytest.mark.parametrize(
    ("plain", "pooled", "expected"),
    [(0.1, None, "reproduced"), (0.1, 0.9, "inconclusive"), (0.4, 0.9, "differs")],
)
def test_who_pools_rounds_keeps_the_claim_of_strong_noise_from_holding(
    plain: float, pooled: float | None, expected: str
) -> None:
    noises = ("gaussian", "laplacian")
    narrow = {"ci_low": plain - 0.001, "ci_high": plain + 0.001, "n": 50}
    lines = [line("thesis-table-3-16", "ssim", plain, defence=noise, **narrow) for noise in noises]
    if pooled is not None:
        lines += [
            line(
                "thesis-table-3-16", "ssim", pooled, defence=noise, attack="grnn-adapted",
                federation="grnn-repeated", client=0, n=1,
            )
            for noise in noises
        ]  # fmt: skip
    key = "thesis.fig-3-6.fails-at-strong-noise"
    assert word(card(lines), key) == expected
    claim = next(claim for claim in WORK.claims.claims if claim.id == key)
    assert f"if plain >= {claim.threshold:g} else" in str(claim.quantity)


def test_a_label_survives_only_where_the_image_does_not() -> None:
    key = "thesis.text-3-3-5.label-survives"
    for ssim, expected in ((0.3, "reproduced"), (0.8, "inconclusive")):
        lines = [
            line("thesis-table-3-16", metric, number, defence=noise)
            for noise in ("gaussian", "laplacian")
            for metric, number in (("ssim", ssim), ("label_accuracy", 1.0))
        ]
        assert word(card(lines), key) == expected


def floors(dataset: str, wrapped: float, true: float) -> list[Line]:
    where = {"dataset": dataset, "baseline": "unrelated-image", "n": 64}
    return [
        line("thesis-conventions", "psnr_uint8_wrap", wrapped, convention="published", **where),
        line("thesis-conventions", "psnr", true, **where),
    ]


@pytest.mark.parametrize(
    ("dataset", "wrapped", "true", "expected"),
    [
        ("cifar10", 27.95, 9.6, "reproduced"),
        ("orl-32", 28.0, 14.3, "differs"),
        ("lfw-32", 28.4, 9.0, "differs"),
    ],
)
def test_the_floor_of_unrelated_images(dataset: str, wrapped: float, true: float, expected: str) -> None:
    found = card([*floors(dataset, wrapped, true), *floors("mnist-32", 32.9, 9.6)])
    assert value(found, "thesis.doubt-13.psnr-floor").value == pytest.approx(
        min(0.3 - abs(wrapped - 27.9), 12 - true)
    )
    assert word(found, "thesis.doubt-13.psnr-floor") == expected
    # Digits share their background.
    assert word(card(floors("mnist-32", 27.9, 9.6)), "thesis.doubt-13.psnr-floor") == "not-run"


@pytest.mark.parametrize(
    ("loss", "expected"), [(35.0, "reproduced"), (45.0, "differs"), (12.0, "reproduced")]
)
def test_another_distance_is_told_apart_in_either_direction(loss: float, expected: str) -> None:
    lines = [
        line("thesis-table-3-12", "psnr", number, victim="lenet-grnn", attack=attack, baseline=baseline)
        for attack, number, baseline in (
            ("grnn", 40.0, ""),
            ("grnn-wasserstein", loss, ""),
            ("grnn", 12.4, "dataset-mean"),
        )
    ]
    assert word(card(lines), "thesis.doubt-19.wd-not-wasserstein") == (
        "reproduced" if expected == "differs" else expected
    )
    failed = [
        each | {"mean": each["mean"] - 35, "ci_low": each["mean"] - 35.001, "ci_high": each["mean"] - 34.999}
        for each in lines[:2]
    ]
    assert word(card([*failed, lines[2]]), "thesis.doubt-19.wd-not-wasserstein") == "inconclusive"
