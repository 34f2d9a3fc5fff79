"""Metrics of labels, and the table of all metrics."""

from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import leakbench.metrics
from leakbench.metrics import METRICS, measure
from leakbench.metrics.baselines import constant_labels
from leakbench.metrics.identification import identified
from leakbench.metrics.labels import label_accuracy, label_counts, label_presence, labels_matched
from leakbench.metrics.matching import best, match
from leakbench.metrics.scoring import labels as scoring
from leakbench.metrics.update_matching import matching_success


def least_cost(cost: np.ndarray) -> float:
    n, k = cost.shape
    if n >= k:
        return min(
            sum(cost[row, column] for column, row in enumerate(rows)) for rows in permutations(range(n), k)
        )
    return least_cost(cost.T)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_no_permutation_is_cheaper(n: int, k: int, seed: int) -> None:
    cost = np.random.default_rng(seed).random((n, k))
    index = match(cost)
    assert index.shape == (k,)
    matched = np.flatnonzero(index >= 0)
    assert len(matched) == min(n, k)
    assert len(set(index[matched])) == len(matched)
    assert (index[index < 0] == -1).all()
    assert cost[index[matched], matched].sum() == pytest.approx(least_cost(cost), abs=1e-12)


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.sampled_from([np.nan, np.inf]))
def test_a_diverged_reconstruction_gets_the_last_place(n: int, seed: int, bad: float) -> None:
    cost = np.random.default_rng(seed).random((n, n))
    cost[0] = bad
    index = match(cost)
    assert sorted(index) == list(range(n))
    good = index != 0
    assert cost[index[good], np.flatnonzero(good)].sum() == pytest.approx(least_cost(cost[1:]), abs=1e-12)
    spare = np.vstack([cost, np.random.default_rng(seed + 1).random((1, n)) + 10])
    assert 0 not in match(spare)


def test_batches_with_nothing_to_match() -> None:
    assert match(np.zeros((0, 3))).tolist() == [-1, -1, -1]
    assert match(np.zeros((3, 0))).tolist() == []
    assert sorted(match(np.full((2, 2), np.nan))) == [0, 1]
    with pytest.raises(ValueError, match=r"expected \[n, k\]"):
        match(np.zeros(3))


def test_best_chooses_for_each_image_on_its_own() -> None:
    index, value = best(np.array([[0.9, 0.8, np.nan, -0.5], [0.1, 0.85, np.nan, np.nan]]))
    assert index.tolist() == [0, 1, -1, 0]
    np.testing.assert_array_equal(value, [0.9, 0.85, np.nan, -0.5])
    similarity = np.random.default_rng(0).random((3, 5, 4))
    index, value = best(similarity)
    assert np.array_equal(index, similarity.argmax(1))
    assert np.array_equal(value, similarity.max(1))
    index, value = best(np.zeros((2, 0, 3)))
    assert index.tolist() == [[-1] * 3] * 2
    assert np.isnan(value).all()


def test_presence_counts_and_instances_by_hand() -> None:
    truth, guess = np.array([0, 0, 0, 2]), np.array([0, 0, 1, 1])
    # Of five classes, the presence of 0, 3 and 4 is right, and the number of instances of 3 and 4 alone.
    assert label_presence(guess, truth, 5) == pytest.approx(3 / 5)
    assert label_counts(guess, truth, 5) == pytest.approx(2 / 5)
    assert label_accuracy(guess, truth) == pytest.approx(2 / 4)
    # What is no class is counted for none.
    truth, guess = np.array([0, 1, 1]), np.array([-1, 1, 9])
    assert (label_presence(guess, truth, 4), label_counts(guess, truth, 4)) == (0.75, 0.5)


def test_the_constant_answer_has_the_shares_of_the_classes() -> None:
    assert constant_labels(np.array([0.5, 0.3, 0.2]), 10).tolist() == [0] * 5 + [1] * 3 + [2] * 2
    assert constant_labels(np.array([0.4, 0.35, 0.25]), 3).tolist() == [0, 1, 2]
    # The largest remainder is that of the largest class.
    assert constant_labels(np.array([0.5, 0.3, 0.2]), 7).tolist() == [0] * 4 + [1] * 2 + [2]


def test_each_update_has_a_row_and_its_null_baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "read_facts", lambda _: {"network": {"classes": 4}})
    truth = np.array([[0, 1], [2, 2], [3, 0]])
    truths = SimpleNamespace(
        secret={
            "labels/0": truth, "images/0": np.arange(6).reshape(3, 2),
            "checkpoint": np.array([0, 0, 5]), "pass": np.zeros(3, int),
        },
        facts={"split": "test"}, arrays={"train/labels": np.array([0, 1, 2, 3])}, victim=Path("v"),
    )  # fmt: skip
    guesses = {"labels": truth[:, None], "null/labels": np.array([[[1, 1]]])}
    frames = list(scoring.label_rows(guesses, truths, 0, np.random.default_rng(0)))
    assert [frame["baseline"].iloc[0] for frame in frames] == [
        "", "random-gradient", "label-prior", "label-constant",
    ]  # fmt: skip
    own, null, _, constant = frames
    assert own["label_accuracy"].tolist() == own["label_counts"].tolist() == [1, 1, 1]
    assert own["checkpoint"].tolist() == [0, 0, 5]
    assert null["label_accuracy"].tolist() == [0.5]
    assert constant["label_accuracy"].tolist() == [1.0, 0.0, 0.5]


labels = st.lists(st.integers(0, 4), min_size=1, max_size=6)


@given(labels, labels)
def test_overlap_is_the_best_any_permutation_reaches(guesses: list[int], truths: list[int]) -> None:
    padded = guesses + [-1] * max(0, len(truths) - len(guesses))
    hits = max(sum(g == t for g, t in zip(order, truths, strict=False)) for order in permutations(padded))
    assert label_accuracy(np.array(guesses), np.array(truths)) == pytest.approx(hits / len(truths))


@given(labels, st.integers(0, 2**32 - 1))
def test_matched_labels_equal_a_loop_and_never_beat_the_overlap(truths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    guesses = rng.integers(0, 5, len(truths))
    index = rng.permutation(len(truths))
    index[rng.random(len(truths)) < 0.3] = -1
    expected = [i >= 0 and bool(guesses[i] == truth) for i, truth in zip(index, truths, strict=True)]
    assert labels_matched(guesses, np.array(truths), index).tolist() == expected
    assert np.mean(expected) <= label_accuracy(guesses, np.array(truths)) + 1e-12


def test_nothing_guessed_and_nothing_asked() -> None:
    nothing = np.array([], dtype=int)
    assert label_accuracy(nothing, np.array([1, 2])) == 0.0
    assert np.isnan(label_accuracy(np.array([1]), nothing))
    with pytest.raises(ValueError, match="2 labels but 1"):
        labels_matched(np.array([1]), np.array([1, 2]), np.array([0]))


RNG = np.random.default_rng(0)
POOL = RNG.random((50, 3, 6, 6))


def test_a_reconstruction_nearest_to_its_own_image_is_identified() -> None:
    noisy = POOL[:5] + RNG.normal(0, 0.05, (5, 3, 6, 6))
    assert identified(noisy, POOL[:5], POOL).tolist() == [1] * 5
    assert identified(POOL[1:6], POOL[:5], POOL).tolist() == [0] * 5
    noisy[1, 0, 0, 0] = np.nan
    np.testing.assert_array_equal(identified(noisy[:2], POOL[:2], POOL), [1, np.nan])
    # The image itself need not be in the pool.
    outside, grey = RNG.random((2, 3, 6, 6)), np.full((2, 3, 6, 6), 0.5)
    assert identified(outside, outside, POOL).tolist() == [1, 1]
    own, distance = ((grey - outside) ** 2).mean((1, 2, 3)), ((grey[0] - POOL) ** 2).mean((1, 2, 3)).min()
    assert identified(grey, outside, POOL).tolist() == (own <= distance).astype(float).tolist()


JUDGES = {"resnet18": "judge_resnet18_faces", "densenet121": "judge_densenet121_faces"}


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_label_is_among_the_highest_answers(judge: str, count: int) -> None:
    rng = np.random.default_rng(count)
    images, labels = rng.random((200, 3, 4, 4)), rng.integers(0, 12, 200)
    answers = rng.standard_normal((200, 12))
    # Somewhat better than chance. A tie is no identification, and what is no image has no person.
    answers[np.arange(200), labels] += 1
    answers[0], images[1, 0, 0, 0] = 0.0, np.nan
    other = {need: rng.standard_normal((200, 12)) for need in JUDGES.values()}
    name = f"top{count}_{judge}"
    found = measure([name], images, images, other | {"labels": labels, JUDGES[judge]: answers})[name]
    first = torch.from_numpy(answers).topk(count).indices.numpy()
    expected = [
        0.0, np.nan, *(float(label in row) for label, row in list(zip(labels, first, strict=True))[2:]),
    ]  # fmt: skip
    np.testing.assert_array_equal(found, expected)
    assert METRICS[name].needs == ("labels", JUDGES[judge])


NAN = float("nan")
# Two passes of two rounds, two candidates each; candidates are numbered 0 … 7.
IMAGES = np.array([[10, 11], [12, 13], [13, 10], [11, 12]])
PASSES = np.array([0, 0, 1, 1])
IN_ORDER = np.tile([0, 1], (4, 1))
RIGHT = [[-1, -1], [-1, -1], [3, 0], [1, 2]]
# Partners of the candidates, their match to the images, and what is recognised in the second pass.
MATCHINGS = {
    "right": (RIGHT, IN_ORDER, [[1, 1], [1, 1]]),
    "a wrong partner, and none": ([*RIGHT[:2], [2, 0], [1, -1]], IN_ORDER, [[0, 1], [1, 0]]),
    # Candidates of the second round and of the last stand the other way round, and so do their partners.
    "any order": ([*RIGHT[:2], [2, 0], [3, 1]], [[0, 1], [1, 0], [0, 1], [1, 0]], [[1, 1], [1, 1]]),
    "any order, not told": ([*RIGHT[:2], [2, 0], [3, 1]], IN_ORDER, [[0, 1], [0, 0]]),
    "no candidate": (RIGHT, [[0, -1], [0, 1], [-1, 1], [0, 1]], [[0, 1], [0, 1]]),
}


@pytest.mark.parametrize("name", MATCHINGS)
def test_a_partner_is_right_if_both_candidates_are_one_image(name: str) -> None:
    partner, match, found = MATCHINGS[name]
    told = matching_success(np.array(partner), np.array(match), IMAGES, PASSES)
    np.testing.assert_array_equal(told, [[NAN, NAN], [NAN, NAN], *found])


def test_candidates_beyond_a_small_clients_images_do_not_shift_the_numbers() -> None:
    partner = np.array([[-1, -1, -1], [-1, -1, -1], [3, -1, -1], [0, -1, -1]])
    found = matching_success(partner, np.zeros((4, 1), int), np.array([[4], [5], [5], [4]]), PASSES)
    assert found[2:].tolist() == [[1], [1]]


OF_TEXT = ("token_accuracy", "exact_sentence", "rouge_1", "rouge_2")
# Direction → names. Those that a paper prints are PUBLISHED, and all others are what the field means.
NAMES = {
    True: [
        "exact", "exact_record", "feature_accuracy", *OF_TEXT, "psnr", "ssim", "pearson", "channel_pearson",
        "psnr_of_rmse", "psnr_uint8_wrap", "identified", "agreement", "alarm_d_snr", "alarm_dynamics",
        "alarm_few_open", "alarm_isolation", "alarm_one_sided_rows", "alarm_rows_alike", "label_ok",
        "label_accuracy", "label_presence", "label_counts", "membership_auc", "tpr_at_fpr_0",
        "tpr_at_fpr_0_001", "epsilon_low", "members_accepted", "accuracy", "matching_success",
        "matching_success_no_labels", "matching_success_no_pooling", "matching_success_plain",
        "top1_resnet18", "top3_resnet18", "top5_resnet18", "top1_densenet121",
        "top3_densenet121", "top5_densenet121",
    ],
    False: [
        "mse", "tv_ratio", "coarse_error", "colour_error", "gradient_mse", "lpips_alex", "lpips_vgg",
        "rmse_255", "lpips_alex_raw255_bgr", "lpips_vgg_raw255_bgr", "seconds", "false_accepted",
        "span_distance", "false_acceptances", "update_bytes",
    ],
}  # fmt: skip
PUBLISHED = {"rmse_255", "psnr_of_rmse", "psnr_uint8_wrap", "lpips_alex_raw255_bgr", "lpips_vgg_raw255_bgr"}
CONVENTIONS = {
    name: ("published" if name in PUBLISHED else "standard", higher)
    for higher, names in NAMES.items()
    for name in names
}
# What the scorer measures on its own match, and not on pairs of images.
OF_UPDATES = {name for name, metric in METRICS.items() if metric.of in ("updates", "models", "candidates")}
WITHOUT_WEIGHTS = sorted(
    name
    for name in set(CONVENTIONS) - OF_UPDATES
    if not name.startswith(("lpips", "top"))
    and name not in ("identified", "exact_record", "feature_accuracy", *OF_TEXT)
)


def test_every_name_has_its_convention_and_direction() -> None:
    assert {name: (m.convention, m.higher_is_better) for name, m in METRICS.items()} == CONVENTIONS
    assert all(metric.name == name for name, metric in METRICS.items())
    assert all(METRICS[name].function.__name__ == name for name in WITHOUT_WEIGHTS)
    weighty = set(CONVENTIONS) - set(WITHOUT_WEIGHTS) - OF_UPDATES
    assert {name for name, metric in METRICS.items() if metric.needs} == weighty


def test_adding_a_metric_is_adding_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "largest_error.py").write_text(
        "import numpy as np\n"
        "from leakbench.metrics.metric import Metric\n"
        "def largest_error(a, b):\n"
        "    return np.abs(a - b).max(axis=(1, 2, 3))\n"
        "METRICS = (Metric('largest_error', largest_error, 'standard', higher_is_better=False),)\n"
    )
    monkeypatch.setattr(leakbench.metrics, "__path__", [*leakbench.metrics.__path__, str(tmp_path)])
    table = leakbench.metrics._declared()
    assert set(table) == set(METRICS) | {"largest_error"}
    (tmp_path / "again.py").write_text("from leakbench.metrics.mse import METRICS\n")
    with pytest.raises(ImportError, match="same name"):
        leakbench.metrics._declared()


@pytest.mark.parametrize("name", WITHOUT_WEIGHTS)
def test_the_better_of_two_reconstructions_scores_better(name: str, photographs: np.ndarray) -> None:
    noise = np.random.default_rng(0).standard_normal(photographs.shape)
    # Exact is what would be stored in the same bytes, so the nearer one has less than half a level of noise.
    little = 1e-4 if name == "exact" else 0.01
    near, far = np.rint(255 * photographs) / 255 + little * noise, photographs + 0.2 * noise
    near, far = (measure([name], guess, np.rint(255 * photographs) / 255)[name] for guess in (near, far))
    better = near > far if METRICS[name].higher_is_better else near < far
    assert better.all()


def test_published_numbers_differ_from_the_standard_ones_of_like_name(photographs: np.ndarray) -> None:
    scores = measure(WITHOUT_WEIGHTS, photographs, photographs[[1, 2, 0]])
    assert list(scores) == WITHOUT_WEIGHTS
    assert all(score.shape == (3,) and score.dtype == np.float64 for score in scores.values())
    assert (scores["rmse_255"] > 100 * scores["mse"]).all()
    assert (scores["psnr_of_rmse"] > scores["psnr"] + 10).all()
    assert (scores["psnr_uint8_wrap"] > scores["psnr"] + 10).all()
